"""Tenants, networks and pods come and go while the agent crashes and its link fails: laws hold.

A failing schedule prints its seed, and replays by it.
"""

import asyncio
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from hanse.features.networks.feature import Networks
from hanse.features.networks.names import READINESS
from hanse.features.networks.options import NetworksOptions
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.networking import NetworkPolicy, ServiceCIDR
from hanse.model.kinds.networks import Network, NetworkPort
from tests.scenarios.network_fixtures import agent_users
from tests.scenarios.networks import HERE, NetworksScenario
from tests.support.faults import NO_FAULTS, LinkFaults
from tests.support.scenario import Scenario, describe_writes
from tests.support.testbed_embedded import embedded_testbed
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio

SEEDS = (0, 1, 123)
STEPS = 40
FAULTS = LinkFaults(refused=0.1, lost=0.1, breaks=0.02, delay=timedelta(milliseconds=20))
SUBNETS = [{"name": "front", "cidr": "10.30.0.0/27"}]


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class Schedule:
    """One schedule: what people do, and what befalls the agent."""

    def __init__(self, tenancy: NetworksScenario, seed: int) -> None:
        self.tenancy = tenancy
        self.random = Random(seed)
        self.pods: dict[str, str] = {}
        self.networks: set[str] = {"lab"}
        self.made = 0
        self.acme = ""
        self.space = ""

    async def begin(self) -> None:
        self.acme = await self.tenancy.create_tenant()
        self.space = await self.tenancy.create_namespace(self.acme)
        await self._build("lab")

    async def step(self) -> None:
        scenario = self.tenancy.scenario
        link = scenario.network.link(HERE, HERE)
        deed = self.random.choice(
            ["run", "run", "run", "end", "end", "build", "raze", "crash", "storm", "cut", "fair"]
        )
        match deed:
            case "run":
                await self._run()
            case "end" if self.pods:
                name = self.random.choice(sorted(self.pods))
                del self.pods[name]
                await self.tenancy.admin.delete(Pod, name, self.space)
            case "build":
                await self._build(f"n{self.made}")
            case "raze" if self.networks:
                await self._raze(self.random.choice(sorted(self.networks)))
            case "crash" if HERE in scenario.agents:
                await scenario.kill_agent(HERE)
                await scenario.start_agent(HERE)
            case "storm":
                link.faults = FAULTS
            case "cut":
                scenario.network.cut(HERE, HERE)
            case "fair":
                scenario.network.heal(HERE, HERE)
                link.faults = NO_FAULTS
            case _:
                pass
        await asyncio.sleep(self.random.choice([0, 0.05, 1, 5]))

    async def _run(self) -> None:
        if not self.networks:
            return
        self.made += 1
        name, network = f"p{self.made}", self.random.choice(sorted(self.networks))
        self.pods[name] = network
        gates: dict[str, Any] = {
            "annotations": {READINESS: "false"},
            "schedulingGates": [{"name": READINESS}],
        }
        labels = {
            "arktos.futurewei.com/tenant": self.acme,
            "arktos.futurewei.com/network": network,
        }
        await self.tenancy.create_pod(self.space, name, **gates)
        change = {"metadata": {"labels": labels}}
        await self.tenancy.admin.patch(Pod, name, self.space, change)

    async def _build(self, short: str) -> None:
        self.made += 1
        self.networks.add(short)
        ranges = {"cidrs": [f"10.{100 + self.made}.0.0/24"]} if self.random.random() < 0.5 else {}
        await self.tenancy.create_network(
            self.acme, short, "vpc", vpcID=short, subnets=SUBNETS, service=ranges
        )

    async def _raze(self, short: str) -> None:
        """A network is deleted, and its pods with it, in whichever order."""
        self.networks.discard(short)
        mine = [name for name, network in self.pods.items() if network == short]
        for name in mine:
            del self.pods[name]
        await self.tenancy.admin.delete(Network, f"{self.acme}.{short}", "")
        for name in mine:
            await self.tenancy.admin.delete(Pod, name, self.space)

    async def end(self) -> None:
        """Fair weather, and time for everything to come to rest."""
        self.tenancy.scenario.network.heal_all()
        await self.tenancy.scenario.settled()

    async def laws(self) -> None:
        """What must be so once all is calm."""
        admin = self.tenancy.admin
        networks = {n.metadata.name for n in (await admin.list(Network)).objects}
        expected = {f"{self.acme}.{short}" for short in (*self.networks, "default")}
        assert networks == expected
        for name in networks:
            await self.tenancy.has_phase(name, "Ready")()
        await self._ports()
        policies = (await admin.list(NetworkPolicy, namespace=self.space)).objects
        named = {p.metadata.labels.get("arktos.futurewei.com/network", "") for p in policies}
        assert named - {""} == {*self.networks, "default"}
        spaces = [n.metadata.name for n in (await admin.list(Namespace)).objects]
        assert f"{self.acme}-kube-system" in spaces
        services = (await admin.list(Service, namespace=f"{self.acme}-kube-system")).objects
        assert len(services) == len(networks)
        ranges = [
            c
            for c in (await admin.list(ServiceCIDR)).objects
            if c.metadata.name.startswith(self.acme)
        ]
        assert len({c.spec.cidrs for c in ranges}) == len(ranges)

    async def _ports(self) -> None:
        """Each pod has one port, of its own network; nobody else has any; none is given twice."""
        admin = self.tenancy.admin
        pods = {
            p.metadata.uid: p
            for space in (self.space, f"{self.acme}-kube-system")
            for p in (await admin.list(Pod, namespace=space)).objects
        }
        ports = (await admin.list(NetworkPort)).objects
        holders = [port.spec.pod.uid for port in ports]
        assert len(set(holders)) == len(holders), "a pod has two ports"
        assert set(holders) <= set(pods), "a port is left of a pod that is gone"
        taken = [(port.spec.network, port.spec.address) for port in ports]
        assert len(set(taken)) == len(taken), "an address is given twice"
        for name, network in self.pods.items():
            pod = await admin.read(Pod, name, self.space)
            (own,) = [port for port in ports if port.spec.pod.uid == pod.metadata.uid]
            assert own.spec.network == f"{self.acme}.{network}"
            assert not pod.spec.scheduling_gates


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_any_storm_every_pod_has_its_port_and_nothing_is_left_over(seed: int) -> None:
    async with embedded_testbed((HERE,)) as testbed:
        options = NetworksOptions(agents=agent_users("storm"))
        async with Scenario(testbed, "storm", lambda: (Networks(options),), seed=seed) as scenario:
            tenancy = NetworksScenario(scenario, seed)
            await tenancy.open()
            await scenario.start_agent(HERE)
            storm = Schedule(tenancy, seed)
            await storm.begin()

            for _ in range(STEPS):
                await storm.step()
            await storm.end()

            await storm.laws()
            await scenario.kill_agent(HERE)
            start = len(scenario.network.sent)
            await scenario.start_agent(HERE)
            await scenario.settled()
            assert describe_writes(scenario.writes_since(start)) == []
