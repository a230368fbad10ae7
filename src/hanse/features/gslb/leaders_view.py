"""Who leads the GSLB configuration, and what is wrong if nobody does, or two do."""

from collections.abc import Iterable, Iterator, Sequence

from hanse.features.gslb.names import TERM
from hanse.features.gslb.terms import first_to_demote, leader_term, parse_epoch
from hanse.model.facts import ClusterState, Role
from hanse.model.findings import Finding, Ref, Remedy, Severity, cluster_ref, remedy, subject_of
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GlobalDeploymentPolicy, GSLBConfig
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import Item

_CONFIGURATION = (GSLBConfig, GlobalDeploymentPolicy)
"""The kinds without which there are no hosts."""


class LeadersView:
    """Who leads the GSLB configuration: exactly one cluster should."""

    name = "gslb-leaders"
    reads = tuple(Watch(Role.LOCAL, kind) for kind in (AMKOCluster, *_CONFIGURATION))

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The only key, if any cluster has an AMKOCluster."""
        return ("leader",) if any(True for _ in snapshot.everywhere(AMKOCluster)) else ()

    def keys_for(self, change: Change) -> Iterable[str]:
        """The only key, for an AMKOCluster, and for a GSLBConfig or policy that comes or goes."""
        if isinstance(change, FactChange):
            return ()
        there = change.before is not None and change.after is not None
        concerns = isinstance(change.object, AMKOCluster) or (
            isinstance(change.object, _CONFIGURATION) and not there
        )
        return ("leader",) if concerns else ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Item | None:  # noqa: ARG002 - the contract of views
        """The item with TwoLeaders, LeaderMissing, or GslbIncomplete of the only leader; else None.

        Clusters with isLeader that are lost do not count. None, too, without any AMKOCluster, or if
        no cluster leads and one that an AMKOCluster names was not read.
        """
        own = _by_cluster(snapshot)
        leading = {w: a for w, a in own if a.spec.is_leader and not snapshot.is_lost(w)}
        if len(leading) > 1:
            terms = {w: _epoch(a) for w, a in leading.items()}
            found = Finding(
                code="TwoLeaders",
                severity=Severity.DEGRADED,
                subject=LEADER,
                summary=f"{' and '.join(terms)} both lead the GSLB configuration",
                remedy=remedy(f"hanse gslb demote {first_to_demote(terms)}"),
            )
            return Item(findings=(found,))
        if leading:
            incomplete = tuple(_incomplete(*next(iter(leading.items())), snapshot))
            return Item(findings=incomplete) if incomplete else None
        if not own or not _all_read(own, snapshot):
            return None
        found = Finding(
            code="LeaderMissing",
            severity=Severity.DEGRADED,
            subject=LEADER,
            summary="no cluster leads the GSLB configuration, so that nothing is balanced anew",
            remedy=remedy(f"hanse gslb promote {_last_leader(own, snapshot)}"),
            caused_by=tuple(cluster_ref(w) for w, a in own if a.spec.is_leader),
        )
        return Item(findings=(found,))


LEADER = Ref("AMKOCluster", "leader")
"""The subject of findings about who leads."""


def _incomplete(
    where: ClusterId, own: AMKOCluster, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """GslbIncomplete: a leader has a GSLBConfig and no policy in the GSLB namespace, or vice versa.

    Nothing until both kinds are listed there.
    """
    if not all(snapshot.listed(where, kind) for kind in _CONFIGURATION):
        return
    there = {
        kind: [subject_of(o, where) for o in snapshot.all(where, kind) if o.namespace == NAMESPACE]
        for kind in _CONFIGURATION
    }
    missing = [kind.kind.name for kind, found in there.items() if not found]
    if len(missing) == 1:
        yield Finding(
            code="GslbIncomplete",
            severity=Severity.RISK,
            subject=subject_of(own, where),
            summary=f"{where} leads the GSLB configuration and has no {missing[0]} in {NAMESPACE}: "
            "no host is balanced",
            remedy=Remedy(
                f"create it in {where}: `{snapshot.kubectl(where, 'apply -n avi-system -f FILE')}`",
                ask=f"whoever keeps the GSLB configuration of {where}",
            ),
            caused_by=tuple(one for found in there.values() for one in found),
        )


def _by_cluster(snapshot: MultiClusterSnapshot) -> list[tuple[ClusterId, AMKOCluster]]:
    """Pairs of cluster and its AMKOCluster, also of those that only a leader's connection reads.

    Those in the GSLB namespace; of several the last. A cluster's own agent counts before such a
    connection.
    """
    connected = {s.cluster for one in snapshot.by_agent.values() for s in one.facts(ClusterState)}
    found = {
        where.rpartition("/")[2]: own
        for where in sorted(connected, key=lambda where: ("/" not in where, where))
        for own in snapshot.all(where, AMKOCluster)
        if own.namespace == NAMESPACE
    }
    return list(found.items())


def _last_leader(
    own: Sequence[tuple[ClusterId, AMKOCluster]], snapshot: MultiClusterSnapshot
) -> ClusterId:
    """The cluster that the latest leader annotation on an AMKOCluster names, if it is not lost.

    Else the first that is not lost, else the first of `own`.
    """
    terms = [term for _, one in own if (term := leader_term(one)) is not None]
    last = max(terms, key=lambda term: term.epoch).context if terms else ""
    reached = [one for one in own if not snapshot.is_lost(one[0])] or own
    return next((w for w, one in reached if one.spec.cluster_context == last), reached[0][0])


def _epoch(own: AMKOCluster) -> int:
    """The epoch in an AMKOCluster's annotation; 0 without a valid one."""
    return parse_epoch(own.metadata.annotations.get(TERM, ""))


def _all_read(own: Sequence[tuple[ClusterId, AMKOCluster]], snapshot: MultiClusterSnapshot) -> bool:
    """Whether every cluster in `spec.clusters` has an AMKOCluster that was read and is not lost.

    One that was not read may lead.
    """
    known = {w for w, _ in own} | {a.spec.cluster_context for _, a in own}
    reached = {w for w in known if not snapshot.is_lost(w)}
    return all(reached.issuperset(a.spec.clusters) for _, a in own)
