"""What the engine needs of any system it reads and writes: a cluster, or something outside."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from itertools import count
from random import Random
from typing import Protocol

from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import KubeError
from hanse.kube.retry import retry_delay
from hanse.kube.watch_events import Applied, Deleted, Event, Listed
from hanse.kube.watcher import follow
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import Namespace
from hanse.model.objects import K, Wire
from hanse.model.rbac import IDENTITY

LAG = timedelta(milliseconds=500)
LAGS = 20


class Api(Protocol):
    """List, create, update, delete, with versions; errors are those of `hanse.kube.errors`."""

    def follow(
        self, kind: type[K], namespace: str, labels: str, name: str = ""
    ) -> AsyncGenerator[Event[K], None]: ...

    async def list(
        self, kind: type[K], *, namespace: str = "", labels: str = "", name: str = ""
    ) -> Listed[K]: ...

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K: ...

    async def create(self, obj: K) -> K: ...

    async def patch(
        self, kind: type[K], name: str, namespace: str, change: Wire, *, subresource: str = ""
    ) -> K: ...

    async def delete(
        self, kind: type[K], name: str, namespace: str, *, uid: str = "", resource_version: str = ""
    ) -> K | None: ...

    async def discover(self) -> None:
        """Keep knowing what is served, until cancelled; systems with fixed kinds just return."""
        ...

    async def identity(self) -> str:
        """What no other system has, asked of it at this moment; empty where there is none."""
        ...

    async def close(self) -> None: ...


class KubeApi:
    """A Kubernetes API server as the engine sees it."""

    def __init__(self, client: Client, random: Random | None = None) -> None:
        self.client = client
        self._aside = client.beside()
        self._random = random or Random()  # noqa: S311 - spreads retries, guards nothing

    def follow(
        self, kind: type[K], namespace: str, labels: str, name: str = ""
    ) -> AsyncGenerator[Event[K], None]:
        return follow(
            self.client,
            kind,
            namespace=namespace,
            labels=labels,
            fields=_named(name),
            random=self._random,
        )

    async def list(
        self, kind: type[K], *, namespace: str = "", labels: str = "", name: str = ""
    ) -> Listed[K]:
        return await self.client.list(kind, namespace=namespace, labels=labels, fields=_named(name))

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

    async def discover(self) -> None:
        """Ask what is served now, and again whenever a CRD appears, changes or goes.

        Streams that wait for their kind wake then; without the right to see CRDs they look by
        themselves now and then.
        """
        await self._refresh()
        stream = follow(self.client, CustomResourceDefinition, random=self._random)
        async with aclosing(stream) as events:
            async for event in events:
                match event:
                    case Applied(definition):
                        await self._learn(definition)
                    case Listed() | Deleted():
                        await self._refresh()
                    case _:
                        continue

    async def _learn(self, definition: CustomResourceDefinition) -> None:
        """Find a new kind in discovery, which tells of it a moment after its definition does."""
        for _ in range(LAGS if definition.established else 1):
            await self._refresh()
            known = self.client.kinds.known
            if known is None or definition.served_kinds <= known.kinds:
                return
            await asyncio.sleep(LAG.total_seconds())

    async def _refresh(self) -> None:
        for attempt in count():
            try:
                await refresh(self.client)
            except KubeError as error:
                pause = retry_delay(error, attempt, self._random) or timedelta(seconds=30)
                await asyncio.sleep(pause.total_seconds())
            else:
                return

    async def identity(self) -> str:
        """The uid of kube-system, read ahead of whatever else waits for an answer."""
        return (await self._aside.read(Namespace, IDENTITY)).metadata.uid

    async def close(self) -> None:
        await self.client.close()


def _named(name: str) -> str:
    return f"metadata.name={name}" if name else ""
