"""The fleet: snapshots of several agents, or of a person's own connections, read as one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from shlex import quote
from typing import Any, TypeVar, cast

from msgspec import Struct

from hanse.model.facts import ClusterState, HolderState, LeaseLiveness, ListDenied, Phase, Role
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.objects import ClusterId, K, Object
from hanse.model.snapshot import Index, Snapshot, distinct_objects

T = TypeVar("T")


class ClusterFault(Struct, frozen=True):
    """Why nothing that a cluster has can be counted on."""

    code: str
    """`ClusterUnreachable` or `ClusterSilent`."""
    since: datetime | None
    reason: str


class MultiClusterSnapshot:
    """Snapshots by agent: of one agent, or of all agents of a local federation.

    Each cluster is read from its own agent's snapshot first. Like a snapshot, it is valid for one
    synchronous use.
    """

    def __init__(
        self,
        snapshots: Mapping[ClusterId, Snapshot],
        *,
        contexts: Mapping[ClusterId, str] | None = None,
        local: bool = False,
        indexed: bool = False,
    ) -> None:
        """Read the snapshots of several agents, by their cluster, as one.

        `contexts` are the kubeconfig contexts that kubectl commands name. Results are cached, so
        that the snapshots must not change while it is used. `local`: the clusters are those of a
        local federation, which `hanse local` can mend. `indexed`: everything is read, so that
        indexes over all clusters are built.
        """
        self.by_agent = dict(snapshots)
        self.local = local
        """Whether the clusters are those of a local federation, which `hanse local` can mend."""
        self._indexed = indexed
        """Whether it is used for everything at once, so that indexes over all clusters pay."""
        self._names: dict[type[Object], dict[tuple[str, str], list[tuple[ClusterId, Any]]]] = {}
        self._groups: dict[tuple[ClusterId, str], dict[str, list[Any]]] = {}
        self._computed: dict[Callable[..., Any], Any] = {}
        self._contexts = contexts or {}
        self._reporters: dict[ClusterId, tuple[ClusterId, ...]] = {}
        self._roles: dict[ClusterId, frozenset[Role]] = {}
        self._by_role: dict[Role, tuple[ClusterId, ...]] = {}
        self._faults: dict[ClusterId, ClusterFault | None] = {}

    @property
    def now(self) -> datetime:
        """The latest time of the snapshots; the least datetime without any."""
        epoch = datetime.min.replace(tzinfo=UTC)
        return max((one.now for one in self.by_agent.values()), default=epoch)

    def context(self, where: ClusterId) -> str:
        """The kubeconfig context of a cluster; its id where none is known."""
        return self._contexts.get(where, where)

    def context_argument(self, where: ClusterId) -> str:
        """The context of a cluster as an argument of a command to be pasted: quoted if needed."""
        return quote(self.context(where))

    def kubectl(self, where: ClusterId, arguments: str, namespace: str = "") -> str:
        """The text of a kubectl command for a cluster, to be pasted as it stands; it is not run."""
        place = f" -n {quote(namespace)}" if namespace else ""
        return f"kubectl --context {self.context_argument(where)}{place} {arguments}"

    @cached_property
    def clusters(self) -> tuple[ClusterId, ...]:
        """Every cluster that an agent connects to or sees a Lease of; those with an agent first.

        A connection for another purpose (`gslb/lubeck`) counts only if `lubeck` is not known
        otherwise, an external system never.
        """
        snapshots = self.by_agent.values()
        states = (state for one in snapshots for state in one.facts(ClusterState))
        known = {state.cluster for state in states if Role.OUTSIDE not in state.roles}
        known |= {beat.lease for one in snapshots for beat in _heartbeats(one)}
        plain = {name for name in known if "/" not in name}
        twice = {name for name in known - plain if name.partition("/")[2] in plain}
        return (*self.by_agent, *sorted(known - set(self.by_agent) - twice))

    def reporter_for(self, where: ClusterId) -> ClusterId | None:
        """The id of the agent that reports on a cluster: its own, else the first that reaches it.

        If none reaches it, the first that is connected to it; None if none is.
        """
        return next(iter(self._agents_of(where)), None)

    def for_cluster(self, where: ClusterId) -> Snapshot | None:
        """The snapshot of the agent that reports on a cluster; None if there is none."""
        return next(iter(self._snapshots_for(where)), None)

    @cached_property
    def members(self) -> tuple[ClusterId, ...]:
        """Every cluster but those whose only role, for any agent, is broker."""
        return tuple(where for where in self.clusters if self.roles(where) != {Role.BROKER})

    @cached_property
    def member_order(self) -> dict[ClusterId, int]:
        """The index of each member in `members`."""
        return {where: number for number, where in enumerate(self.members)}

    @cached_property
    def lost_members(self) -> frozenset[ClusterId]:
        """The members with a fault by `fault_of`: unreachable or silent."""
        return frozenset(where for where in self.members if self.fault_of(where) is not None)

    def roles(self, where: ClusterId) -> frozenset[Role]:
        """The roles that a cluster has for any agent."""
        if where not in self._roles:
            states = (one.fact(ClusterState, where) for one in self.by_agent.values())
            found = frozenset(role for one in states if one is not None for role in one.roles)
            self._roles[where] = found
        return self._roles[where]

    def fault_of(self, where: ClusterId) -> ClusterFault | None:
        """`ClusterUnreachable` if nobody reaches it, `ClusterSilent` if its Lease has run out.

        Its own agent's connection alone counts, if it has one; else a renewed Lease shows that it
        works. None where nothing is wrong, nothing is known, or an agent only lacks rights there.
        """
        if where not in self._faults:
            self._faults[where] = self._find_fault(where)
        return self._faults[where]

    def _find_fault(self, where: ClusterId) -> ClusterFault | None:
        """Why a cluster does not count: nobody reaches it, or else its Lease ran out; else None.

        One that rejects credentials or lacks rights is reached. Where it has no agent of its own, a
        heartbeat shows that it works although no agent reaches it.
        """
        states = self.connections_to(where)
        silence = self.silence_of(where)
        refused = any(one.rejected for one in states.values())
        unreached = states and all(
            one.phase is Phase.UNREACHABLE and not one.forbidden for one in states.values()
        )
        if (
            unreached
            and not refused  # it answers
            and (where in self.by_agent or not self.has_heartbeat(where))
        ):
            state = max(states.values(), key=lambda one: one.since)
            since = silence.since if silence is not None else state.since
            known = since if since < self.now else None  # it was asked once, just now
            return ClusterFault("ClusterUnreachable", known, state.reason)
        if silence is None:
            return None
        return ClusterFault(
            "ClusterSilent", silence.since, f"its Lease on {silence.where} has run out"
        )

    def is_lost(self, where: ClusterId) -> bool:
        """Whether a cluster has a fault that also ends what others read from it directly.

        One that is silent on the broker alone, and reached by another agent, is not lost.
        """
        fault = self.fault_of(where)
        if fault is None or fault.code == "ClusterUnreachable":
            return fault is not None
        return not any(
            state.phase is not Phase.UNREACHABLE
            for source, one in self.by_agent.items()
            if source != where
            for state in one.facts(ClusterState)
            if state.cluster.rpartition("/")[2] == where
        )

    def silence_of(self, where: ClusterId) -> LeaseLiveness | None:
        """The Lease of a cluster that ran out on a broker that is reached; None if none did.

        Leases on brokers that the cluster has left do not count.
        """
        found = self._known_beats(where)
        return next((beat for beat in found if beat.state is HolderState.SILENT), None)

    def has_heartbeat(self, where: ClusterId) -> bool:
        """Whether brokers that are reached have a renewed Lease of it, and none that ran out."""
        states = [beat.state for beat in self._known_beats(where)]
        return HolderState.READY in states and HolderState.SILENT not in states

    def _known_beats(self, where: ClusterId) -> Iterator[LeaseLiveness]:
        """The LeaseLiveness facts of a cluster on brokers with which the reporting agent is synced.

        Not those on brokers that the cluster has left, by its record.
        """
        for snapshot in self.by_agent.values():
            for beat in _heartbeats(snapshot):
                if beat.lease == where and snapshot.synced(beat.where):
                    record = snapshot.get(beat.where, ClusterMember, where, beat.namespace)
                    if record is None or not record.has_left:
                        yield beat

    def connections_to(self, where: ClusterId) -> dict[ClusterId, ClusterState]:
        """The states of connections to a cluster by agent: only its own agent's, if it has one."""
        own = self.by_agent.get(where)
        snapshots = self.by_agent if own is None else {where: own}
        found = {name: one.fact(ClusterState, where) for name, one in snapshots.items()}
        return {name: state for name, state in found.items() if state is not None}

    def clusters_with_role(self, role: Role) -> tuple[ClusterId, ...]:
        """The clusters that have a role for any agent, each once, in the order of agents.

        One that an agent is leaving does not count for that agent, unless the role is LOCAL.
        """
        if role not in self._by_role:
            found = (c for one in self.by_agent.values() for c in one.clusters(role))
            self._by_role[role] = tuple(dict.fromkeys(found))
        return self._by_role[role]

    def membership_records(self, cluster: ClusterId) -> Iterator[tuple[ClusterId, ClusterMember]]:
        """The ClusterMembers with the name of a cluster, in any namespace, each with its broker."""
        for broker in self.clusters_with_role(Role.BROKER):
            for record in self.all(broker, ClusterMember):
                if record.name == cluster:
                    yield broker, record

    def get(self, where: ClusterId, kind: type[K], name: str, namespace: str = "") -> K | None:
        """The object as its cluster's own agent has it, or else the first other of `_agents_of`.

        None if none has it.
        """
        for agent in self._agents_of(where):
            found = self.by_agent[agent].get(where, kind, name, namespace)
            if found is not None:
                return found
        return None

    def in_members(
        self, kind: type[K], name: str, namespace: str = ""
    ) -> Sequence[tuple[ClusterId, K]]:
        """The objects of a kind and name in all members, each with its cluster, in their order.

        A member without one is skipped.
        """
        if not self._indexed:
            found = ((w, self.get(w, kind, name, namespace)) for w in self.members)
            return [(where, one) for where, one in found if one is not None]
        if kind not in self._names:
            names: dict[tuple[str, str], list[tuple[ClusterId, Any]]] = {}
            for where in self.members:
                for one in self.all(where, kind):
                    meta = one.metadata
                    names.setdefault((meta.namespace, meta.name), []).append((where, one))
            self._names[kind] = names
        return self._names[kind].get((namespace, name), ())

    def cached_result(self, compute: "Callable[[MultiClusterSnapshot], T]") -> T:
        """The result of a function of this snapshot, called once per function and kept."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        return cast("T", self._computed[compute])

    def all(self, where: ClusterId, kind: type[K]) -> Iterator[K]:
        """Every object of a kind in a cluster, once: from the first of `_agents_of` with it."""
        return _unique([snapshot.all(where, kind) for snapshot in self._snapshots_for(where)])

    def listed(self, where: ClusterId, kind: type[K]) -> bool:
        """Whether one of the agents has listed all objects of a kind in a cluster."""
        return any(snapshot.listed(where, kind) for snapshot in self._snapshots_for(where))

    def denied(self, where: ClusterId, kind: type[Object]) -> str:
        """Why a cluster's own agent could not list a kind in it, so it is not known; else empty."""
        own = self.by_agent.get(where)
        fact = own.fact(ListDenied, (where, kind.kind)) if own is not None else None
        return fact.reason if fact is not None else ""

    def by(self, where: ClusterId, index: Index[K], value: str) -> Iterator[K]:
        """Every object of a cluster, once, that an index has under a value."""
        if not self._indexed:
            return _unique([one.by(where, index, value) for one in self._snapshots_for(where)])
        groups = self._groups.get((where, index.name))
        if groups is None:
            groups = self._groups[where, index.name] = _grouped(self.all(where, index.kind), index)
        return iter(groups.get(value, ()))

    def _snapshots_for(self, where: ClusterId) -> Iterator[Snapshot]:
        """The snapshots that may have a cluster's objects, its reporter's first."""
        return (self.by_agent[name] for name in self._agents_of(where))

    def _agents_of(self, where: ClusterId) -> tuple[ClusterId, ...]:
        """The agents that connect to a cluster, its own first, whether that reaches it or not.

        If any of them reaches it, the others that do not are left out.
        """
        found = self._reporters.get(where)
        if found is None:
            states = {n: s.fact(ClusterState, where) for n, s in self.by_agent.items()}
            known = {n: state.phase for n, state in states.items() if state is not None}
            reached = [n for n, phase in known.items() if phase is not Phase.UNREACHABLE]
            named = [where] if where in self.by_agent else []
            found = self._reporters[where] = tuple(dict.fromkeys((*named, *(reached or known))))
        return found

    def everywhere(self, kind: type[K]) -> Iterator[tuple[ClusterId, K]]:
        """Every object of a kind in all `clusters`, in their order, each with its cluster."""
        for where in self.clusters:
            for obj in self.all(where, kind):
                yield where, obj


def _heartbeats(snapshot: Snapshot) -> Iterator[LeaseLiveness]:
    """The LeaseLiveness facts of all Leases on brokers."""
    brokers = {s.cluster for s in snapshot.facts(ClusterState) if Role.BROKER in s.roles}
    return (one for one in snapshot.facts(LeaseLiveness) if one.where in brokers)


def _grouped(objects: Iterable[K], index: Index[K]) -> dict[str, list[K]]:
    """The objects by their values in an index."""
    groups: dict[str, list[K]] = {}
    for one in objects:
        for value in index.values(one):
            groups.setdefault(value, []).append(one)
    return groups


def _unique(found: Sequence[Iterator[K]]) -> Iterator[K]:
    """Each object once, by namespace and name, from the first snapshot that has it.

    A single iterator is returned as it is.
    """
    return found[0] if len(found) == 1 else distinct_objects(chain.from_iterable(found))
