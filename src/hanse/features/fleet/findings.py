"""What is wrong with clusters, their agents, and the connections between them."""

from collections.abc import Iterator

from hanse.model.broker_namespace import lost_broker_namespace
from hanse.model.clusterset import oldest_clusterset
from hanse.model.facts import AgentRun, ClusterState, CredentialsRefused, ListDenied, Phase, Role
from hanse.model.findings import (
    Finding,
    Ref,
    Remedy,
    Severity,
    Unknown,
    cluster_ref,
    link_ref,
    remedy,
    subject_of,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace, Node
from hanse.model.kinds.federation import Federation
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.member_ranges import overlaps_of
from hanse.model.naming import AGENT, BROKER_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.ownership import PAUSED, is_paused
from hanse.model.remedies import erase_ranges


def cluster_findings(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """What is wrong with one cluster: only the first of the faults of connection and agent.

    All other findings follow, whether there is such a fault or not.
    """
    down = next(_faults(cluster, snapshot), None)
    if down is not None:
        yield down
    yield from _pauses(cluster, snapshot)
    yield from _lost_namespace(cluster, snapshot)
    yield from _lost_rules(cluster, snapshot)
    yield from _ignored_rules(cluster, snapshot)
    yield from _abandoned_members(cluster, snapshot)
    yield from _moving_members(cluster, snapshot)
    yield from _overlapping_ranges(cluster, snapshot)
    yield from _unready_nodes(cluster, snapshot)
    yield from _denied_lists(cluster, snapshot)


def _faults(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """CredentialsRefused, ClusterUnreachable, BrokerLost, AgentMissing, AgentSilent, ClusterSilent.

    Most serious first; after one of the first three there are no others.
    """
    fault = snapshot.fault_of(cluster)
    own = snapshot.by_agent.get(cluster)
    if own is not None and (refused := own.fact(CredentialsRefused, cluster)) is not None:
        context = snapshot.context(cluster)
        yield Finding(
            code="CredentialsRefused",
            severity=Severity.DEGRADED,
            subject=cluster_ref(cluster),
            summary=f"the credentials of context {context} do not work: {refused.reason}",
            remedy=remedy(
                advice="log in anew, or mend its cluster, user or files in the kubeconfig, which "
                f"`kubectl config view --minify --context {context}` shows"
            ),
            certainty=Unknown(refused.reason),
        )
        return
    if fault is not None and fault.code == "ClusterUnreachable":
        is_broker = snapshot.roles(cluster) == {Role.BROKER}
        start = f"hanse local start {cluster}"
        yield Finding(
            code="BrokerLost" if is_broker else "ClusterUnreachable",
            severity=Severity.DEGRADED,
            subject=cluster_ref(cluster),
            summary=f"{'broker' if is_broker else 'cluster'} {cluster} is not reached: "
            f"{fault.reason or 'it does not answer'}",
            remedy=remedy(start)
            if snapshot.local
            else remedy(advice=f"start the API server of {cluster}, or mend the network to it"),
            since=fault.since,
        )
        return
    yield from _agent_faults(cluster, snapshot)
    if fault is not None:
        yield _silent(cluster, snapshot)


def _agent_faults(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """AgentMissing and AgentSilent, by the Lease of the agent in its own cluster.

    A broker whose Lease nobody ever held needs no agent.
    """
    own = snapshot.by_agent.get(cluster)
    run = own.fact(AgentRun, cluster) if own is not None else None
    if run is None or run.alive or (Role.BROKER in snapshot.roles(cluster) and not run.holder):
        return
    start = f"hanse local start agent {cluster}"
    context = snapshot.context(cluster)
    restart = (
        f"kubectl --context {context} -n {SYSTEM_NAMESPACE} rollout restart deployment/{AGENT}"
    )
    install = f"hanse manifests --cluster-id {cluster} | kubectl --context {context} apply -f -"
    yield Finding(
        code="AgentSilent" if run.holder else "AgentMissing",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"the agent of {cluster} does not run: it does not renew its Lease"
        if run.holder
        else f"no agent has ever run in {cluster}: there is no Lease {SYSTEM_NAMESPACE}/{AGENT}",
        remedy=remedy(start if snapshot.local else restart if run.holder else install),
        since=run.renewed,
    )


def _silent(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Finding:
    """ClusterSilent: its agent runs, or nobody can say, and does not show so on the broker.

    AgentSilent where all agents are known and this cluster has none (`hanse up`).
    """
    silence = snapshot.silence_of(cluster)
    broker = silence.where if silence is not None else "the broker"
    own = snapshot.by_agent.get(cluster)
    stopped = own is None and snapshot.local  # the page of `hanse up` has every agent that runs
    if stopped:
        commands: tuple[str, ...] = (f"hanse local start agent {cluster}",)
        why = f"the agent of {cluster} does not run"
    else:
        commands = (f"hanse local heal {cluster} {broker}",) if snapshot.local else ()
        why = f"the agent of {cluster} does not reach {broker}"
    return Finding(
        code="AgentSilent" if stopped else "ClusterSilent",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"{cluster} is silent: {why}, so that the other clusters leave out what it has",
        remedy=remedy(*commands)
        if commands
        else remedy(
            advice=f"mend the network between {cluster} and {broker}, or the credentials of its "
            f"agent, which its log names: `{_agent_log(cluster, snapshot)}`"
        ),
        since=silence.since if silence is not None else None,
    )


def _agent_log(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The command that shows what the agent of a cluster says."""
    return snapshot.kubectl(cluster, f"logs deployment/{AGENT} --tail=20", SYSTEM_NAMESPACE)


def _pauses(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """AgentPaused by the namespace's annotation; FleetPaused by spec.paused of any ClusterSet."""
    system = snapshot.get(cluster, Namespace, SYSTEM_NAMESPACE)
    if system is not None and is_paused(system):
        yield Finding(
            code="AgentPaused",
            severity=Severity.DEGRADED,
            subject=cluster_ref(cluster),
            summary=f"the agent of {cluster} is paused and writes nothing but status: namespace "
            f"{SYSTEM_NAMESPACE} is annotated {PAUSED}=true",
            remedy=remedy(
                snapshot.kubectl(cluster, f"annotate namespace {SYSTEM_NAMESPACE} {PAUSED}-")
            ),
        )
    for one in snapshot.all(cluster, ClusterSet):
        if one.spec.paused:
            patch = '{"spec":{"paused":false}}'
            yield Finding(
                code="FleetPaused",
                severity=Severity.DEGRADED,
                subject=subject_of(one, cluster),
                summary=f"all agents are paused and write nothing but status: ClusterSet "
                f"{one.name} says so",
                remedy=remedy(
                    snapshot.kubectl(
                        cluster, f"patch clusterset {one.name} --type merge -p '{patch}'"
                    )
                ),
            )


def _lost_namespace(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """BrokerNamespaceMissing: somebody deleted what clusters share; what they have stands."""
    namespace = lost_broker_namespace(cluster, snapshot)
    if namespace:
        yield Finding(
            code="BrokerNamespaceMissing",
            severity=Severity.DEGRADED,
            subject=cluster_ref(cluster),
            summary=f"namespace {namespace}, where clusters share, is gone from {cluster} or being "
            "deleted: what they have of each other stays as it was, and nothing new is shared",
            remedy=remedy(_init_broker(cluster, namespace, snapshot)),
        )


def _init_broker(cluster: ClusterId, namespace: str, snapshot: MultiClusterSnapshot) -> str:
    """The command that makes everything that a broker needs."""
    place = f" --namespace {namespace}" if namespace != BROKER_NAMESPACE else ""
    return f"hanse broker init --context {snapshot.context(cluster)}{place}"


def _lost_rules(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """ClusterSetMissing: a broker with members has no ClusterSet; the rules they kept stand."""
    own = snapshot.for_cluster(cluster)
    if own is None or not own.synced(cluster, ClusterSet):
        return
    members = [one for one in snapshot.all(cluster, ClusterMember) if not one.has_left]
    if members and not any(True for _ in snapshot.all(cluster, ClusterSet)):
        yield Finding(
            code="ClusterSetMissing",
            severity=Severity.RISK,
            subject=Ref("ClusterSet", "default", cluster=cluster),
            summary=f"{cluster} has {len(members)} members and no ClusterSet: the last rules "
            "stand, and cannot be changed",
            remedy=remedy(_init_broker(cluster, members[0].namespace, snapshot)),
        )


def _ignored_rules(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """ClusterSetIgnored: a broker has several, and the oldest counts."""
    sets = list(snapshot.all(cluster, ClusterSet))
    counted = oldest_clusterset(sets)
    for one in sorted(sets, key=lambda s: s.name):
        if counted is not None and one is not counted:
            yield Finding(
                code="ClusterSetIgnored",
                severity=Severity.RISK,
                subject=subject_of(one, cluster),
                summary=f"the rules of ClusterSet {one.name} of {cluster} do not count, but for a "
                f"pause: {counted.name} is older, and a fleet has one",
                remedy=remedy(
                    snapshot.kubectl(cluster, f"delete clusterset {one.name}"),
                    advice=f"first write into {counted.name} what you meant to change",
                ),
            )


def _abandoned_members(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """MemberAbandoned: records of members that have left and whose status says `abandoned`."""
    for record in snapshot.all(cluster, ClusterMember):
        if record.has_left and record.status.abandoned:
            yield Finding(
                code="MemberAbandoned",
                severity=Severity.NOTE,
                subject=subject_of(record, cluster),
                summary=f"{record.name} was made to leave {cluster} without being asked: what "
                "Hanse wrote in it stands until its agent runs again",
                remedy=remedy(
                    f"hanse uninstall --context {record.name} --yes --force",
                    advice="or start its agent, if the cluster is there; once it is gone for good: "
                    + snapshot.kubectl(
                        cluster,
                        f"patch clustermember {record.name} --subresource status --type merge "
                        '-p \'{"status":{"abandoned":false}}\'',
                        record.namespace,
                    ),
                ),
                since=record.status.since,
            )


def _moving_members(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """MembersMoving: records of members whose status says `moving`, all in one finding."""
    moving = [one for one in snapshot.all(cluster, ClusterMember) if one.status.moving]
    if moving:
        names = ", ".join(sorted(one.name for one in moving)[:3])
        yield Finding(
            code="MembersMoving",
            severity=Severity.RISK,
            subject=subject_of(moving[0], cluster),
            summary=f"the fleet moves between {cluster} and another broker: until that ends, "
            f"nobody takes {names}{' and others' * (len(moving) > 3)} for dead",
            remedy=remedy(
                advice="once all members are there, end the old one: `hanse broker retire` with "
                "the old broker as --context and the new one as --successor"
            ),
        )


def _overlapping_ranges(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """RangesOverlap: two members of a broker have overlapping ranges; none without a ClusterSet."""
    rules = oldest_clusterset(snapshot.all(cluster, ClusterSet))
    if rules is None:
        return
    edit = snapshot.kubectl(cluster, f"edit clusterset {rules.name}")
    for overlap in overlaps_of(snapshot.all(cluster, ClusterMember), rules.spec):
        one, other = overlap.one, overlap.other
        yield Finding(
            code="RangesOverlap",
            severity=Severity.DEGRADED,
            subject=Ref("ClusterMember", f"{one}-{other}", cluster=cluster),
            summary=f"{one} ({overlap.ranges[0]}) and {other} ({overlap.ranges[1]}) have the same "
            "addresses: they do not import from each other what lies in both",
            remedy=remedy(
                *erase_ranges(cluster, (one, other), snapshot)[:1],
                advice="give one of them other ranges, or connect them by Globalnet; if these are "
                f"not the ranges of their pods, name the right ones (spec.clusters, {one} or "
                f"{other}, ranges): `{edit}`",
            ),
        )


def _unready_nodes(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """NodesNotReady: some nodes, or all of them."""
    nodes = list(snapshot.all(cluster, Node))
    bad = [node.name for node in nodes if not node.ready]
    if bad:
        shown = ", ".join(bad[:3]) + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")
        yield Finding(
            code="NodesNotReady",
            severity=Severity.DEGRADED if len(bad) == len(nodes) else Severity.RISK,
            subject=Ref("Node", bad[0], cluster=cluster),
            summary=f"{len(bad)} of {len(nodes)} nodes of {cluster} are not ready: {shown}",
            remedy=remedy(
                advice="mend what its conditions name; your provider replaces nodes: "
                f"`{snapshot.kubectl(cluster, f'describe node {bad[0]}')}`"
            ),
        )


def _denied_lists(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """NotReadable: kinds that could not be listed, so that nothing is known of them."""
    own = snapshot.by_agent.get(cluster)
    denied = sorted(own.facts(ListDenied), key=lambda one: one.kind) if own is not None else []
    if denied:
        names = ", ".join(one.kind.plural for one in denied[:3])
        more = f" and {len(denied) - 3} more kinds" if len(denied) > 3 else ""
        yield Finding(
            code="NotReadable",
            severity=Severity.RISK,
            subject=Ref("Credentials", snapshot.context(cluster), cluster=cluster),
            summary=f"{names}{more} could not be listed in {cluster}: what is wrong with them is "
            "not known",
            remedy=Remedy(
                f"`{snapshot.kubectl(cluster, 'auth can-i --list')}` shows what you may do; the "
                "rest has to be granted, or what the API server answers to be mended",
                ask=f"the administrator of {cluster}",
            ),
            certainty=Unknown(denied[0].reason),
        )


def link_findings(target: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """LinkCut, TokenRevoked: agents that do not reach a cluster that others may reach.

    None if it is ClusterUnreachable itself.
    """
    fault = snapshot.fault_of(target)
    if fault is not None and fault.code == "ClusterUnreachable":
        return
    for source, agent in snapshot.by_agent.items():
        state = agent.fact(ClusterState, target)
        if source == target or state is None or state.phase is not Phase.UNREACHABLE:
            continue
        yield Finding(
            code="TokenRevoked" if state.rejected else "LinkCut",
            severity=Severity.DEGRADED,
            subject=link_ref(source, target),
            summary=f"{target} refuses the credentials of {source}'s agent"
            if state.rejected
            else f"the agent of {source} does not reach {target}: {state.reason}",
            remedy=_link_remedy(source, target, state, snapshot),
            since=state.since,
            caused_by=(cluster_ref(target.rpartition("/")[2]), cluster_ref(source)),
        )


def _link_remedy(
    source: ClusterId, target: ClusterId, state: ClusterState, snapshot: MultiClusterSnapshot
) -> Remedy:
    """New credentials where they are refused, else the network."""
    if not state.rejected:
        heal = (f"hanse local heal {source} {target.rpartition('/')[2]}",) if snapshot.local else ()
        return remedy(*heal, advice=f"mend the network from {source} to {target}")
    if Role.BROKER in state.roles:
        joined = f"--broker {snapshot.context(target)} --cluster-id {source}"
        return remedy(f"hanse join {joined} --context {snapshot.context(source)}")
    federation = next((one.name for one in snapshot.all(source, Federation)), "NAME")
    place = f"--cluster-id {target} --context {snapshot.context(target)}"
    return remedy(
        f"hanse join --federation {federation} {place} --supervisor {snapshot.context(source)}"
    )
