"""The sections of clusters and of connections between them."""

from collections.abc import Iterable
from datetime import datetime

from hanse.model.facts import ClusterState, HolderState, Leadership, LeaseLiveness, Phase, Role
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
    exports: int = 0
    imports: int = 0
    nodes: int = 0


class LinkItem(Item, frozen=True, kw_only=True):
    """The connection of one cluster's agent to another cluster."""

    source: ClusterId
    target: ClusterId
    state: State
    phase: str
    since: datetime
    reason: str = ""
    leads: bool = False


class ClustersSection:
    """Every cluster that an agent connects to."""

    name = "clusters"

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        """Clusters that a fact concerns, or whose exports, imports or nodes change in number."""
        match change:
            case FactChange():
                return _concerned_clusters(change)
            case ObjectChange(where, before, after):
                counted = isinstance(after or before, ServiceExport | ServiceImport | Node)
                return (where,) if counted and (before is None or after is None) else ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> ClusterItem | None:
        """The cluster's item; None if it or its state is unknown, bad if it counts as dead."""
        agent_snapshot = snapshot.for_cluster(key)
        if agent_snapshot is None or key not in snapshot.clusters:
            return None
        state = agent_snapshot.fact(ClusterState, key)
        if state is None:
            return None
        dead = _death_reason(key, snapshot)
        return ClusterItem(
            name=key,
            roles=_roles(key, snapshot),
            agent=key in snapshot.by_agent,
            state="bad" if dead else _STATES[state.phase],
            phase=state.phase,
            since=state.since,
            reason=state.reason or dead,
            leader=_leader(key, snapshot),
            exports=sum(1 for _ in snapshot.all(key, ServiceExport)),
            imports=sum(1 for _ in snapshot.all(key, ServiceImport)),
            nodes=sum(1 for _ in snapshot.all(key, Node)),
        )


class LinksSection:
    """Every connection of agents, by the cluster that it leads to."""

    name = "links"

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        return _concerned_clusters(change)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> tuple[LinkItem, ...] | None:
        """The links of other agents to a cluster; None if there are none."""
        if key not in snapshot.clusters:
            return None
        found = (
            _link_item(source, key, agent_snapshot)
            for source, agent_snapshot in snapshot.by_agent.items()
            if source != key
        )
        return tuple(link for link in found if link is not None) or None


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
    """The clusters that a changed fact is about."""
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


def _roles(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[str, ...]:
    """The sorted roles of a cluster as all agents see them, without LED."""
    found = {
        role
        for one in snapshot.by_agent.values()
        if (state := one.fact(ClusterState, cluster)) is not None
        for role in state.roles
        if role is not Role.LED
    }
    return tuple(sorted(found))


def _leader(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The cluster that leads a member, by the newest leadership that an agent knows."""
    known = [s.fact(Leadership, cluster) for s in snapshot.by_agent.values()]
    leaderships = [one for one in known if one is not None]
    ours = next((one for one in leaderships if one.ours), None)
    chosen = ours or max(leaderships, key=lambda one: one.epoch, default=None)
    return "" if chosen is None else holder_cluster(chosen.holder)


def _death_reason(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """Why a cluster counts as dead: its Lease on a broker expired; empty if it does not."""
    for broker in snapshot.clusters_with_role(Role.BROKER):
        agent_snapshot = snapshot.for_cluster(broker)
        for liveness in agent_snapshot.facts(LeaseLiveness) if agent_snapshot is not None else ():
            if (liveness.where, liveness.lease) == (
                broker,
                cluster,
            ) and liveness.state is HolderState.SILENT:
                return f"its Lease on {broker} has run out"
    return ""
