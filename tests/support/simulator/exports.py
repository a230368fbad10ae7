"""Users' exports, read from their own objects, and laws about each of them."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from msgspec import Struct

from hanse.kube.lease_observer import RECONNECT_TIME
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import ClusterId
from tests.support.faults import WATCH_LAGS
from tests.support.simulator.fleet import Fleet, find, is_live
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import BROKER

NAMES = ("web", "db")
READ = (ServiceExport, Service, EndpointSlice)
"""The kinds that exports are read from."""
CAUGHT_UP = RECONNECT_TIME
"""Seconds after which an agent that works again has told and seen what was done meanwhile."""
LAGGED = 5 * max(WATCH_LAGS)
"""Seconds after which an agent that works has seen what was done."""


class Exported(Struct, frozen=True):
    """What one cluster exports under a name: the addresses that others may use."""

    headless: bool
    addresses: frozenset[str]
    since: str
    ports: frozenset[tuple[str, int]]
    pods: frozenset[str]
    """The addresses of its ready pods."""


class Exports:
    """Users' exports as they stand in the clusters, read from users' own objects."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._known: dict[tuple[ClusterId, str], tuple[object, Exported | None]] = {}
        """What was read, and the state of the cluster in which it was."""

    @property
    def state(self) -> object:
        """What is another value once an export, its addresses or the profile may have changed."""
        fleet = self._fleet
        own = [fleet.state_of(cluster, *READ) for cluster in fleet.names]
        decided = [*fleet.membership_changed.items(), *fleet.restored_at.items()]
        return own, fleet.state_of(BROKER, ClusterSet), decided, sorted(fleet.left)

    async def profile(self) -> str:
        """The profile of the ClusterSet."""
        found = await self._fleet.objects(BROKER, ClusterSet)
        return str(found[0]["spec"].get("profile", "lighthouse")) if found else "lighthouse"

    async def of(self, name: str) -> dict[ClusterId, Exported]:
        """The exports of a name, by cluster that is a member of the broker."""
        members = [c for c in self._fleet.names if c not in self._fleet.left]
        return await self._of(members, name)

    async def possible(self, name: str) -> dict[ClusterId, Exported]:
        """The exports of a name, also of those of which a restored broker forgot that they left."""
        fleet = self._fleet
        members = [c for c in fleet.names if c not in fleet.left or fleet.is_disputed(c)]
        return await self._of(members, name)

    def may_be_of_before(self, asker: ClusterId, exporter: ClusterId) -> bool:
        """Whether an answer may be of a cluster's membership before the one it has now.

        What it published then counts nowhere: an asker that did not see it leave drops it once it
        reads the broker, and has the same again when the exporter has published anew.
        """
        fleet, joined = self._fleet, self._fleet.membership_changed.get(exporter)
        works = fleet.works_since(asker, BROKER)
        if joined is None:
            return False
        if works < joined - CAUGHT_UP:
            return fleet.now - joined < LAGGED
        return fleet.now - max(works, fleet.works_since(exporter, BROKER)) < CAUGHT_UP

    def oldest(self, exports: dict[ClusterId, Exported]) -> Sequence[Exported | None]:
        """The exports of a name of which one is the oldest; None if there are none.

        It is the oldest by the clocks of their clusters. Once the broker's clock was so far ahead
        that publications were stamped as later than the first of a new broker, their order is that
        of the stamps, in which a clock that is set back has later ones come first: nothing else
        proves an age that a member states.
        """
        ranked = sorted(exports, key=lambda c: (exports[c].since, c))
        possible = ranked if self._fleet.broker_was_ahead else ranked[:1]
        return [exports[cluster] for cluster in possible] or [None]

    async def contradiction(
        self,
        exports: dict[ClusterId, Exported],
        contradictions: Callable[[Exported | None], AsyncIterator[str]],
    ) -> str:
        """What contradicts a law about a name, whichever export may be the oldest; else empty."""
        seen = [await anext(contradictions(oldest), "") for oldest in self.oldest(exports)]
        return seen[0] if all(seen) else ""

    async def _of(self, clusters: list[ClusterId], name: str) -> dict[ClusterId, Exported]:
        found = {c: await self._exported(c, name) for c in clusters}
        return {c: exported for c, exported in found.items() if exported is not None}

    async def _exported(self, cluster: ClusterId, name: str) -> Exported | None:
        state, known = self._fleet.state_of(cluster, *READ), self._known.get((cluster, name))
        if known is None or known[0] != state:
            known = self._known[cluster, name] = (state, await self._read(cluster, name))
        return known[1]

    async def _read(self, cluster: ClusterId, name: str) -> Exported | None:
        fleet, space = self._fleet, self._fleet.namespace
        export = find(await fleet.objects(cluster, ServiceExport, space), name)
        service = find(await fleet.objects(cluster, Service, space), name)
        if export is None or service is None:
            return None
        slices = await fleet.objects(cluster, EndpointSlice, space)
        ready = frozenset(
            address
            for s in slices
            if is_live(s) and s["metadata"].get("labels", {}).get(KUBE_SERVICE) == name
            for endpoint in s.get("endpoints") or ()
            if endpoint.get("conditions", {}).get("ready", True)
            for address in endpoint["addresses"]
        )
        address = service["spec"]["clusterIP"]
        headless = address == "None"
        usable = ready if headless else frozenset({address} if ready else ())
        ports = frozenset((p["name"], p["port"]) for p in service["spec"]["ports"])
        return Exported(headless, usable, export["metadata"]["creationTimestamp"], ports, ready)


class LawOfExports(Law):
    """A law about each exported name, by the export that is the oldest."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._exports = Exports(fleet)

    async def at_rest(self) -> AsyncIterator[str]:
        profile = await self._exports.profile()
        for name in NAMES:
            exports = await self._exports.of(name)
            judge = partial(self._contradictions, name, exports, profile)
            if seen := await self._exports.contradiction(exports, judge):
                yield seen

    def _contradictions(
        self, name: str, exports: dict[ClusterId, Exported], profile: str, oldest: Exported | None
    ) -> AsyncIterator[str]:
        """What contradicts the law about a name, if this export is the oldest."""
        raise NotImplementedError
