"""What the agents of one process see, put side by side: each cluster as its own agent sees it."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from hanse.model.facts import ClusterState, F, Role
from hanse.model.objects import ClusterId, K
from hanse.model.snapshot import Index, Snapshot


class MultiClusterSnapshot:
    """Snapshots by the agent whose they are: of one agent, or of all in a local federation.

    As a snapshot it is good for one synchronous look: who speaks for whom is found out once.
    """

    def __init__(self, snapshot: Mapping[ClusterId, Snapshot]) -> None:
        self.seen = dict(snapshot)
        self._reporters: dict[ClusterId, ClusterId | None] = {}

    @property
    def agents(self) -> tuple[ClusterId, ...]:
        """The clusters whose agents look."""
        return tuple(self.seen)

    @cached_property
    def clusters(self) -> tuple[ClusterId, ...]:
        """Every cluster that anybody looks at, those with an agent here first.

        One that is also reached for another purpose (`gslb/lubeck`) is still one.
        """
        known = {s.cluster for one in self.seen.values() for s in one.facts(ClusterState)}
        plain = {name for name in known if "/" not in name}
        twice = {name for name in known - plain if name.partition("/")[2] in plain}
        return (*self.seen, *sorted(known - set(self.seen) - twice))

    def reporter_for(self, where: ClusterId) -> ClusterId | None:
        """The agent whose word about a cluster counts: its own, else the first that looks at it."""
        if where in self.seen:
            return where
        if where not in self._reporters:
            looking = (n for n, s in self.seen.items() if s.fact(ClusterState, where) is not None)
            self._reporters[where] = next(looking, None)
        return self._reporters[where]

    def of(self, where: ClusterId) -> Snapshot | None:
        """The snapshot that tells most of a cluster."""
        speaker = self.reporter_for(where)
        return None if speaker is None else self.seen[speaker]

    @cached_property
    def members(self) -> tuple[ClusterId, ...]:
        """Every cluster that is no broker."""
        brokers = self.clusters_with_role(Role.BROKER)
        return tuple(where for where in self.clusters if where not in brokers)

    def clusters_with_role(self, role: Role) -> tuple[ClusterId, ...]:
        """The clusters that have a role for anybody."""
        found = {c: None for one in self.seen.values() for c in one.clusters(role)}
        return tuple(found)

    def get(self, where: ClusterId, kind: type[K], name: str, namespace: str = "") -> K | None:
        """The object of that name, if anybody sees it; the cluster's own agent is asked first."""
        for seen in self._snapshots_for(where):
            found = seen.get(where, kind, name, namespace)
            if found is not None:
                return found
        return None

    def all(self, where: ClusterId, kind: type[K]) -> Iterator[K]:
        """Every object of a kind that anybody sees in a cluster."""
        return _unique(seen.all(where, kind) for seen in self._snapshots_for(where))

    def by(self, where: ClusterId, index: Index[K], value: str) -> Iterator[K]:
        """Every object that an index finds in a cluster."""
        return _unique(seen.by(where, index, value) for seen in self._snapshots_for(where))

    def _snapshots_for(self, where: ClusterId) -> Iterator[Snapshot]:
        """Those who look at a cluster, its own agent first: each watches what its roles need."""
        speaker = self.reporter_for(where)
        if speaker is not None:
            yield self.seen[speaker]
            yield from (seen for name, seen in self.seen.items() if name != speaker)

    def everywhere(self, kind: type[K]) -> Iterator[tuple[ClusterId, K]]:
        """Every object of a kind, with its cluster."""
        for where in self.clusters:
            for obj in self.all(where, kind):
                yield where, obj

    def facts(self, type_: type[F]) -> Iterator[tuple[ClusterId, F]]:
        """Every fact of a type, with the agent that holds it for true."""
        for agent, seen in self.seen.items():
            for fact in seen.facts(type_):
                yield agent, fact


def _unique(found: Iterable[Iterator[K]]) -> Iterator[K]:
    """Each object once, as it was found first."""
    told: set[tuple[str, str]] = set()
    for several in found:
        for obj in several:
            name = (obj.metadata.namespace, obj.metadata.name)
            if name not in told:
                told.add(name)
                yield obj
