"""A fleet of embedded clusters over HTTPS, in two processes; each answer takes a trip."""

import asyncio
import base64
import json
import multiprocessing
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import uvloop
from msgspec.structs import replace

from bench.rows.judgement import BROKER, fleet_objects
from bench.served import TOKEN
from hanse import app
from hanse.cli.apply import apply, apply_definitions
from hanse.features.services import manifests
from hanse.kube.certificates import CertificateAuthority
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.server_tls import KeyPair, server_context
from hanse.local.in_process import InProcessTransport
from hanse.model.agent_manifests import agent_manifests
from hanse.model.crds import OWN_KINDS
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Service, ServicePort, ServiceSpec
from hanse.model.kinds.hanse import ClusterMember, ClusterMemberSpec, ClusterMemberStatus
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.manifests import crd_manifests, namespace
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta, Object, Wire, to_wire
from tinykube.apiserver import ApiServer
from tinykube.http import serve
from tinykube.request import RequestLike, Response
from tinykube.users import ADMIN, User

PROCESSES = 2
_OPTIONS = app.Options(features=("services",))
_LEASE_SECONDS = 3600


@contextmanager
def served_fleet(services: int, trip: timedelta, kubeconfig: Path) -> Iterator[None]:
    """Write the kubeconfig of a fleet that is served until the block ends."""
    context = multiprocessing.get_context("spawn")
    authority = CertificateAuthority.create("bench")
    issued = authority.server("bench")
    started: list[tuple[SpawnProcess, Connection]] = []
    try:
        for part in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, issued, part, services, trip))
            process.start()
            theirs.close()
            started.append((process, ours))
        servers = {name: url for _, ours in started for name, url in ours.recv().items()}
        kubeconfig.write_text(json.dumps(_kubeconfig(servers, authority.certificate)))
        yield
    finally:
        for process, ours in started:
            ours.close()  # which ends it
            process.join()


def _kubeconfig(servers: Mapping[str, str], certificate: bytes) -> dict[str, Any]:
    ca = base64.b64encode(certificate).decode()
    return {
        "clusters": [
            {"name": n, "cluster": {"server": url, "certificate-authority-data": ca}}
            for n, url in servers.items()
        ],
        "users": [{"name": "bench", "user": {"token": TOKEN}}],
        "contexts": [{"name": n, "context": {"cluster": n, "user": "bench"}} for n in servers],
    }


def _serve(ready: Connection, issued: KeyPair, part: int, services: int, trip: timedelta) -> None:
    uvloop.run(_served(ready, issued, part, services, trip))


async def _served(
    ready: Connection, issued: KeyPair, part: int, services: int, trip: timedelta
) -> None:
    """Serve every second cluster of the fleet, until the other end of the pipe is closed."""
    objects = fleet_objects(services, datetime.now(UTC))
    everything = _Wires()
    tls = server_context(issued)
    urls = {}
    async with AsyncExitStack() as stack:
        for name in sorted(objects)[part::PROCESSES]:
            api = await _cluster(name, [*_more_objects(name, objects)], everything)
            sock = socket(AF_INET, SOCK_STREAM)
            sock.bind(("127.0.0.1", 0))
            await stack.enter_async_context(serve(Distant(api, trip), sock, {TOKEN: ADMIN}, tls))
            urls[name] = f"https://127.0.0.1:{sock.getsockname()[1]}"
        ready.send(urls)
        await asyncio.get_running_loop().run_in_executor(None, ready.poll, None)


class _Wires:
    """Objects as JSON, each once however many clusters have it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Object, Wire]] = {}

    def of(self, obj: Object) -> Wire:
        if id(obj) not in self._known:
            self._known[id(obj)] = (obj, _stored(obj))  # with the object, so that its id stays
        return self._known[id(obj)][1]


def _stored(obj: Object) -> Wire:
    wire = to_wire(obj)
    kind = type(obj).kind
    stamp = {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1", "uid": obj.name}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        **wire,
        "metadata": {**stamp, **wire["metadata"]},
    }


def _more_objects(name: str, objects: Mapping[str, list[Object]]) -> Iterator[Object]:
    """What a cluster has, with its own Services and, on the broker, the records of members."""
    for one in objects[name]:
        if isinstance(one, Lease):
            held = replace(one.spec, lease_duration_seconds=_LEASE_SECONDS)
            yield replace(one, spec=replace(held, acquire_time="2026-01-01T00:00:00.000000Z"))
        else:
            yield one
        if isinstance(one, ServiceExport):
            spec = ServiceSpec(type="ClusterIP", ports=(ServicePort(port=80),))
            yield Service(metadata=Meta(name=one.name, namespace=one.namespace), spec=spec)
    if name == BROKER:
        for member in sorted(objects.keys() - {BROKER}):
            yield ClusterMember(
                metadata=Meta(name=member, namespace=BROKER_NAMESPACE),
                spec=ClusterMemberSpec(cluster_id=member, uid=member, features=("services",)),
                status=ClusterMemberStatus(phase="Ready"),
            )


async def _cluster(name: str, objects: Iterable[Object], wires: _Wires) -> ApiServer:
    """A cluster with what an installation puts there, and these objects."""
    api = ApiServer(name, clock=WallClock())
    installed = (
        manifests.broker(app.broker_access(_OPTIONS), BROKER_NAMESPACE)
        if name == BROKER
        else agent_manifests(app.watches_by_feature(_OPTIONS), name)
    )
    kinds = OWN_KINDS if name == BROKER else app.own_kinds(_OPTIONS)
    client = Client(InProcessTransport(api))
    await apply_definitions(client, crd_manifests(kinds))
    await apply(client, (namespace("shop"), *installed))
    stores = {(one.group, one.plural): one.store for one in api.registry.stored()}
    held = api.storage.snapshot()  # clusters share the objects, which are many
    for obj in objects:
        kind = type(obj).kind
        held.objects.setdefault(stores[kind.group, kind.plural], []).append(wires.of(obj))
    namespaces = stores[Namespace.kind.group, Namespace.kind.plural]
    held.objects[namespaces] = [_with_uid(one, name) for one in held.objects[namespaces]]
    api.storage.restore(held)
    return api


def _with_uid(wire: Wire, cluster: str) -> Wire:
    """A namespace; kube-system with the uid that the cluster's record on the broker has."""
    meta = wire["metadata"]
    uid = cluster if meta["name"] == "kube-system" else meta["uid"]
    return {**wire, "metadata": {**meta, "uid": uid}}


class Distant:
    """An API server whose answers arrive a trip later."""

    def __init__(self, api: ApiServer, trip: timedelta) -> None:
        self._api = api
        self._trip = trip.total_seconds()
        self.requests = 0

    async def send(self, request: RequestLike, user: User) -> Response:
        """Answer after a trip."""
        self.requests += 1
        await asyncio.sleep(self._trip)
        return await self._api.send(request, user)

    @asynccontextmanager
    async def _late(self, request: RequestLike, user: User) -> AsyncIterator[AsyncIterator[bytes]]:
        await asyncio.sleep(self._trip)
        async with self._api.stream(request, user) as lines:
            yield lines

    def stream(
        self, request: RequestLike, user: User
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of a watch, after a trip."""
        return self._late(request, user)

    def authenticate(self, token: str) -> User | None:
        return self._api.authenticate(token)
