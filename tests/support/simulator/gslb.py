"""Global host names: answered in every cluster by what is served anywhere."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from hanse.features.gslb.deletion import REPLICATED_KINDS
from hanse.kube.errors import AlreadyExists
from hanse.kube.lease_observer import RECONNECT_TIME
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import ClusterId
from tests.support.gslb_sites import HOST, ROUNDS, GslbScenario
from tests.support.simulator.fleet import Fleet, find
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import CLUSTERS, step

ADDRESSES = {"lubeck": "192.0.2.11", "hamburg": "192.0.2.12", "bergen": "192.0.2.13"}
RESTORED = 120.0
"""Seconds in which a restored cluster may answer what it had."""


class Gslb:
    """One host, served in any cluster; one cluster leads, at times none or two."""

    name = "gslb"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._sites = GslbScenario(fleet)
        self._moved = False

    async def open(self) -> None:
        await self._sites.form("lubeck")
        await self._sites.policy("lubeck", controlPlaneHmOnly=True)

    async def heal(self) -> None:
        """Leave one leader, one that has the policy."""
        fleet = self._fleet
        if not self._moved:
            return
        await asyncio.sleep(60)
        policy = REPLICATED_KINDS[1]
        with_policy = [n for n in fleet.names if await fleet.objects(n, policy, NAMESPACE)]
        leader = next(iter(await leaders_of(fleet, with_policy)), (with_policy or fleet.names)[0])
        for name in fleet.names:
            if name != leader:
                await self._lead(name, False)
        await asyncio.sleep(5)
        await self._lead(leader, True)

    def laws(self) -> Sequence[Law]:
        return (HostAnswered(self._fleet),)

    async def _lead(self, cluster: ClusterId, leads: bool) -> None:
        self._moved = True
        change = {"spec": {"isLeader": leads}}
        await self._fleet.hand(cluster).patch(AMKOCluster, "amkocluster", NAMESPACE, change)

    @step(5, opening=True, cluster=CLUSTERS)
    async def serve(self, cluster: ClusterId) -> None:
        """An Ingress of the host gets its address."""
        with suppress(AlreadyExists):
            await self._sites.serve(cluster, ADDRESSES[cluster])

    @step(2, cluster=CLUSTERS)
    async def stop_serving(self, cluster: ClusterId) -> None:
        await self._sites.stop_serving(cluster)

    @step(2, cluster=CLUSTERS)
    async def promote(self, cluster: ClusterId) -> None:
        await self._lead(cluster, True)

    @step(1, cluster=CLUSTERS)
    async def demote(self, cluster: ClusterId) -> None:
        await self._lead(cluster, False)

    @step(1, cluster=CLUSTERS, ttl=(5, 60, 600))
    async def edit_policy(self, cluster: ClusterId, ttl: int) -> None:
        """Somebody edits the policy where they are, be it the leader's or a copy."""
        change = {"spec": {"ttl": ttl}}
        await self._fleet.hand(cluster).patch(REPLICATED_KINDS[1], "gdp", NAMESPACE, change)

    @step(1, cluster=CLUSTERS)
    async def delete_copy(self, cluster: ClusterId) -> None:
        """Somebody deletes a follower's copy of the policy."""
        if cluster not in await leaders_of(self._fleet, self._fleet.names):
            await self._fleet.hand(cluster).delete(REPLICATED_KINDS[1], "gdp", NAMESPACE)


async def leaders_of(fleet: Fleet, clusters: Sequence[ClusterId]) -> list[ClusterId]:
    """Those of the clusters that somebody has made leaders."""
    found = {c: await fleet.objects(c, AMKOCluster, NAMESPACE) for c in clusters}
    return [c for c, amkos in found.items() if amkos and amkos[0]["spec"].get("isLeader")]


class HostAnswered(Law):
    """A host that is served is answered."""

    name = "hosts-answered"
    sentence = (
        "A host that is served somewhere stays answered in every cluster that knew it, unless only "
        "by a place that no answer has named and no leader could see; at rest all clusters answer "
        "all the places that serve it, and nothing else."
    )

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._answered: dict[ClusterId, tuple[float, frozenset[ClusterId]]] = {}
        self._named: set[ClusterId] = set()
        """The places that an answer has named since they serve the host."""

    async def observe(self) -> AsyncIterator[str]:
        serving = await self._known(await self._serving())
        for cluster in self.fleet.names:
            answer, restored = self.fleet.ask(cluster, HOST), self.fleet.restored_at.get(cluster, 0)
            known = self._answered.get(cluster)
            if answer.code == "SERVFAIL" or self.fleet.now - restored < RESTORED:
                continue
            if answer.records:
                self._answered[cluster] = (restored, serving)
            elif known is not None and known[0] == restored and known[1] and known[1] <= serving:
                yield f"{cluster} answers {answer} for {HOST}, which {sorted(serving)} serve"
            elif known is not None:
                del self._answered[cluster]

    async def _known(self, serving: frozenset[ClusterId]) -> frozenset[ClusterId]:
        """Those of the places that serve the host which an answer named or a leader sees."""
        fleet = self.fleet
        self._named &= serving
        if serving - self._named:
            named = {a for c in fleet.names if fleet.is_running(c) for a in self._addresses(c)}
            self._named |= {place for place in serving if ADDRESSES[place] in named}
        leaders = await leaders_of(fleet, fleet.names)
        return frozenset(
            place
            for place in serving
            if place in self._named or any(self._sees(leader, place) for leader in leaders)
        )

    def _sees(self, leader: ClusterId, place: ClusterId) -> bool:
        """Whether a leader has surely read a cluster: at its start, or in the time to reconnect."""
        fleet, works = self.fleet, self.fleet.works_since(leader, place)
        is_due = works <= fleet.started_at[leader] or fleet.now - works > RECONNECT_TIME
        return fleet.is_running(leader) and is_due

    def _addresses(self, cluster: ClusterId) -> set[str]:
        """All that a cluster answers for the host, in rotation."""
        names = self.fleet.name_servers.get(cluster)
        return {a for _ in range(ROUNDS) for a in names.query(HOST).records} if names else set()

    async def at_rest(self) -> AsyncIterator[str]:
        wanted = {ADDRESSES[c] for c in await self._serving()}
        for cluster in self.fleet.names:
            found = self._addresses(cluster)
            if found != wanted:
                yield f"{cluster} answers {sorted(found)} for {HOST}, not {sorted(wanted)}"

    async def _serving(self) -> frozenset[ClusterId]:
        """The clusters that have an Ingress of the host with an address."""
        space = self.fleet.namespace
        found = {c: find(await self.fleet.objects(c, Ingress, space), "web") for c in CLUSTERS}
        return frozenset(
            c
            for c, ingress in found.items()
            if ingress is not None and ingress.get("status", {}).get("loadBalancer", {})
        )
