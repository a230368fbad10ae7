"""What the engine needs of any system it reads and writes: a cluster, or something outside."""

from collections.abc import AsyncGenerator
from random import Random
from typing import Protocol

from hanse.kube.client import Client
from hanse.kube.events import Event, Listed
from hanse.kube.watching import follow
from hanse.model.objects import K, Wire


class Api(Protocol):
    """List, create, update, delete, with versions; errors are those of `hanse.kube.errors`."""

    def follow(
        self, kind: type[K], namespace: str, labels: str
    ) -> AsyncGenerator[Event[K], None]: ...

    async def list(self, kind: type[K], *, namespace: str = "", labels: str = "") -> Listed[K]: ...

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K: ...

    async def create(self, obj: K) -> K: ...

    async def patch(
        self, kind: type[K], name: str, namespace: str, change: Wire, *, subresource: str = ""
    ) -> K: ...

    async def delete(
        self, kind: type[K], name: str, namespace: str, *, uid: str = "", resource_version: str = ""
    ) -> K | None: ...

    async def close(self) -> None: ...


class KubeApi:
    """A Kubernetes API server as the engine sees it."""

    def __init__(self, client: Client, random: Random | None = None) -> None:
        self.client = client
        self._random = random or Random()  # noqa: S311 - spreads retries, guards nothing

    def follow(self, kind: type[K], namespace: str, labels: str) -> AsyncGenerator[Event[K], None]:
        return follow(self.client, kind, namespace=namespace, labels=labels, random=self._random)

    async def list(self, kind: type[K], *, namespace: str = "", labels: str = "") -> Listed[K]:
        return await self.client.list(kind, namespace=namespace, labels=labels)

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K:
        return await self.client.read(kind, name, namespace)

    async def create(self, obj: K) -> K:
        return await self.client.create(obj)

    async def patch(
        self, kind: type[K], name: str, namespace: str, change: Wire, *, subresource: str = ""
    ) -> K:
        return await self.client.patch(kind, name, namespace, change, subresource=subresource)

    async def delete(
        self, kind: type[K], name: str, namespace: str, *, uid: str = "", resource_version: str = ""
    ) -> K | None:
        return await self.client.delete(
            kind, name, namespace, uid=uid, resource_version=resource_version
        )

    async def close(self) -> None:
        await self.client.close()
