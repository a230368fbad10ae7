"""Actions of users on the toy feature, and checks of what they observe."""

from hashlib import blake2b
from typing import Any

import msgspec

from hanse.app import BROKER
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.transport import Request
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId, Meta
from tests.support.scenario import Check, Scenario
from tests.support.toy import HOME, OFFER, OFFERED


def shop_of(scenario: str) -> str:
    """The name of a scenario's own namespace."""
    return f"shop-{blake2b(scenario.encode(), digest_size=4).hexdigest()}"


class OffersScenario:
    """Offers in the scenario's namespace, or in another that is named."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    async def open(self) -> None:
        """Make the place on the broker where offers are recorded, which all scenarios share."""
        await self.scenario.make_namespace(BROKER, HOME, keep=True)

    async def clear(self) -> None:
        """Leave no offer and no record to the agents of the next scenario.

        Namespaces of real clusters end much later than they are asked to.
        """
        for cluster, namespace in (*self.scenario.made, (BROKER, HOME)):
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            await self.admin(cluster).send(Request("DELETE", path))

    def admin(self, cluster: ClusterId) -> Client:
        return self.scenario.admin(cluster)

    # -- doing

    async def offer(self, cluster: ClusterId, name: str, price: str, space: str = "") -> None:
        meta = Meta(name=name, namespace=space or self.scenario.namespace, labels={OFFER: "yes"})
        await self.admin(cluster).create(ConfigMap(metadata=meta, data={"price": price}))

    async def reprice(self, cluster: ClusterId, name: str, price: str) -> None:
        await self.edit(cluster, name, {"data": {"price": price}})

    async def withdraw(self, cluster: ClusterId, name: str) -> None:
        await self.admin(cluster).delete(ConfigMap, name, self.scenario.namespace)

    async def edit(self, cluster: ClusterId, name: str, change: dict[str, Any]) -> None:
        """Change any ConfigMap by hand, ours included."""
        await self.admin(cluster).patch(ConfigMap, name, self.scenario.namespace, change)

    async def remove(self, cluster: ClusterId, name: str) -> None:
        """Delete any ConfigMap by hand, ours included."""
        await self.admin(cluster).delete(ConfigMap, name, self.scenario.namespace)

    async def squat(self, cluster: ClusterId, name: str, space: str = "") -> ConfigMap:
        """Take a name that we would use."""
        meta = Meta(name=name, namespace=space or self.scenario.namespace)
        return await self.admin(cluster).create(ConfigMap(metadata=meta, data={"mine": "yes"}))

    # -- seeing

    async def found(self, cluster: ClusterId, name: str, space: str = "") -> ConfigMap | None:
        try:
            return await self.admin(cluster).read(ConfigMap, name, space or self.scenario.namespace)
        except NotFound:
            return None

    async def prices(self, cluster: ClusterId, name: str, space: str = "") -> dict[str, str]:
        """The prices that a cluster shows for a name, by the cluster that asks them."""
        copy = await self.found(cluster, f"copy-of-{name}", space)
        observed = copy.data if copy is not None else {}
        return {c: msgspec.json.decode(d).get("price", "") for c, d in observed.items()}

    def shows(
        self, cluster: ClusterId, name: str, /, space: str = "", **prices: str
    ) -> Check[None]:
        """That one cluster shows exactly these prices; none means that it has no copy."""

        async def check() -> None:
            seen = await self.prices(cluster, name, space)
            assert seen == prices, f"{cluster} shows {name} for {seen}, not {prices}"
            receipt = await self.found(cluster, f"receipt-of-{name}", space)
            assert (receipt is not None) == bool(prices), f"{cluster}: receipt {receipt}"

        return check

    def everywhere(self, name: str, /, space: str = "", **prices: str) -> Check[None]:
        """That every cluster shows exactly these prices, and the broker adds them up."""

        async def check() -> None:
            for cluster in self.scenario.names:
                await self.shows(cluster, name, space, **prices)()
            total = await self.found(BROKER, f"sum.{space or self.scenario.namespace}.{name}", HOME)
            seen = total.data["clusters"] if total is not None else ""
            assert seen == ",".join(sorted(prices)), f"the broker adds up {seen!r}"

        return check

    def nowhere(self, name: str, /, space: str = "") -> Check[None]:
        """That nothing is left of an offer, in any cluster."""
        return self.everywhere(name, space)

    def has_conditions(self, cluster: ClusterId, name: str, words: str) -> Check[None]:
        """That an offer says what became of it."""

        async def check() -> None:
            offer = await self.found(cluster, name)
            assert offer is not None, f"{cluster} does not offer {name}"
            observed = offer.metadata.annotations.get(OFFERED, "")
            assert words in observed, f"{name} of {cluster} has {observed!r}"

        return check

    def agent_has_outcome(self, agent: str, result: str, words: str = "") -> Check[None]:
        """That an agent knows of a write that did not go as wished."""

        async def check() -> None:
            facts = list(self.scenario.agent(agent).reconciler.informers.facts.all(WriteOutcome))
            assert any(f.result == result and words in f.message for f in facts), facts

        return check
