"""Federated Services as a federation grows: what a member costs, how soon a change is in all.

The federation is simulated: embedded clusters, elected leaders and real engines in one process, on
virtual time, so that counts are exact and a delay is all that a request costs.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.support.builders import namespace
from tests.support.faults import LinkFaults
from tests.support.supervised_world import SupervisedWorld

from bench.figures import AtMost, Figure, percentile
from bench.row import Effort, Once, Row
from bench.simulated_fleets import MemberFleet, bytes_held, count_plans
from hanse.features.federated.feature import FederatedServices
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta
from tinykube.virtual_time import run

MEMBERS_OF_A_SERVICE = 3
SHOP = "shop"
GLOBAL = "svc.global.federated.antreaplus.vmware.com"
TRIP = timedelta(milliseconds=50)
"""What a request takes on the simulated network."""
CALM = 10.0
"""Virtual seconds without a write after which a federation counts as settled."""


class Measured(MemberFleet):
    """A federation of which one knows when it is settled."""

    def __init__(self, members: int) -> None:
        super().__init__(members, lambda: (FederatedServices(),))

    async def calm(self) -> None:
        """Wait until nobody writes any more."""
        before = -1
        while before != self.traffic.writes:
            before = self.traffic.writes
            await asyncio.sleep(CALM)


async def cost(members: int, services: int) -> dict[str, float]:
    """What all of it costs for each member, from nothing until it is settled."""
    federation = Measured(members)
    await _found(federation)
    async with federation.running():
        await federation.calm()
        await _join(federation, services)
        await federation.calm()
        await _require_whole(federation, services)
        return {
            "plans": count_plans(federation.reconcilers) / members,
            "writes": federation.traffic.writes / members,
            "bytes read": federation.traffic.bytes_read / members,
            "bytes held": sum(map(bytes_held, federation.reconcilers)) / members,
        }


async def changes(members: int, times: int) -> list[float]:
    """Virtual seconds from the change of a pod until every member has it, again and again."""
    federation = Measured(members)
    await _found(federation)
    async with federation.running():
        await _join(federation, 1)
        await federation.calm()
        for source in federation.supervisor_names:
            for target in federation.names:
                federation.network.link(source, target).faults = LinkFaults(delay=TRIP)
        taken = []
        for number in range(times):
            taken.append(await _change(federation, f"10.200.0.{number % 200 + 1}"))
            await asyncio.sleep(1)
        return taken


async def _found(federation: SupervisedWorld) -> None:
    await federation.open()
    for name in federation.names:
        await federation.admin(name).create(namespace(SHOP))


async def _join(federation: SupervisedWorld, services: int) -> None:
    """Each federated Service has members in clusters that are far apart in the order."""
    many = len(federation.names)
    for number in range(services):
        for turn in range(MEMBERS_OF_A_SERVICE):
            where = federation.names[(number + turn * many // MEMBERS_OF_A_SERVICE) % many]
            meta = Meta(
                name=f"s{number}-{turn}", namespace=SHOP, annotations={GLOBAL: f"s{number}"}
            )
            ports = (ServicePort(port=80, name="http"),)
            admin = federation.admin(where)
            await admin.create(Service(metadata=meta, spec=ServiceSpec(ports=ports)))
            await admin.create(_pods(meta.name, f"10.{turn}.{number // 200}.{number % 200 + 1}"))


def _pods(service: str, address: str) -> EndpointSlice:
    endpoint = Endpoint(addresses=(address,), conditions=EndpointConditions(ready=True))
    labels = {KUBE_SERVICE: service}
    return EndpointSlice(
        metadata=Meta(name=f"{service}-pods", namespace=SHOP, labels=labels),
        address_type="IPv4",
        endpoints=(endpoint,),
        ports=(EndpointPort(port=8080, name="http"),),
    )


async def _require_whole(federation: SupervisedWorld, services: int) -> None:
    for name in federation.names:
        found = await federation.admin(name).list(EndpointSlice, namespace=SYSTEM)
        wanted = services * MEMBERS_OF_A_SERVICE
        assert len(found.objects) == wanted, f"{name} has {len(found.objects)} of {wanted} slices"


async def _change(federation: SupervisedWorld, address: str) -> float:
    """Give a member Service another pod, and wait until each member's slice tells it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
    where = federation.names[0]
    await federation.admin(where).patch(EndpointSlice, "s0-0-pods", SHOP, {"endpoints": endpoints})
    waiting = set(federation.names)
    while waiting:
        await asyncio.sleep(0.005)
        for name in list(waiting):
            found = await federation.admin(name).list(EndpointSlice, namespace=SYSTEM)
            if any(address in e.addresses for s in found.objects for e in s.endpoints or ()):
                waiting.discard(name)
    return loop.time() - began


def _simulated(effort: Effort) -> dict[str, float]:
    few, many = 3, effort.of(100, 9)
    services = effort.of(200, 6)
    small, large = run(cost(few, services)), run(cost(many, services))
    taken = run(changes(effort.of(30, 6), effort.of(50, 10)))
    named = {"many": large, "few": small}
    return {
        **{f"{what}, {size}": v for size, costs in named.items() for what, v in costs.items()},
        "change p50": 1000 * percentile(taken, 0.5),
        "change p99": 1000 * percentile(taken, 0.99),
        "two trips": 2000 * TRIP.total_seconds(),
    }


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    """Virtual time makes every run the same: it is run once, beside the loop that waits for it."""
    figures = await asyncio.to_thread(_simulated, effort)

    async def once() -> Mapping[str, float]:
        return figures

    yield once


FEDERATED = Row(
    name="federated",
    about="200 federated Services of 3 members each, 3 supervisors: cost per member with 3 and 100",
    against="the same with 3 members; for a change, its two unavoidable writes one after another",
    figures=(
        Figure("plans, many", "", AtMost(1.2), against="plans, few"),
        Figure("writes, many", "", AtMost(1.2), against="writes, few"),
        Figure("bytes read, many", "B", AtMost(1.2), against="bytes read, few"),
        Figure("bytes held, many", "B", AtMost(1.2), against="bytes held, few"),
        Figure("change p50", "ms", against="two trips"),
        Figure("change p99", "ms", AtMost(3.0), against="two trips"),
    ),
    prepare=_prepared,
)
