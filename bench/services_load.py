"""The load of the rows on real clusters: Services that every cluster exports."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.bare_client import (
    WORK,
    Collection,
    Write,
    create,
    namespace,
    patch,
    standing_in,
    warm,
    write_all,
)
from bench.object_waiter import ObjectWaiter, WatchScope
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SOURCE_CLUSTER
from hanse.kube.transport import Transport
from hanse.local.real.fleet import BROKER, NAMES
from hanse.local.up.bootstrap import (
    CLUSTER_SET,
    crd_objects,
    create_if_absent,
    install_crds,
)
from hanse.model.conditions import find_condition
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Object, Wire

OURS = f"{MANAGED_BY}={DOMAIN}"
AT_HOME = (
    Collection(ServiceExport.kind, WORK),
    Collection(ServiceImport.kind, WORK),
    Collection(EndpointSlice.kind, WORK, OURS),
)
SHARED = (
    Collection(ServiceImport.kind, BROKER_NAMESPACE),
    Collection(EndpointSlice.kind, BROKER_NAMESPACE, OURS),
)
LEFT = {**dict.fromkeys(NAMES, AT_HOME), BROKER: SHARED}


async def prepare(transports: Mapping[str, Transport], names: Sequence[str]) -> None:
    """Kinds, namespaces, and in each cluster Services of these names with one ready endpoint."""
    for cluster, way in transports.items():
        await install_crds(way, crd_objects())
        await namespace(way, BROKER_NAMESPACE if cluster == BROKER else WORK)
    if BROKER in transports:
        await create_if_absent(transports[BROKER], CLUSTER_SET)
    await warm(transports)
    members = [cluster for cluster in transports if cluster != BROKER]
    await write_all(transports, [w for c in members for n in names for w in _service(c, n)])


def exports(cluster: str, names: Iterable[str]) -> list[Write]:
    """The load: each Service exported by one cluster."""
    return [create(cluster, _object(ServiceExport, WORK, name)) for name in names]


def looks(sources: int) -> dict[str, WatchScope]:
    """Where all that comes of the load is seen."""

    def mark(obj: Object) -> str | None:
        return _mark(obj, sources)

    home = WatchScope((ServiceExport, ServiceImport, EndpointSlice, ConfigMap), WORK, mark)
    broker = WatchScope((ServiceImport, EndpointSlice, ConfigMap), BROKER_NAMESPACE, mark)
    return {**dict.fromkeys(NAMES, home), BROKER: broker}


def imported(names: Iterable[str], sources: Iterable[str]) -> set[str]:
    """What a cluster or the broker has of services that some clusters export."""
    by = tuple(sources)
    return {
        mark for n in names for mark in (f"import {n}", *(f"slice {n} {source}" for source in by))
    }


def exports_with_status(names: Iterable[str]) -> set[str]:
    """What is told on exports."""
    return {f"export {name}" for name in names}


async def everywhere(
    seen: Mapping[str, ObjectWaiter], names: Sequence[str], sources: Sequence[str] = NAMES
) -> None:
    """Wait until each cluster has each import and slice, and each record and answer stands."""
    all_of_it = imported(names, sources)
    await asyncio.gather(
        *(seen[c].until(all_of_it) for c in (*NAMES, BROKER)),
        *(seen[c].until(exports_with_status(names)) for c in sources),
    )


async def bare_writes(transports: Mapping[str, Transport]) -> list[Write]:
    """What a client would send that knew the end from the start: each object once, as it stands.

    What has a status of its own is created and then told it, since no create takes one.
    """
    return [
        write
        for cluster, way in transports.items()
        for write in _in_order(cluster, await standing_in(way, LEFT[cluster]))
    ]


def is_by_people(write: Write) -> bool:
    """Whether a person, and not Hanse, makes this one."""
    return write.request.method == "POST" and write.request.path.endswith("/serviceexports")


def _in_order(cluster: str, standing: Iterable[Wire]) -> list[Write]:
    creates: list[Write] = []
    patches: list[Write] = []
    for obj in standing:
        status = obj.get("status")
        creates.append(create(cluster, {k: v for k, v in obj.items() if k != "status"}))
        if status:
            patches.append(patch(cluster, obj, {"status": status}, "/status"))
    return [*creates, *patches]


def _mark(obj: Object, sources: int) -> str | None:
    meta = obj.metadata
    match obj:
        case ServiceExport():
            ready = find_condition(obj.status.conditions, "Ready")
            done = ready is not None and ready.status == "True"
            return f"export {meta.name}" if done else None
        case ServiceImport():
            name = meta.labels.get(SERVICE_NAME, meta.name)
            return f"import {name}" if len(obj.status.clusters) == sources else None
        case EndpointSlice() if meta.labels.get(MANAGED_BY) == DOMAIN:
            return f"slice {meta.labels[SERVICE_NAME]} {meta.labels[SOURCE_CLUSTER]}"
        case ConfigMap(data=data):
            return f"{meta.name} with status" if "status" in data else meta.name
        case _:
            return None


def _service(cluster: str, name: str) -> tuple[Write, Write]:
    """A Service, and an endpoint of it that nobody but us looks after."""
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    endpoint = {"addresses": [f"10.20.{NAMES.index(cluster)}.1"], "conditions": {"ready": True}}
    labels = {KUBE_SERVICE: name, MANAGED_BY: "bench"}
    backing = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": WORK, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": ports,
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": WORK},
        "spec": {"ports": ports},
    }
    return create(cluster, service), create(cluster, backing)


def _object(kind: type[Object], place: str, name: str) -> dict[str, Any]:
    head = {"apiVersion": kind.kind.api_version, "kind": kind.kind.name}
    return {**head, "metadata": {"name": name, "namespace": place}}
