"""Tenant networks of one cluster: pods get a port each, of their own network."""

from collections.abc import AsyncIterator, Sequence

from hanse.features.networks.names import NETWORK, READINESS, TENANT
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network, NetworkPort
from hanse.model.objects import Wire
from tests.scenarios.networks import HERE, NetworksScenario
from tests.support.simulator.fleet import Fleet, is_live
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import step

NAMES = ("lab", "field", "yard")
PODS = ("p1", "p2", "p3", "p4")
SUBNETS = [{"name": "front", "cidr": "10.30.0.0/27"}]


class Networks:
    """A tenant's networks and pods come and go."""

    name = "networks"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._users = NetworksScenario(fleet, 1)
        self.tenant = self.space = ""

    async def open(self) -> None:
        await self._users.open()
        self.tenant = await self._users.create_tenant()
        self.space = await self._users.create_namespace(self.tenant)

    async def heal(self) -> None:
        """Nothing: what users do stands."""

    def laws(self) -> Sequence[Law]:
        return (PortsOnce(self._fleet), PodsConnected(self._fleet, self))

    @step(4, opening=True, name=NAMES)
    async def build(self, name: str) -> None:
        await self._users.create_network(
            self.tenant, name, "vpc", vpcID=name, subnets=SUBNETS, service={}
        )

    @step(2, name=NAMES)
    async def raze(self, name: str) -> None:
        """A network is deleted, and its pods with it."""
        await self._fleet.admin(HERE).delete(Network, f"{self.tenant}.{name}", "")
        for pod in await self.pods():
            if pod["metadata"]["labels"].get(NETWORK) == name:
                await self.end(pod["metadata"]["name"])

    @step(6, opening=True, pod=PODS, network=NAMES)
    async def run(self, pod: str, network: str) -> None:
        """A pod as the webhook leaves it: gated until it has its port."""
        if (HERE, Network, "", f"{self.tenant}.{network}") not in self._fleet.users:
            return
        gates = [{"name": READINESS}]
        notes = {READINESS: "false"}
        await self._users.create_pod(self.space, pod, annotations=notes, schedulingGates=gates)
        change = {"metadata": {"labels": {TENANT: self.tenant, NETWORK: network}}}
        await self._fleet.admin(HERE).patch(Pod, pod, self.space, change)

    @step(3, pod=PODS)
    async def end(self, pod: str) -> None:
        await self._fleet.admin(HERE).delete(Pod, pod, self.space)

    async def pods(self) -> list[Wire]:
        found = await self._fleet.objects(HERE, Pod, self.space)
        return [pod for pod in found if is_live(pod)]


class PortsOnce(Law):
    """No address belongs to two."""

    name = "ports-once"
    sentence = "No two pods of a network have the same address, and no pod has two ports."

    async def observe(self) -> AsyncIterator[str]:
        ports = [p for p in await self.fleet.objects(HERE, NetworkPort) if is_live(p)]
        taken = [(p["spec"]["network"], p["spec"].get("address")) for p in ports]
        holders = [p["spec"]["pod"]["uid"] for p in ports]
        given = [one for one in taken if one[1]]
        if len(set(given)) < len(given):
            yield f"an address is given twice: {sorted(given)}"
        if len(set(holders)) < len(holders):
            yield f"a pod has two ports: {sorted(holders)}"


class PodsConnected(Law):
    """Pods start with their port, and ports go with their pods."""

    name = "pods-connected"
    sentence = (
        "At rest every network is Ready, every pod of a network has its one port and is free to "
        "start, and nothing is left of pods that are gone."
    )

    def __init__(self, fleet: Fleet, networks: Networks) -> None:
        super().__init__(fleet)
        self._networks = networks

    async def at_rest(self) -> AsyncIterator[str]:
        networks = await self.fleet.objects(HERE, Network)
        for network in networks:
            if (phase := network.get("status", {}).get("phase")) != "Ready":
                yield f"{network['metadata']['name']} is {phase}"
        every = await self.fleet.objects(HERE, Pod)
        ports = await self.fleet.objects(HERE, NetworkPort)
        owners = {port["spec"]["pod"]["uid"]: port for port in ports}
        if left := set(owners) - {pod["metadata"]["uid"] for pod in every}:
            yield f"ports are left of pods that are gone: {sorted(left)}"
        names = {network["metadata"]["name"] for network in networks}
        for pod in every:
            labels = pod["metadata"].get("labels", {})
            full = f"{labels.get(TENANT)}.{labels.get(NETWORK)}"
            if pod["metadata"]["namespace"] != self._networks.space or full not in names:
                continue
            port = owners.get(pod["metadata"]["uid"])
            if port is None or port["spec"]["network"] != full:
                yield f"{pod['metadata']['name']} has the port {port}, not one of {full}"
            if pod["spec"].get("schedulingGates"):
                yield f"{pod['metadata']['name']} still waits for its port"
