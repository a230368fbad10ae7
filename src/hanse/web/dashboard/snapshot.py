"""The snapshots of all agents in this process, read as one."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from hanse.model.facts import ClusterState, Role
from hanse.model.objects import ClusterId, K
from hanse.model.snapshot import Index, Snapshot


class MultiClusterSnapshot:
    """Snapshots by agent: of one agent, or of all agents of a local federation.

    Each cluster is read from its own agent's snapshot first. Like a snapshot, it is valid for one
    synchronous use.
    """

    def __init__(self, snapshots: Mapping[ClusterId, Snapshot]) -> None:
        self.by_agent = dict(snapshots)
        self._reporters: dict[ClusterId, ClusterId | None] = {}

    @cached_property
    def clusters(self) -> tuple[ClusterId, ...]:
        """Every cluster that an agent connects to, those with an agent here first.

        A second connection for another purpose (`gslb/lubeck`) does not count as a cluster.
        """
        known = {s.cluster for one in self.by_agent.values() for s in one.facts(ClusterState)}
        plain = {name for name in known if "/" not in name}
        twice = {name for name in known - plain if name.partition("/")[2] in plain}
        return (*self.by_agent, *sorted(known - set(self.by_agent) - twice))

    def reporter_for(self, where: ClusterId) -> ClusterId | None:
        """The agent that reports on a cluster: its own, else the first that is connected to it."""
        if where in self.by_agent:
            return where
        if where not in self._reporters:
            connected = (
                n for n, s in self.by_agent.items() if s.fact(ClusterState, where) is not None
            )
            self._reporters[where] = next(connected, None)
        return self._reporters[where]

    def for_cluster(self, where: ClusterId) -> Snapshot | None:
        """The snapshot of the agent that reports on a cluster; None if there is none."""
        reporter = self.reporter_for(where)
        return None if reporter is None else self.by_agent[reporter]

    @cached_property
    def members(self) -> tuple[ClusterId, ...]:
        """Every cluster that is no broker."""
        brokers = self.clusters_with_role(Role.BROKER)
        return tuple(where for where in self.clusters if where not in brokers)

    def clusters_with_role(self, role: Role) -> tuple[ClusterId, ...]:
        """The clusters that have a role for any agent."""
        found = {c: None for one in self.by_agent.values() for c in one.clusters(role)}
        return tuple(found)

    def get(self, where: ClusterId, kind: type[K], name: str, namespace: str = "") -> K | None:
        """The object in the first snapshot that has it; None if none has."""
        for snapshot in self._snapshots_for(where):
            found = snapshot.get(where, kind, name, namespace)
            if found is not None:
                return found
        return None

    def all(self, where: ClusterId, kind: type[K]) -> Iterator[K]:
        """Every object of a kind in a cluster, from all snapshots."""
        return _unique(snapshot.all(where, kind) for snapshot in self._snapshots_for(where))

    def by(self, where: ClusterId, index: Index[K], value: str) -> Iterator[K]:
        """Every object that an index finds in a cluster."""
        return _unique(snapshot.by(where, index, value) for snapshot in self._snapshots_for(where))

    def _snapshots_for(self, where: ClusterId) -> Iterator[Snapshot]:
        """The snapshots that may have a cluster's objects, its reporter's first."""
        reporter = self.reporter_for(where)
        if reporter is not None:
            yield self.by_agent[reporter]
            yield from (snapshot for name, snapshot in self.by_agent.items() if name != reporter)

    def everywhere(self, kind: type[K]) -> Iterator[tuple[ClusterId, K]]:
        """Every object of a kind, with its cluster."""
        for where in self.clusters:
            for obj in self.all(where, kind):
                yield where, obj


def _unique(found: Iterable[Iterator[K]]) -> Iterator[K]:
    """Each object once, from the first snapshot that has it."""
    known: set[tuple[str, str]] = set()
    for several in found:
        for obj in several:
            name = (obj.metadata.namespace, obj.metadata.name)
            if name not in known:
                known.add(name)
                yield obj
