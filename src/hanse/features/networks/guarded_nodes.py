"""Which nodes have a guard whose rules hold, by the Leases that guards renew.

Rules outlive their guard, and not the boot of the machine. So a Lease counts for its duration and
names the boot: a guard that restarts changes nothing, and a machine that restarts has no guard.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum

from hanse.features.networks.lookups import GUARDED, PODS_BY_NODE, is_served
from hanse.features.networks.options import NetworksOptions
from hanse.model.facts import HolderState, LeaseLiveness
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Node, Pod
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.naming import GUARDS_NAMESPACE
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot

CLOCK_GRACE = timedelta(seconds=10)
"""By how much clocks of nodes may differ from ours."""


class Isolation(Enum):
    """What keeps the networks of tenants apart."""

    POLICIES = "NetworkPolicies"
    GUARDS = GUARDED
    ADMIN_POLICIES = "ClusterNetworkPolicies"
    UNDECIDED = "Undecided"
    """Guards may do or not: not all is known yet, and what stands stays."""


def isolated_by(snapshot: Snapshot, options: NetworksOptions) -> Isolation:
    """What isolates networks: ClusterNetworkPolicies, guards on all nodes, or NetworkPolicies.

    The first if their option is set and the kind is served; guards if theirs is set and every node
    has one; else, and without nodes, NetworkPolicies. With the option of guards UNDECIDED while
    Nodes or Leases are not listed, or no node lacks a guard, but the state of one is not known.
    """
    if options.admin_policies and is_served(ClusterNetworkPolicy, snapshot):
        return Isolation.ADMIN_POLICIES
    if not options.guard:
        return Isolation.POLICIES
    local = snapshot.local
    if not (snapshot.listed(local, Node) and snapshot.listed(local, Lease)):
        return Isolation.UNDECIDED
    states = {guard_state(node, snapshot) for node in snapshot.all(local, Node)}
    if HolderState.SILENT in states or not states:
        return Isolation.POLICIES
    return Isolation.UNDECIDED if HolderState.UNKNOWN in states else Isolation.GUARDS


def guard_state(node: Node, snapshot: Snapshot) -> HolderState:
    """Whether the rules of a guard hold on a node: READY or SILENT by the renewals of its Lease.

    Without a Lease of the node's present boot SILENT, but READY if the node was never ready and has
    no tenants' pods. UNKNOWN while nothing is known of the renewals.
    """
    name = node.metadata.name
    lease = snapshot.get(snapshot.local, Lease, name, GUARDS_NAMESPACE)
    if lease is None or not _is_of_boot(lease, node):
        return HolderState.READY if _never_ran_tenant_pods(node, snapshot) else HolderState.SILENT
    liveness = snapshot.fact(LeaseLiveness, (snapshot.local, GUARDS_NAMESPACE, name))
    if liveness is None:
        return HolderState.UNKNOWN
    return HolderState.SILENT if liveness.outdated else liveness.state


def unguarded_nodes(nodes: Iterable[Node], leases: Iterable[Lease], now: datetime) -> list[str]:
    """The sorted names of nodes without a guard, to somebody who reads Nodes and Leases once.

    A Lease counts only if it is of the node's present boot, and was renewed within its duration and
    10 seconds of grace, by the API server's clock.
    """
    held = {lease.metadata.name: lease for lease in leases}
    return sorted(
        node.metadata.name
        for node in nodes
        if (lease := held.get(node.metadata.name)) is None
        or not _is_of_boot(lease, node)
        or lease.silence(now, CLOCK_GRACE) is not None
    )


def _is_of_boot(lease: Lease, node: Node) -> bool:
    """Whether the holder of a guard's Lease is the present boot of the node.

    False if the node has no boot id.
    """
    boot = node.status.node_info.boot_id
    return bool(boot) and lease.spec.holder_identity == boot


def concerns_guards(before: Object | None, after: Object | None) -> bool:
    """Whether a change of a Node or Lease may affect `isolated_by`.

    Of an updated Node only its boot and whether it was ever ready do, of an updated Lease its
    holder. True if one appears or goes.
    """
    match before, after:
        case Node(), Node():
            boots = {one.status.node_info.boot_id for one in (before, after)}
            return len(boots) > 1 or _was_never_ready(before) != _was_never_ready(after)
        case Lease(), Lease():
            return before.spec.holder_identity != after.spec.holder_identity
        case _:
            return True


def runs_on_never_ready_node(pods: Iterable[Pod], snapshot: Snapshot) -> bool:
    """Whether one of the pods is bound to a known node that was never ready."""
    nodes = (snapshot.get(snapshot.local, Node, pod.spec.node_name) for pod in pods)
    return any(node is not None and _was_never_ready(node) for node in nodes)


def _never_ran_tenant_pods(node: Node, snapshot: Snapshot) -> bool:
    """Whether a node was never ready, and no pod in a network is bound to it."""
    return _was_never_ready(node) and not any(
        snapshot.by(snapshot.local, PODS_BY_NODE, node.metadata.name)
    )


def _was_never_ready(node: Node) -> bool:
    """Whether a node's Ready condition has been False since the node was registered.

    That is: the node was never ready. False if the times are not known.
    """
    created = node.metadata.creation_timestamp
    return created is not None and any(
        one.type == "Ready"
        and one.status == "False"
        and one.last_transition_time is not None
        and one.last_transition_time <= created
        for one in node.status.conditions
    )
