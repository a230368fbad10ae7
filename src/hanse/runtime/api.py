"""The API that informers read and the writer writes: a cluster's, or an external system's."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import count
from random import Random
from typing import Protocol

from msgspec import Struct

from hanse.kube import requests
from hanse.kube.client import Client
from hanse.kube.decoding import decode_object
from hanse.kube.discovery import refresh
from hanse.kube.errors import KubeError
from hanse.kube.requests import JsonPatch
from hanse.kube.retry import retry_delay
from hanse.kube.transport import Transport
from hanse.kube.watch_events import (
    Applied,
    Deleted,
    Interrupted,
    Listed,
    NotServed,
    WatchEvent,
)
from hanse.kube.watcher import BeforeRelist, list_and_watch
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import Namespace
from hanse.model.naming import IDENTITY_NAMESPACE
from hanse.model.objects import K, Wire

DISCOVERY_LAG = timedelta(milliseconds=500)
DISCOVERY_ATTEMPTS = 20
"""How often discovery is read, a lag apart, until it names an established CRD's kind."""


class ServerIdentity(Struct, frozen=True):
    """Which server answered, and when by its own clock."""

    uid: str = ""
    """An id that no other system has; empty where there is none."""
    time: datetime | None = None


class Api(Protocol):
    """List, watch and write objects with versions; errors are those of `hanse.kube.errors`."""

    def list_and_watch(
        self,
        kind: type[K],
        *,
        namespace: str,
        labels: str,
        fields: str,
        before_relist: BeforeRelist | None = None,
    ) -> AsyncGenerator[WatchEvent[K], None]:
        """List and watch without end; outages are events of the stream, never raised.

        Every list but the first waits for `before_relist`.
        """
        ...

    async def list(
        self, kind: type[K], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Listed[K]:
        """List all objects under the selectors from the server itself, not an informer's store.

        An empty namespace is all of them.
        """
        ...

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object live; raises NotFound if it is absent."""
        ...

    async def create(self, obj: K) -> K:
        """Create an object and return it as stored; raises AlreadyExists."""
        ...

    async def patch(
        self,
        kind: type[K],
        name: str,
        namespace: str,
        change: Wire | JsonPatch,
        *,
        subresource: str = "",
    ) -> K:
        """Send a merge patch or a JSON patch, and return the object as stored.

        The resourceVersion and uid in a merge patch are preconditions: raises Conflict if they
        differ.
        """
        ...

    async def delete(
        self, kind: type[K], name: str, namespace: str, *, uid: str = "", resource_version: str = ""
    ) -> K | None:
        """Delete an object; returns it while finalizers keep it, else None.

        Raises NotFound if it is absent, Conflict if it has not the uid or version that is given.
        """
        ...

    async def discover(self) -> None:
        """Keep the served kinds up to date until cancelled; returns where kinds are fixed."""
        ...

    async def identity(self) -> ServerIdentity:
        """Ask the server for an id that no other has, and its time; either may be missing."""
        ...

    async def close(self) -> None: ...


class ClusterClient(Client):
    """The client of a connected cluster: typed calls, list-and-watch, discovery, identity."""

    def __init__(self, transport: Transport, random: Random | None = None) -> None:
        """`random` spreads retries; requests for the identity have a limit of their own."""
        super().__init__(transport)
        self._random = random or Random()  # noqa: S311 - spreads retries, guards nothing
        self._priority = self.with_own_limit()

    def list_and_watch(
        self,
        kind: type[K],
        *,
        namespace: str,
        labels: str,
        fields: str,
        before_relist: BeforeRelist | None = None,
    ) -> AsyncGenerator[WatchEvent[K], None]:
        """The events of `hanse.kube.watcher.list_and_watch` by this client."""
        return list_and_watch(
            self,
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            random=self._random,
            before_relist=before_relist,
        )

    async def discover(self) -> None:
        """Refresh the served kinds now, and again after every change of a CRD, until cancelled.

        That restarts informers that wait for their kind. While CRDs cannot be watched, as without
        the right to, these retry at intervals.
        """
        await self._refresh_kinds()
        mapper = self.rest_mapper
        stream = list_and_watch(self, CustomResourceDefinition, random=self._random)
        async with aclosing(stream) as events:
            async for event in events:
                match event:
                    case Applied(definition):
                        await self._await_kinds_of(definition)
                    case Deleted():
                        await self._refresh_kinds()
                    case Listed():
                        await self._refresh_kinds()
                        mapper.follows_definitions = True
                    case Interrupted() | NotServed():
                        mapper.follows_definitions = False
                    case _:
                        continue

    async def _await_kinds_of(self, definition: CustomResourceDefinition) -> None:
        """Refresh until discovery names a CRD's kinds, which it does a moment after the CRD.

        At most DISCOVERY_ATTEMPTS times, after which informers retry at intervals, and once for a
        CRD that is not established.
        """
        for _ in range(DISCOVERY_ATTEMPTS if definition.established else 1):
            await self._refresh_kinds()
            known = self.rest_mapper.served
            if known is None or definition.served_kinds <= known.kinds:
                return
            await asyncio.sleep(DISCOVERY_LAG.total_seconds())
        if definition.established:
            self.rest_mapper.follows_definitions = False

    async def _refresh_kinds(self) -> None:
        """Discover the kinds of the server until that succeeds.

        Waits between attempts by the backoff of the error, 30 s if it has none.
        """
        for attempt in count():
            try:
                await refresh(self)
            except KubeError as error:
                pause = retry_delay(error, attempt, self._random) or timedelta(seconds=30)
                await asyncio.sleep(pause.total_seconds())
            else:
                return

    async def identity(self) -> ServerIdentity:
        """The uid of namespace kube-system, and the time of the answer's `Date` header or None.

        Sent ahead of the client's queue of requests; raises the errors of a read.
        """
        request = requests.read(Namespace.kind, IDENTITY_NAMESPACE)
        response = await self._priority.send(request)
        uid = decode_object(response.body, Namespace).metadata.uid
        return ServerIdentity(uid, _parse_date(response.headers.get("date", "")))


def _parse_date(text: str) -> datetime | None:
    """The time of a `Date` header; None if it is empty or invalid."""
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
