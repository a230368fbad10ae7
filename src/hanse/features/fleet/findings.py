"""What is wrong with clusters, their agents, and the connections between them."""

from collections.abc import Iterator, Sequence
from itertools import islice
from shlex import quote

from msgspec.structs import replace

from hanse.features.fleet.agents import (
    agent_faults,
    denied_to_agent,
    refused_agent,
    rights_command,
    silent_finding,
)
from hanse.features.fleet.members import leave_commands, member_findings, mistaken_identity
from hanse.model.broker_namespace import lost_broker_namespace
from hanse.model.clusterset import oldest_clusterset
from hanse.model.facts import (
    SLOW_ANSWER,
    ClusterState,
    CredentialsRefused,
    ListDenied,
    Phase,
    Role,
)
from hanse.model.findings import (
    Finding,
    Ref,
    Remedy,
    Severity,
    Unknown,
    cluster_ref,
    credentials_ref,
    remedy,
    subject_of,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace, Node
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.member_ranges import overlaps_of
from hanse.model.naming import BROKER_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.ownership import PAUSED, is_paused
from hanse.model.remedies import erase_ranges_commands
from hanse.model.summaries import first_of


def cluster_findings(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """What is wrong with one cluster: only the first fault of connection or agent, and all else.

    If the cluster has not finished leaving a broker, the command for that follows those that make
    its agent work again.
    """
    faults = (*islice(_faults(cluster, snapshot), 1), *_pauses(cluster, snapshot))
    yield from _with_leave(faults, leave_commands(cluster, snapshot))
    yield from _slow_server(cluster, snapshot)
    yield from _lost_namespace(cluster, snapshot)
    yield from _missing_clusterset(cluster, snapshot)
    yield from _ignored_clustersets(cluster, snapshot)
    yield from member_findings(cluster, snapshot)
    yield from _overlapping_ranges(cluster, snapshot)
    yield from _unready_nodes(cluster, snapshot)
    yield from _denied_lists(cluster, snapshot)


def _with_leave(faults: Sequence[Finding], leave: tuple[str, ...]) -> Iterator[Finding]:
    """The findings; the last one that has commands gets the commands of `leave` appended."""
    mended = [one for one in faults if one.remedy.commands]
    for one in faults:
        after = leave if mended and one is mended[-1] else ()
        commands = (*one.remedy.commands, *after)
        yield replace(one, remedy=replace(one.remedy, commands=commands))


def _faults(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """Findings that keep the agent from working at all, the most serious first.

    CredentialsRefused, CertificateUntrusted, AgentForbidden, AgentMissing by rejection,
    ClusterUnreachable or BrokerLost stand alone; else those of the agent's Lease, of its record on
    a broker, and of its silence there follow each other.
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
                f"`kubectl config view --minify --context {quote(context)}` shows"
            ),
            certainty=Unknown(refused.reason),
        )
        return
    state = own.fact(ClusterState, cluster) if own is not None else None
    if state is not None and state.untrusted:
        yield _untrusted(state, snapshot)
        return
    if state is not None and (denied := denied_to_agent(cluster, snapshot)):
        yield _forbidden_agent(state, denied, snapshot)
        return
    if state is not None and state.rejected:
        yield refused_agent(cluster, snapshot)
        return
    if fault is not None and fault.code == "ClusterUnreachable":
        is_broker = snapshot.roles(cluster) == {Role.BROKER}
        late = state is not None and state.slow
        start = f"hanse local slow {cluster} 0s" if late else f"hanse local start {cluster}"
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
    yield from agent_faults(cluster, snapshot)
    yield from mistaken_identity(cluster, snapshot)
    if fault is not None:
        yield silent_finding(cluster, snapshot)


def _untrusted(state: ClusterState, snapshot: MultiClusterSnapshot) -> Finding:
    """A finding CertificateUntrusted about the cluster of a connection state; nothing is checked.

    Its remedy is advice, and to ask the administrator of the cluster.
    """
    cluster = state.cluster
    context = snapshot.context(cluster)
    return Finding(
        code="CertificateUntrusted",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"nothing is read from {cluster}: {state.reason}",
        remedy=Remedy(
            "renew the certificates of its API server, if they have expired (`kubeadm certs "
            "check-expiration`, or your provider); if it has another certificate authority, put "
            f"that into the cluster of context {context}: `kubectl config set-cluster NAME "
            "--certificate-authority FILE --embed-certs`",
            ask=f"the administrator of {cluster}",
        ),
        certainty=Unknown(state.reason),
    )


def _slow_server(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """ClusterSlow, if a cluster is reached, and answers late to each agent that reaches it."""
    states = snapshot.connections_to(cluster).values()
    reached = [one for one in states if one.phase is not Phase.UNREACHABLE]
    if reached and all(one.slow for one in reached):
        ready = snapshot.kubectl(cluster, "get --raw '/readyz?verbose'")
        yield Finding(
            code="ClusterSlow",
            severity=Severity.RISK,
            subject=cluster_ref(cluster),
            summary=f"the API server of {cluster} is slow: a small request takes longer than "
            f"{SLOW_ANSWER.total_seconds():.0f} s, so that what changes reaches others late",
            remedy=remedy(f"hanse local slow {cluster} 0s")
            if snapshot.local
            else remedy(
                advice="mend the network to it, or what keeps its API server or etcd busy; "
                f"`{ready}` and their metrics show that"
            ),
        )


def _forbidden_agent(
    state: ClusterState, denied: tuple[str, ...], snapshot: MultiClusterSnapshot
) -> Finding:
    """AgentForbidden: the account of an agent may not use the denied resources in its own cluster.

    The remedy gives it the rights of the features that it runs, and changes nothing else.
    """
    cluster = state.cluster
    return Finding(
        code="AgentForbidden",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"the agent of {cluster} may not use {first_of(denied)}: "
        "what depends on them does not work",
        remedy=remedy(rights_command(cluster, snapshot)),
        since=state.since if state.phase is Phase.UNREACHABLE else None,
    )


def _pauses(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """AgentPaused if the agent's namespace in the cluster is annotated as paused.

    FleetPaused for each ClusterSet of the cluster with `spec.paused`. The remedies are commands
    that resume.
    """
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
    """BrokerNamespaceMissing, if the broker's namespace is gone from a cluster or being deleted."""
    namespace = lost_broker_namespace(cluster, snapshot)
    if namespace:
        yield Finding(
            code="BrokerNamespaceMissing",
            severity=Severity.DEGRADED,
            subject=cluster_ref(cluster),
            summary=f"namespace {namespace}, where clusters share, is gone from {cluster} or being "
            "deleted: what they have of each other stays as it was, and nothing new is shared",
            remedy=remedy(_init_broker_command(cluster, namespace, snapshot)),
        )


def _init_broker_command(cluster: ClusterId, namespace: str, snapshot: MultiClusterSnapshot) -> str:
    """The text of the `hanse broker init` command, which creates all that a broker lacks."""
    place = f" --namespace {namespace}" if namespace != BROKER_NAMESPACE else ""
    return f"hanse broker init --context {snapshot.context_argument(cluster)}{place}"


def _missing_clusterset(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """ClusterSetMissing, if a broker has members that have not left, and no ClusterSet.

    None until ClusterSets are synced there.
    """
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
            remedy=remedy(_init_broker_command(cluster, members[0].namespace, snapshot)),
        )


def _ignored_clustersets(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """ClusterSetIgnored for each ClusterSet of a cluster but the oldest, whose rules alone apply.

    A pause counts in each of them.
    """
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


def _overlapping_ranges(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """RangesOverlap for each pair of members that `overlaps_of` finds, by the oldest ClusterSet.

    None without a ClusterSet. The command empties the ranges that the ClusterSet has for the first
    of the two that has some.
    """
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
                *erase_ranges_commands(cluster, (one, other), snapshot)[:1],
                advice="give one of them other ranges, or connect them by Globalnet; if these are "
                f"not the ranges of their pods, name the right ones (spec.clusters, {one} or "
                f"{other}, ranges): `{edit}`",
            ),
        )


def _unready_nodes(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """NodesNotReady with the number and first names; degraded if no node is ready, else a risk.

    None if all nodes are ready.
    """
    nodes = list(snapshot.all(cluster, Node))
    bad = [node.name for node in nodes if not node.ready]
    if bad:
        yield Finding(
            code="NodesNotReady",
            severity=Severity.DEGRADED if len(bad) == len(nodes) else Severity.RISK,
            subject=Ref("Node", bad[0], cluster=cluster),
            summary=f"{len(bad)} of {len(nodes)} nodes of {cluster} are not ready: {first_of(bad)}",
            remedy=remedy(
                advice="mend what its conditions name; your provider replaces nodes: "
                f"`{snapshot.kubectl(cluster, f'describe node {bad[0]}')}`"
            ),
        )


def _denied_lists(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """NotReadable: the kinds that the cluster's agent could not list, in one finding, if any.

    It names three of them.
    """
    own = snapshot.by_agent.get(cluster)
    denied = sorted(own.facts(ListDenied), key=lambda one: one.kind) if own is not None else []
    if denied:
        names = ", ".join(one.kind.plural for one in denied[:3])
        more = f" and {len(denied) - 3} more kinds" if len(denied) > 3 else ""
        yield Finding(
            code="NotReadable",
            severity=Severity.RISK,
            subject=credentials_ref(snapshot.context(cluster), cluster),
            summary=f"{names}{more} could not be listed in {cluster}: what is wrong with them is "
            "not known",
            remedy=Remedy(
                f"`{snapshot.kubectl(cluster, 'auth can-i --list')}` shows what you may do; the "
                "rest has to be granted, or what the API server answers to be mended",
                ask=f"the administrator of {cluster}",
            ),
            certainty=Unknown(denied[0].reason),
        )
