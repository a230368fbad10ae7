"""Global host names: answered in every cluster by what is served anywhere."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from hanse.features.gslb.deletion import REPLICATED_KINDS
from hanse.kube.errors import AlreadyExists
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
        leader = next(iter(await self._leaders(with_policy)), (with_policy or fleet.names)[0])
        for name in fleet.names:
            if name != leader:
                await self._lead(name, False)
        await asyncio.sleep(5)
        await self._lead(leader, True)

    async def _leaders(self, clusters: Sequence[ClusterId]) -> list[ClusterId]:
        found = {c: await self._fleet.objects(c, AMKOCluster, NAMESPACE) for c in clusters}
        return [c for c, amkos in found.items() if amkos and amkos[0]["spec"].get("isLeader")]

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
        if cluster not in await self._leaders(self._fleet.names):
            await self._fleet.hand(cluster).delete(REPLICATED_KINDS[1], "gdp", NAMESPACE)


class HostAnswered(Law):
    """A host that is served is answered."""

    name = "hosts-answered"
    sentence = (
        "A host that is served somewhere stays answered in every cluster that knew it; at rest all "
        "clusters answer all the places that serve it, and nothing else."
    )

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._answered: dict[ClusterId, tuple[float, frozenset[ClusterId]]] = {}

    async def observe(self) -> AsyncIterator[str]:
        serving = await self._serving()
        for cluster in self.fleet.names:
            answer, restored = self.fleet.ask(cluster, HOST), self.fleet.restored_at.get(cluster, 0)
            known = self._answered.get(cluster)
            if answer.code == "SERVFAIL" or self.fleet.now - restored < RESTORED:
                continue
            if answer.records:
                self._answered[cluster] = (restored, serving)
            elif known is not None and known[0] == restored and known[1] & serving == known[1]:
                yield f"{cluster} answers {answer} for {HOST}, which {sorted(serving)} serve"
            elif known is not None:
                del self._answered[cluster]

    async def at_rest(self) -> AsyncIterator[str]:
        wanted = {ADDRESSES[c] for c in await self._serving()}
        for cluster in self.fleet.names:
            names = self.fleet.name_servers[cluster]
            found = {a for _ in range(ROUNDS) for a in names.query(HOST).records}
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
