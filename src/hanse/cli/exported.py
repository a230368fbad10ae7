"""Every exported service, put together from what each cluster holds of it."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from hanse.cli.clusters import Way
from hanse.cli.looking import AGENT_LEASE, PATIENCE, SYSTEM_NAMESPACE
from hanse.features.services.names import (
    MANAGED_BY,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    US,
)
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.http import HttpTransport
from hanse.kube.request import Request
from hanse.model.conditions import Condition, find
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ServiceExport, ServiceImport
from hanse.model.objects import Object

_OURS = f"{SERVICE_NAME},{MANAGED_BY}={US},!{SERVICE_NAMESPACE}"
"""Imported slices; those with the namespace as a label are a broker's."""

K = TypeVar("K", bound=Object)


class Holding(Struct, frozen=True):
    """What one cluster holds of exported services."""

    cluster: str
    """The cluster's id where its agent tells it, else the name of the context."""
    exports: tuple[ServiceExport, ...] = ()
    imports: tuple[ServiceImport, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()


class Ready(Struct, frozen=True):
    """How many endpoints there are, and how many of them are ready."""

    ready: int
    all: int

    def __str__(self) -> str:
        return f"{self.ready}/{self.all}"


class Problem(Struct, frozen=True):
    """What one cluster says is wrong with its export."""

    cluster: str
    reason: str
    message: str


class ServiceSeen(Struct, frozen=True):
    """One exported service over all clusters that were looked at."""

    namespace: str
    name: str
    type: str = ""
    """Empty while no cluster imports it."""
    ports: tuple[ImportedPort, ...] = ()
    exporters: tuple[str, ...] = ()
    importers: tuple[str, ...] = ()
    endpoints: dict[str, Ready] = {}
    """By the cluster that they are in."""
    problems: tuple[Problem, ...] = ()


async def look_at_services(ways: Iterable[Way]) -> list[ServiceSeen]:
    """The exported services of all clusters that answer."""
    held = await asyncio.gather(*(_held_by(way) for way in ways))
    return services_in([one for one in held if one is not None])


async def _held_by(way: Way) -> Holding | None:
    client = Client(HttpTransport(way.credentials))
    try:
        await client.send(Request("GET", "/version", timeout=PATIENCE))  # a dead one ends it here
        await refresh(client)
        return await holding(client, way.name)
    except KubeError:
        return None  # the look at the cluster itself says why
    finally:
        await client.close()


async def holding(client: Client, name: str, namespace: str = "") -> Holding:
    """What a cluster holds, in all namespaces or in one; the client knows what is served."""
    return Holding(
        await cluster_id(client, name),
        await _all(client, ServiceExport, namespace),
        tuple(
            one
            for one in await _all(client, ServiceImport, namespace)
            if SERVICE_NAMESPACE not in one.metadata.labels
        ),
        await _all(client, EndpointSlice, namespace, _OURS),
    )


async def cluster_id(client: Client, otherwise: str) -> str:
    """The id by which a cluster is a member: its agent's Lease is held in that name."""
    try:
        lease = await client.read(Lease, AGENT_LEASE, SYSTEM_NAMESPACE)
    except NotFound:
        return otherwise
    cluster, parted, _ = lease.spec.holder_identity.partition("_")
    return cluster if parted else otherwise


async def _all(
    client: Client, kind: type[K], namespace: str = "", labels: str = ""
) -> tuple[K, ...]:
    try:
        return (await client.list(kind, namespace=namespace, labels=labels)).objects
    except NotFound:
        return ()  # the kind itself is not there


def services_in(held: Sequence[Holding]) -> list[ServiceSeen]:
    """Put together what clusters hold; of each cluster's endpoints its own word counts most."""
    names = {(one.namespace, one.name) for each in held for one in (*each.exports, *each.imports)}
    return [_service(namespace, name, held) for namespace, name in sorted(names)]


def _service(namespace: str, name: str, held: Sequence[Holding]) -> ServiceSeen:
    def is_it(obj: Object) -> bool:
        return (obj.namespace, obj.name) == (namespace, name)

    imports = {each.cluster: one for each in held for one in each.imports if is_it(one)}
    exports = {each.cluster: one for each in held for one in each.exports if is_it(one)}
    shown = next((imports[c] for c in (*exports, *imports) if c in imports), None)
    exporters = {e.cluster for one in imports.values() for e in one.status.clusters}
    return ServiceSeen(
        namespace,
        name,
        type=shown.spec.type if shown is not None else "",
        ports=shown.spec.ports if shown is not None else (),
        exporters=tuple(sorted(exporters)),
        importers=tuple(sorted(imports)),
        endpoints=_endpoints(namespace, name, held),
        problems=tuple(p for c, one in sorted(exports.items()) for p in problems_of(c, one)),
    )


def _endpoints(namespace: str, name: str, held: Sequence[Holding]) -> dict[str, Ready]:
    counted: dict[str, Ready] = {}
    for each in held:
        seen: dict[str, list[bool]] = {}
        for piece in each.slices:
            labels = piece.metadata.labels
            if (piece.namespace, labels.get(SERVICE_NAME)) == (namespace, name):
                known = seen.setdefault(labels.get(SOURCE_CLUSTER, ""), [])
                known += [endpoint.ready for endpoint in piece.endpoints or ()]
        for source, ready in seen.items():
            if source == each.cluster or source not in counted:
                counted[source] = Ready(sum(ready), len(ready))
    return dict(sorted(counted.items()))


def problems_of(cluster: str, export: ServiceExport) -> tuple[Problem, ...]:
    """What an export's conditions say is wrong; nothing at all is wrong too."""
    told = export.status.conditions
    if not told:
        text = "no agent has looked at it; see `hanse doctor`"
        return (Problem(cluster, "Unseen", text),)
    found = [find(told, kind) for kind in ("Valid", "Ready", "AnnotationsValid", "Conflict")]
    bad = [one for one in found if one is not None and _is_bad(one)]
    return tuple(Problem(cluster, one.reason, one.message) for one in bad)


def _is_bad(told: Condition) -> bool:
    return told.status == ("True" if told.type == "Conflict" else "False")


def port_text(port: ImportedPort) -> str:
    """A port as people write it."""
    return f"{port.port}/{port.protocol}" + (f" {port.name}" if port.name else "")


def document(seen: ServiceSeen) -> dict[str, Any]:
    """The service for other programs."""
    return {
        "namespace": seen.namespace,
        "name": seen.name,
        "type": seen.type,
        "ports": [
            {"name": p.name, "port": p.port, "protocol": p.protocol, "appProtocol": p.app_protocol}
            for p in seen.ports
        ],
        "exporters": list(seen.exporters),
        "importers": list(seen.importers),
        "endpoints": {
            cluster: {"ready": count.ready, "all": count.all}
            for cluster, count in seen.endpoints.items()
        },
        "problems": [
            {"cluster": p.cluster, "reason": p.reason, "message": p.message} for p in seen.problems
        ],
    }
