"""The fleet as a map: clusters, what each is, and how agents reach them."""

from collections.abc import Iterable
from datetime import datetime

from hanse.model.facts import ClusterState, Leadership, LeaseLiveness, Phase, Role
from hanse.model.kinds.core import Node
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot
from hanse.web.dashboard.section import Item, State
from hanse.web.dashboard.snapshot import MultiClusterSnapshot

_STATES: dict[Phase, State] = {
    Phase.SYNCED: "good",
    Phase.CONNECTING: "warn",
    Phase.RESTORED: "warn",
    Phase.LEAVING: "idle",
    Phase.UNREACHABLE: "bad",
}


class ClusterItem(Item, frozen=True, kw_only=True):
    """One cluster: its place in the fleet, how it stands, and what it has."""

    name: ClusterId
    roles: tuple[str, ...]
    agent: bool
    state: State
    phase: str
    since: datetime | None
    reason: str = ""
    leader: str = ""
    """Who leads it as a member, where there are leaders."""
    exports: int = 0
    imports: int = 0
    nodes: int = 0


class LinkItem(Item, frozen=True, kw_only=True):
    """The way from one cluster's agent to another cluster."""

    source: ClusterId
    target: ClusterId
    state: State
    phase: str
    since: datetime
    reason: str = ""
    leads: bool = False


class Clusters:
    """Every cluster that anybody looks at."""

    name = "clusters"

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        match change:
            case FactChange():
                return _clusters_of(change)
            case ObjectChange(where, before, after):
                counted = isinstance(after or before, ServiceExport | ServiceImport | Node)
                return (where,) if counted and (before is None or after is None) else ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> ClusterItem | None:
        seen = snapshot.for_cluster(key)
        if seen is None or key not in snapshot.clusters:
            return None
        state = seen.fact(ClusterState, key)
        if state is None:
            return None
        dead = _says_it_is_dead(key, snapshot)
        return ClusterItem(
            name=key,
            roles=_roles_of(key, snapshot),
            agent=key in snapshot.by_agent,
            state="bad" if dead else _STATES[state.phase],
            phase=state.phase,
            since=state.since,
            reason=state.reason or dead,
            leader=_leader_of(key, snapshot),
            exports=sum(1 for _ in snapshot.all(key, ServiceExport)),
            imports=sum(1 for _ in snapshot.all(key, ServiceImport)),
            nodes=sum(1 for _ in snapshot.all(key, Node)),
        )


class Links:
    """Every way that agents have, by the cluster that it leads to."""

    name = "links"

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        return _clusters_of(change)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> tuple[LinkItem, ...] | None:
        if key not in snapshot.clusters:
            return None
        found = (
            _link(source, key, seen) for source, seen in snapshot.by_agent.items() if source != key
        )
        return tuple(link for link in found if link is not None) or None


def _link(source: ClusterId, target: ClusterId, snapshot: Snapshot) -> LinkItem | None:
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


def _clusters_of(change: Change) -> tuple[ClusterId, ...]:
    if not isinstance(change, FactChange):
        return ()
    match change.fact:
        case ClusterState(cluster):
            return (cluster,)
        case Leadership(member):
            return (member,)
        case LeaseLiveness(lease=lease):
            return (lease,)
        case _:
            return ()


def _roles_of(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[str, ...]:
    found = {
        role
        for one in snapshot.by_agent.values()
        if (state := one.fact(ClusterState, cluster)) is not None
        for role in state.roles
        if role is not Role.LED
    }
    return tuple(sorted(found))


def _leader_of(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    known = [s.fact(Leadership, cluster) for s in snapshot.by_agent.values()]
    told = [one for one in known if one is not None]
    ours = next((one for one in told if one.ours), None)
    chosen = ours or max(told, key=lambda one: one.epoch, default=None)
    return "" if chosen is None else holder_cluster(chosen.holder)


def _says_it_is_dead(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """Why everybody takes a cluster for dead, if they do: its sign of life on the broker ended."""
    for broker in snapshot.clusters_with_role(Role.BROKER):
        seen = snapshot.for_cluster(broker)
        for pulse in seen.facts(LeaseLiveness) if seen is not None else ():
            if (pulse.where, pulse.lease) == (broker, cluster) and not pulse.alive:
                return f"its Lease on {broker} has run out"
    return ""
