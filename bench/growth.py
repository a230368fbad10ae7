"""What a change costs as a fleet grows: each feature on simulated fleets of any size.

Agents are real, clusters embedded, time virtual: what is counted (plans, writes, watch events, and
bytes that travel) is the same in each run and on each machine.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct
from tests.features.gslb.fleet import LABELS, amko, config, policy
from tests.features.services.builders import backends
from tests.scenarios.statefulsets import spec_of
from tests.support.builders import namespace
from tests.support.world import BROKER

from bench.simulated_fleets import (
    BrokerFleet,
    MemberFleet,
    SiteFleet,
    bytes_held,
    count_plans,
    define_kinds,
)
from hanse.features.federated.feature import FederatedServices
from hanse.features.policies.content import FEDERATED, KINDS
from hanse.features.policies.feature import Policies
from hanse.features.services.feature import Services
from hanse.features.statefulsets.feature import StatefulSets
from hanse.kube.client import Client
from hanse.kube.transport import Request
from hanse.model.crds import crd_of, crds, placeholder_crds
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.kinds.hanse import ClusterSet, FederatedStatefulSet
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, Meta
from tinykube.virtual_time import run

SHOP = "shop"
SERVICES = 10
"""Services of a simulated fleet, whatever its size: the fleet grows, not what it serves."""
EXPORTERS = 3
CHANGES = 5
SETTLED = 90.0
"""Virtual seconds after which nothing of a change is left to do."""
_SOONER = {"gslb": 20.0}
"""The same where nothing waits, and what a leader renews every ten seconds would outweigh it."""
_INGRESSES = f"/apis/networking.k8s.io/v1/namespaces/{SHOP}/ingresses"
_GLOBAL = "svc.global.federated.antreaplus.vmware.com"


class Cost(Struct, frozen=True):
    """What one change costs all agents together, and what they keep; Leases do not count."""

    plans: float
    writes: float
    events: float
    """That watches deliver."""
    bytes_read: float
    watches: float
    """Open streams of all agents."""
    held: float
    """Bytes that an agent caches, as they travel, on average."""
    hub_objects: float
    """Objects on the broker, or in the supervisors' ledgers."""

    @property
    def per_change(self) -> dict[str, float]:
        """What grows with the changes."""
        return {
            "plans": self.plans,
            "writes": self.writes,
            "events": self.events,
            "bytes": self.bytes_read,
        }


Change = Callable[[int], Awaitable[object]]
"""A user's change; the number makes each differ from the one before."""


async def _services(size: int) -> tuple[BrokerFleet, Change]:
    """An endpoint of a service that three clusters export becomes another."""
    fleet = BrokerFleet(size, lambda: (Services(),))
    await fleet.define((ServiceExport, ServiceImport, ClusterSet), SHOP)
    await fleet.client(BROKER).create(ClusterSet(metadata=Meta(name="hanse")))
    for number in range(SERVICES):
        for turn in range(EXPORTERS):
            admin = fleet.client(_place(fleet.names, number, turn))
            meta = Meta(name=f"s{number}", namespace=SHOP)
            ports = (ServicePort(port=80, name="http"),)
            # headless, so that endpoints are pods: the change that is most frequent
            await admin.create(
                Service(metadata=meta, spec=ServiceSpec(ports=ports, cluster_ip="None"))
            )
            await admin.create(_pods(meta.name))
            await admin.create(ServiceExport(metadata=meta))

    async def change(number: int) -> None:
        await _move(fleet.client(fleet.names[0]), "s0", number)

    return fleet, change


async def _statefulsets(size: int) -> tuple[BrokerFleet, Change]:
    """A set over all clusters gets one replica more."""
    fleet = BrokerFleet(size, lambda: (StatefulSets(BROKER_NAMESPACE),))
    await fleet.define((FederatedStatefulSet, StatefulSetPart, StatefulSetShares))
    broker = fleet.client(BROKER)
    await broker.create(namespace(SHOP))
    meta = Meta(name="store", namespace=SHOP)
    await broker.create(StatefulSet(metadata=meta, spec=spec_of(2 * size)))

    async def change(number: int) -> None:
        spec = {"spec": {"replicas": 2 * size + number + 1}}
        await broker.patch(StatefulSet, "store", SHOP, spec)

    return fleet, change


async def _federated(size: int) -> tuple[MemberFleet, Change]:
    """An endpoint of a federated Service with three members becomes another."""
    fleet = MemberFleet(size, lambda: (FederatedServices(),))
    await fleet.open()
    for name in fleet.names:
        await fleet.admin(name).create(namespace(SHOP))
    for number in range(SERVICES):
        for turn in range(EXPORTERS):
            admin = fleet.admin(_place(fleet.names, number, turn))
            name = f"s{number}-{turn}"
            meta = Meta(name=name, namespace=SHOP, annotations={_GLOBAL: f"s{number}"})
            ports = (ServicePort(port=80, name="http"),)
            await admin.create(Service(metadata=meta, spec=ServiceSpec(ports=ports)))
            await admin.create(_pods(name))

    async def change(number: int) -> None:
        await _move(fleet.admin(fleet.names[0]), "s0-0", number)

    return fleet, change


