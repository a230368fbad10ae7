"""What the agents of one process see, put side by side: each cluster as its own agent sees it."""

from collections.abc import Iterator, Mapping

from hanse.model.facts import ClusterState, F, Role
from hanse.model.objects import ClusterId, K
from hanse.model.snapshot import Index, Snapshot


class Sights:
    """Snapshots by the agent whose they are: of one agent, or of all in a local federation."""

    def __init__(self, seen: Mapping[ClusterId, Snapshot]) -> None:
        self.seen = dict(seen)

    @property
    def agents(self) -> tuple[ClusterId, ...]:
        """The clusters whose agents look."""
        return tuple(self.seen)

    @property
    def clusters(self) -> tuple[ClusterId, ...]:
        """Every cluster that anybody looks at: those with an agent here first."""
        others = {s.cluster for one in self.seen.values() for s in one.facts(ClusterState)}
        return (*self.seen, *sorted(others - set(self.seen)))

    def speaker_for(self, where: ClusterId) -> ClusterId | None:
        """The agent whose word about a cluster counts: its own, else the first that looks at it."""
        if where in self.seen:
            return where
        looking = (n for n, s in self.seen.items() if s.fact(ClusterState, where) is not None)
        return next(looking, None)

    def of(self, where: ClusterId) -> Snapshot | None:
        """The snapshot that tells most of a cluster."""
        speaker = self.speaker_for(where)
        return None if speaker is None else self.seen[speaker]

    def having(self, role: Role) -> tuple[ClusterId, ...]:
        """The clusters that have a role for anybody."""
        found = {c: None for one in self.seen.values() for c in one.clusters(role)}
        return tuple(found)

    def get(self, where: ClusterId, kind: type[K], name: str, namespace: str = "") -> K | None:
        """The object of that name, if it is seen."""
        seen = self.of(where)
        return None if seen is None else seen.get(where, kind, name, namespace)

    def all(self, where: ClusterId, kind: type[K]) -> Iterator[K]:
        """Every object of a kind that is seen in a cluster."""
        seen = self.of(where)
        return iter(()) if seen is None else seen.all(where, kind)

    def by(self, where: ClusterId, index: Index[K], value: str) -> Iterator[K]:
        """Every object that an index finds in a cluster."""
        seen = self.of(where)
        return iter(()) if seen is None else seen.by(where, index, value)

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
