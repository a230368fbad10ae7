"""Names of multi-cluster services for benchmarks: three clusters each, so that answers rotate."""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace
from tests.support.builders import cluster, snapshot, stored

from hanse.dns.compiler import Compiler
from hanse.dns.listeners import bind_listeners
from hanse.dns.server import ServedView, serving
from hanse.dns.updater import ViewUpdater
from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.discovery import Endpoint, EndpointPort, EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ServiceImport, ServiceImportSpec
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, Snapshot

NAMESPACE, ZONE = "default", "clusterset.local"
CLUSTERS = ("bergen", "hamburg", "lubeck")
WORKERS = len(os.sched_getaffinity(0))


class _Watching:
    """A feature that only looks, so that a snapshot has what zones read."""

    name = "dns"
    watches = ServiceZone(View("any")).watches

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:  # noqa: ARG002 - a feature's
        return ()

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:  # noqa: ARG002 - a feature's
        return Plan()


def whole_name(service: str) -> str:
    """The name that clients ask for."""
    return f"{service}.{NAMESPACE}.svc.{ZONE}"


def seen_with(services: Sequence[str]) -> Snapshot:
    """What an agent sees where these services are imported from three clusters."""
    objects: list[Object] = []
    for number, name in enumerate(services):
        spec = ServiceImportSpec(type="ClusterSetIP", ports=(ImportedPort(port=80, name="http"),))
        objects.append(stored(ServiceImport(metadata=_meta(name), spec=spec)))
        for place, source in enumerate(CLUSTERS):
            address = f"10.{place}.{number >> 8}.{number & 255}"
            objects.append(stored(imported_slice(name, source, address)))
    states = [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER)]
    return snapshot(_Watching(), "lubeck", states, {"lubeck": objects})


def imported_slice(service: str, source: str, address: str) -> EndpointSlice:
    """One cluster's address of a service."""
    meta = _meta(f"{service}-{source}")
    labels = {SERVICE_NAME: service, SOURCE_CLUSTER: source}
    return EndpointSlice(
        metadata=replace(meta, labels=labels),
        address_type="IPv4",
        endpoints=(Endpoint(addresses=(address,)),),
        ports=(EndpointPort(port=80, name="http"),),
    )


def compiler_of() -> Compiler:
    """The compiler of a view without a local cluster: every answer takes its turn."""
    view = View("bench")
    return Compiler(view, [ServiceZone(view)])


class OwnServer(Struct, frozen=True):
    """Our server while it runs."""

    port: int
    pids: tuple[int, ...]
    feed: ViewUpdater


@asynccontextmanager
async def served(snapshot: Snapshot, workers: int = WORKERS) -> AsyncIterator[OwnServer]:
    """Our server on loopback, with a worker for each core unless told otherwise."""
    compiler, listeners = compiler_of(), bind_listeners("127.0.0.1", 0, workers)
    try:
        async with serving([ServedView(compiler, (listeners,))]) as server:
            feed = ViewUpdater(compiler, server, lambda: snapshot)
            async with feed.running():
                await feed.wait_applied()
                yield OwnServer(listeners.address[1], server.pids, feed)
    finally:
        listeners.close()


def _meta(name: str) -> Meta:
    return Meta(name=name, namespace=NAMESPACE)