async def _policies(size: int) -> tuple[MemberFleet, Change]:
    """A policy that all members have gets another priority."""
    fleet = MemberFleet(size, lambda: (Policies(),))
    wanted = {k.kind.definition for k in KINDS.values()} | {
        "acceptancepolicies.hanse.dev",
        "clustersets.hanse.dev",
    }
    found = [d for d in (*crds(), *placeholder_crds()) if d["metadata"]["name"] in wanted]
    await fleet.open()
    for name in fleet.names:
        await define_kinds(fleet.admin(name), found)
    admin = fleet.admin(fleet.names[0])
    for number in range(SERVICES):
        meta = Meta(name=f"deny-{number}", annotations={FEDERATED: "true"})
        await admin.create(AntreaClusterNetworkPolicy(metadata=meta, spec={"priority": 1}))

    async def change(number: int) -> None:
        spec = {"spec": {"priority": number + 2}}
        await admin.patch(AntreaClusterNetworkPolicy, "deny-0", "", spec)

    return fleet, change


async def _gslb(size: int) -> tuple[SiteFleet, Change]:
    """The address of a host that three sites serve becomes another in one of them."""
    fleet = SiteFleet(size)
    kinds = (AMKOCluster, GSLBConfig, GlobalDeploymentPolicy, GSLBHostRule, GlobalService)
    for name in fleet.names:
        admin = fleet.client(name)
        await define_kinds(admin, [crd_of(kind) for kind in kinds])
        for space in (NAMESPACE, SHOP):
            await admin.create(namespace(space))
        await admin.create(amko(name, *fleet.names, leads=name == fleet.names[0]))
    leader = fleet.client(fleet.names[0])
    await leader.create(config(*fleet.names))
    await leader.create(policy(*fleet.names))
    for number in range(SERVICES):
        for turn in range(EXPORTERS):
            admin = fleet.client(_place(fleet.names, number, turn))
            await _make_ingress(admin, f"h{number}")
            await _serve(admin, f"h{number}", f"192.0.2.{turn + 1}")

    async def change(number: int) -> None:
        await _serve(leader, "h0", f"198.51.100.{number + 1}")

    return fleet, change


async def _make_ingress(admin: Client, name: str) -> None:
    """An Ingress of a host, and the Service behind it."""
    ports = (ServicePort(port=80, name="http"),)
    meta = Meta(name=name, namespace=SHOP)
    await admin.create(Service(metadata=meta, spec=ServiceSpec(ports=ports)))
    backend = {"service": {"name": name, "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name, "namespace": SHOP, "labels": LABELS},
        "spec": {"rules": [{"host": f"{name}.example.org", "http": {"paths": paths}}]},
    }
    await admin.send(Request("POST", _INGRESSES, body=msgspec.json.encode(body)))


async def _serve(admin: Client, name: str, address: str) -> None:
    body = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
    path = f"{_INGRESSES}/{name}/status"
    merge = "application/merge-patch+json"
    await admin.send(Request("PATCH", path, body=msgspec.json.encode(body), content_type=merge))


FEATURES: dict[str, Callable[[int], Awaitable[tuple[BrokerFleet | MemberFleet, Change]]]] = {
    "services": _services,
    "statefulsets": _statefulsets,
    "federated": _federated,
    "policies": _policies,
    "gslb": _gslb,
}
"""The features by which clusters share; the others look at their own cluster alone."""


def cost(feature: str, size: int) -> Cost:
    """What a change costs a settled fleet of a size."""
    return run(_cost(feature, size))


async def _cost(feature: str, size: int) -> Cost:
    fleet, change = await FEATURES[feature](size)
    async with fleet.running():
        settled = _SOONER.get(feature, SETTLED)
        await asyncio.sleep(2 * settled)
        before = _counts(fleet)
        for number in range(CHANGES):
            await change(number)
            await asyncio.sleep(settled)
        plans, writes, events, read = (
            (new - old) / CHANGES for new, old in zip(_counts(fleet), before, strict=True)
        )
        held = sum(map(bytes_held, fleet.reconcilers)) / len(fleet.reconcilers)
        return Cost(plans, writes, events, read, fleet.traffic.watches, held, fleet.hub_objects)


def _counts(fleet: BrokerFleet | MemberFleet) -> tuple[float, ...]:
    """Plans, writes, events and bytes so far."""
    traffic = fleet.traffic
    return count_plans(fleet.reconcilers), traffic.writes, traffic.events, traffic.bytes_read


def _place(names: tuple[ClusterId, ...], number: int, turn: int) -> ClusterId:
    """Clusters that are far apart; the first service is in the first cluster."""
    return names[(number + turn * len(names) // EXPORTERS) % len(names)]


def _pods(service: str) -> EndpointSlice:
    made = backends()
    labels = {KUBE_SERVICE: service}
    meta = Meta(name=f"{service}-pods", namespace=SHOP, labels=labels)
    return msgspec.structs.replace(made, metadata=meta)


async def _move(admin: Client, service: str, number: int) -> None:
    endpoints = [{"addresses": [f"10.200.0.{number + 1}"], "conditions": {"ready": True}}]
    await admin.patch(EndpointSlice, f"{service}-pods", SHOP, {"endpoints": endpoints})
