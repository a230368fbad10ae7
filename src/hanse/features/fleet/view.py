"""Every cluster, its agent, and the connections between clusters."""

from collections.abc import Iterable
from datetime import datetime

from hanse.features.fleet.findings import cluster_findings
from hanse.features.fleet.links import link_findings
from hanse.model.broker_namespace import MEMBER
from hanse.model.facts import (
    AgentLeaseRefused,
    AgentRun,
    ClusterState,
    ElectionFailure,
    HeartbeatState,
    KindCounted,
    Leadership,
    LeaseLiveness,
    Phase,
    Role,
    WriteOutcome,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Namespace, Node, ServiceAccount
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE, holder_cluster
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch
from hanse.model.view import Item, Part, State, state_of

_STATES: dict[Phase, State] = {
    Phase.SYNCED: "good",
    Phase.CONNECTING: "warn",
    Phase.RESTORED: "warn",
    Phase.LEAVING: "idle",
    Phase.UNREACHABLE: "bad",
}

MEMBER_ACCOUNTS = Watch(Role.LOCAL, ServiceAccount, labels=MEMBER, optional=True)
"""The accounts of the members of a broker."""

_READS = (
    Watch(Role.LOCAL, Node),
    Watch(Role.LOCAL, Namespace),
    MEMBER_ACCOUNTS,
    Watch(Role.LOCAL, ClusterSet),
    Watch(Role.LOCAL, ClusterMember),
)
_JUDGED = tuple(watch.kind for watch in _READS)
"""The kinds of objects that findings about their cluster follow from."""


class ClusterItem(Item, frozen=True, kw_only=True):
    """One cluster: its roles, the state of its connection, and counts."""

    name: ClusterId
    roles: tuple[str, ...]
    agent: bool
    state: State
    phase: str
    since: datetime | None
    reason: str = ""
    leader: str = ""
    """Who leads it as a member, where there are leaders."""
    replica: str = ""
    """Which replica of its agent works, as far as its Lease says so to a person who reads it."""
    standby: int = 0
    """How many replicas of it are ready, and wait for that Lease."""
    exports: int = 0
    imports: int = 0
    nodes: int = 0


class LinkItem(Part, frozen=True, kw_only=True):
    """The connection of one cluster's agent to another cluster."""

    source: ClusterId
    target: ClusterId
    state: State
    phase: str
    since: datetime
    reason: str = ""
    leads: bool = False


class ClustersView:
    """Every cluster that an agent connects to, or that shows a broker that it is alive."""

    name = "clusters"
    reads = _READS

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The names of all known clusters."""
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        """The cluster of a changed fact, or of an object of a kind that findings are derived from.

        Facts are those of `_concerned_clusters`. A ClusterMember also affects the cluster that it
        names; an export or import counts only when it appears or disappears.
        """
        match change:
            case FactChange():
                return _concerned_clusters(change)
            case ObjectChange(where, before, after):
                obj = after or before
                if isinstance(obj, _JUDGED):
                    return (where, obj.name) if isinstance(obj, ClusterMember) else (where,)
                counted = isinstance(after or before, ServiceExport | ServiceImport)
                return (where,) if counted and (before is None or after is None) else ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> ClusterItem | None:
        """The cluster's item; None if it is unknown.

        With a fault (`fault_of`) its state is `bad`, and time and reason are the fault's. Else the
        state is that of the worst finding, or, if none is worse than a note, that of the connection
        (`idle` without one).
        """
        if key not in snapshot.clusters:
            return None
        state = next(iter(snapshot.connections_to(key).values()), None)
        fault = snapshot.fault_of(key)
        findings = tuple(cluster_findings(key, snapshot))
        connected: State = "idle" if state is None else _STATES[state.phase]
        return ClusterItem(
            name=key,
            roles=_roles(key, snapshot),
            agent=_has_agent(key, snapshot),
            state="bad" if fault is not None else state_of(findings, connected),
            phase=state.phase if state is not None else "",
            since=fault.since if fault is not None else state.since if state is not None else None,
            reason=fault.reason if fault is not None else state.reason if state is not None else "",
            findings=findings,
            leader=_leader(key, snapshot),
            replica=_working_replica(key, snapshot),
            standby=_waiting_replicas(key, snapshot),
            exports=sum(1 for _ in snapshot.all(key, ServiceExport)),
            imports=_count_imports(key, snapshot),
            nodes=sum(1 for _ in snapshot.all(key, Node)),
        )


def _count_imports(where: ClusterId, snapshot: MultiClusterSnapshot) -> int:
    """The number of ServiceImports in a cluster: as its agent counted them, else those listed."""
    reporter = snapshot.for_cluster(where)
    counted = reporter.fact(KindCounted, (where, ServiceImport.kind)) if reporter else None
    if counted is not None and counted.total is not None:
        return counted.total
    return sum(1 for _ in snapshot.all(where, ServiceImport))


class LinksItem(Item, frozen=True, kw_only=True):
    """The connections of other clusters' agents to one cluster."""

    links: tuple[LinkItem, ...]


class LinksView:
    """Every connection of agents, by the cluster that it leads to."""

    name = "links"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The names of all known clusters."""
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        """The clusters that a changed fact is about; none for objects."""
        return _concerned_clusters(change)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> LinksItem | None:
        """The links of other agents to a cluster, with their findings.

        None if there are none or the cluster is not known.
        """
        if key not in snapshot.clusters:
            return None
        found = (
            _link_item(source, key, agent_snapshot)
            for source, agent_snapshot in snapshot.by_agent.items()
            if source != key
        )
        links = tuple(link for link in found if link is not None)
        if not links:
            return None
        return LinksItem(links=links, findings=tuple(link_findings(key, snapshot)))


def _link_item(source: ClusterId, target: ClusterId, snapshot: Snapshot) -> LinkItem | None:
    """The link between two clusters as the source's agent sees it; None if it has no state."""
    state = snapshot.fact(ClusterState, target)
    if state is None:
        return None
    leadership = snapshot.fact(Leadership, target)
    return LinkItem(
        source=source,
        target=target,
        state=_STATES[state.phase],
        phase=state.phase,
        since=state.since,
        reason=state.reason,
        leads=leadership is not None and leadership.ours,
    )


def _concerned_clusters(change: Change) -> tuple[ClusterId, ...]:
    """The cluster that a changed state, leadership, Lease, refusal or outcome of a write is about.

    None for a change of an object or of any other fact.
    """
    if not isinstance(change, FactChange):
        return ()
    match change.fact:
        case ClusterState(cluster):
            return (cluster,)
        case Leadership(member):
            return (member,)
        case LeaseLiveness(lease=lease):
            return (lease,)
        case HeartbeatState(where):
            return (where,)
        case ElectionFailure(refused) | AgentLeaseRefused(refused):
            return (refused,)
        case WriteOutcome(target):
            return (target.where.rpartition("/")[2],)
        case _:
            return ()


def _roles(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[str, ...]:
    """The sorted roles of a cluster as all agents see them, without LED."""
    return tuple(sorted(role for role in snapshot.roles(cluster) if role is not Role.LED))


def _leader(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The cluster that leads a member: of an agent that leads it itself, else of the highest epoch.

    Empty if no agent knows a leadership.
    """
    known = [s.fact(Leadership, cluster) for s in snapshot.by_agent.values()]
    leaderships = [one for one in known if one is not None]
    ours = next((one for one in leaderships if one.ours), None)
    chosen = ours or max(leaderships, key=lambda one: one.epoch, default=None)
    return "" if chosen is None else holder_cluster(chosen.holder)


def _working_replica(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The replica that holds the Lease of a cluster's agent, as the holder names it after `_`.

    Empty if none works, or that is not known.
    """
    own = snapshot.by_agent.get(cluster)
    run = own.fact(AgentRun, cluster) if own is not None else None
    return run.holder.partition("_")[2] if run is not None and run.alive else ""


def _waiting_replicas(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> int:
    """The ready replicas of an agent's Deployment but the one that works.

    0 without a Deployment, and if no replica is known to work.
    """
    installed = snapshot.get(cluster, Deployment, AGENT, SYSTEM_NAMESPACE)
    if installed is None or not _working_replica(cluster, snapshot):
        return 0
    return max(installed.status.ready_replicas - 1, 0)


def _has_agent(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> bool:
    """Whether a cluster has an agent. If one reports: unless its Lease is known and has no holder.

    Without one that reports: only if the Lease of the cluster on a broker has run out.
    """
    reporter = snapshot.by_agent.get(cluster)
    if reporter is None:
        return snapshot.silence_of(cluster) is not None
    run = reporter.fact(AgentRun, cluster)
    return run is None or bool(run.holder)
