"""Runs tinykube's load-balancer and volume controllers for a real cluster."""

import asyncio
from contextlib import aclosing
from random import Random
from typing import ClassVar

from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.errors import KubeError
from hanse.kube.store import Store
from hanse.kube.transport import Request, Transport
from hanse.kube.watcher import list_and_watch
from hanse.model.kinds.core import Service
from hanse.model.kinds.storage import PersistentVolumeClaim
from hanse.model.objects import K, Kind, Object, Wire, to_wire
from tinykube.builtin_resources import BUILTINS
from tinykube.controllers.controller_loop import ControllerLoop, WorkItem
from tinykube.controllers.persistentvolume import (
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    PersistentVolumeController,
)
from tinykube.controllers.service_loadbalancer import ServiceLoadBalancerController
from tinykube.errors import StatusError
from tinykube.request import RequestLike, Response
from tinykube.resources import Registry
from tinykube.storage import Storage
from tinykube.users import User


class PersistentVolume(Object, frozen=True, kw_only=True):
    """A PersistentVolume of the core API."""

    kind: ClassVar[Kind] = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)

    spec: Wire = {}
    status: Wire = {}


class StorageClass(Object, frozen=True, kw_only=True):
    """A StorageClass of the storage API."""

    kind: ClassVar[Kind] = Kind(
        "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
    )


_MIRRORED: tuple[tuple[str, type[Object]], ...] = (
    ("services", Service),
    ("persistentvolumeclaims", PersistentVolumeClaim),
    (PERSISTENT_VOLUMES, PersistentVolume),
    (STORAGE_CLASSES, StorageClass),
)


async def provision(transport: Transport, load_balancers: list[str]) -> None:
    """Mirror a few kinds, then allocate load balancers and provision volumes until cancelled.

    That starts once all the kinds are listed. `load_balancers` are ranges of addresses.
    """
    cluster = _MirroredCluster(transport)
    volumes = PersistentVolumeController(binds=False)  # the controller manager of the cluster binds
    loop = ControllerLoop(cluster, (ServiceLoadBalancerController(load_balancers), volumes))
    initial: list[WorkItem] = [(volumes, key) for key in volumes.initial_keys]
    async with asyncio.TaskGroup() as group:
        synced = [asyncio.Event() for _ in _MIRRORED]
        for (store, kind), listed in zip(_MIRRORED, synced, strict=True):
            group.create_task(cluster.list_and_watch(store, kind, listed), name=f"{store} watch")
        for listed in synced:
            await listed.wait()
        group.create_task(loop.run(initial), name="provisioning")


class _MirroredCluster:
    """A real cluster for tinykube's controllers: a mirror of a few kinds, and writes."""

    def __init__(self, transport: Transport) -> None:
        """An empty mirror; the transport is that of the real cluster."""
        self.storage = Storage(history=0, mirror=True)
        self.registry = Registry(BUILTINS)
        self.clock = WallClock()
        self._transport = transport
        self._client = Client(transport)
        self._random = Random()  # noqa: S311 - spreads retries, guards nothing

    async def send(self, request: RequestLike, user: User) -> Response:  # noqa: ARG002 - the administrator writes
        """Send a write to the API server, as administrator whoever the user is.

        An unreachable server counts as a 503 response.
        """
        sent = Request(
            request.method,
            request.path,
            request.query,
            request.body,
            request.content_type,
        )
        try:
            response = await self._transport.send(sent)
        except KubeError as error:
            return StatusError(503, "ServiceUnavailable", str(error)).response
        return Response(response.status, response.body, response.headers)

    async def list_and_watch(self, store: str, kind: type[K], listed: asyncio.Event) -> None:
        """List and watch a kind into the mirror's `store` until cancelled.

        `listed` is set after the first list; outages are retried.
        """
        cache: Store[K] = Store()
        async with aclosing(list_and_watch(self._client, kind, random=self._random)) as events:
            async for event in events:
                for change in cache.apply_event(event):
                    self._mirror_change(store, change.before, change.after)
                if cache.synced:
                    listed.set()

    def _mirror_change(self, store: str, before: Object | None, after: Object | None) -> None:
        """Copy a creation, update or deletion to the mirror, with the versions of the real cluster.

        An object with a new uid is removed and created again.
        """
        if before is not None and after is not None and before.metadata.uid == after.metadata.uid:
            self.storage.replace(store, to_wire(after))
            return
        if before is not None:
            self.storage.remove(store, before.namespace, before.name)
        if after is not None:
            self.storage.create(store, to_wire(after))
