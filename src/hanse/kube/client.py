"""The typed client of one API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import msgspec
from msgspec import Struct

from hanse.kube import requests
from hanse.kube.concurrency_limit import AdaptiveConcurrencyLimit
from hanse.kube.decoding import decode_list_page, decode_object, unexpected_response
from hanse.kube.errors import Gone, error_from_response
from hanse.kube.requests import JsonPatch
from hanse.kube.rest_mapper import Notifier, RestMapper
from hanse.kube.transport import JSON, Request, Response, Transport
from hanse.kube.watch_events import Counted, Listed, Unreadable
from hanse.model.objects import K, Wire, to_wire

_LIST_RESTARTS = 3
"""How often a list is restarted because its continue token expired."""


class _TypeMeta(Struct, frozen=True, gc=False):
    kind: str = ""


_type_decoder = msgspec.json.Decoder(_TypeMeta)


class Client:
    """Typed requests to one API server; each raises a `KubeError`, none retries."""

    page_size = requests.PAGE_SIZE
    """How many objects a page of a list has at most."""

    def __init__(
        self,
        transport: Transport,
        *,
        limit: AdaptiveConcurrencyLimit | None = None,
        field_manager: str = "hanse",
        rest_mapper: RestMapper | None = None,
    ) -> None:
        """A client over a transport, which it closes with itself; no request is sent yet.

        `field_manager` is the name on its writes; `limit` and `rest_mapper` may be shared.
        """
        self.rest_mapper = rest_mapper or RestMapper()
        self.supports_watch_list: bool | None = None
        """Whether the server supports WatchList; None until a watch has tried."""
        self.recovered = Notifier()
        """Notified when a watch is up again after an outage: others need not wait longer."""
        self._transport = transport
        self.limit = limit or AdaptiveConcurrencyLimit()
        self._field_manager = field_manager

    def with_own_limit(self) -> "Client":
        """A client over the same transport and REST mapper, with a concurrency limit of its own.

        It learns by itself whether WatchList is supported. Closing it closes the transport of both.
        """
        return Client(
            self._transport,
            limit=AdaptiveConcurrencyLimit(),
            field_manager=self._field_manager,
            rest_mapper=self.rest_mapper,
        )

    async def send(self, request: Request) -> Response:
        """Send any request once the concurrency limit admits it; there is no retry.

        A response that is not 2xx is raised as its typed error.
        """
        response = await self.limit.send(self._transport, request)
        if not 200 <= response.status < 300:
            raise error_from_response(response)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch, as a context that gives its lines; not subject to the concurrency limit.

        Entering it raises the typed error of any status but 200, and `Unreachable` without a
        response.
        """
        return self._transport.stream(request)

    async def read_raw(self, path: str, *, accept: str = JSON) -> Response:
        """Get a path that is no object (version, discovery, health); the response is not decoded.

        A response that is not 2xx is raised as its typed error.
        """
        return await self.send(Request("GET", path, accept=accept))

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object live in the served version of its kind.

        Raises `NotFound` if the object is absent or the kind is not served, ValueError for an empty
        name.
        """
        served = self.rest_mapper.served_kind(kind)
        response = await self.send(requests.read(served, name, namespace))
        return decode_object(response.body, kind)

    async def create(self, obj: K, *, dry_run: bool = False) -> K:
        """Create an object in the served version of its kind; returns it as the server stored it.

        With `dry_run` nothing is stored, and what would be is returned.
        """
        kind = type(obj)
        served = self.rest_mapper.served_kind(kind)
        request = requests.create(
            served,
            obj.metadata.namespace,
            {**to_wire(obj), "apiVersion": served.api_version},
            field_manager=self._field_manager,
            dry_run=dry_run,
        )
        response = await self.send(request)
        return decode_object(response.body, kind)

    async def patch(
        self,
        kind: type[K],
        name: str,
        namespace: str,
        change: Wire | JsonPatch,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> K:
        """Apply a merge patch, or a JSON patch (a tuple of operations); returns the patched object.

        metadata.resourceVersion and metadata.uid of a merge patch are preconditions: a wrong uid
        alone is refused as `Invalid`, with a resourceVersion as `Conflict`; a JSON patch with a
        test that fails as `Invalid`. With `dry_run` nothing is stored.
        """
        request = requests.patch(
            self.rest_mapper.served_kind(kind),
            name,
            namespace,
            change,
            field_manager=self._field_manager,
            subresource=subresource,
            dry_run=dry_run,
        )
        response = await self.send(request)
        return decode_object(response.body, kind)

    async def delete(
        self,
        kind: type[K],
        name: str,
        namespace: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> K | None:
        """Delete an object; returns it while finalizers keep it, None once it is gone.

        `uid` and `resource_version` are preconditions unless empty. Raises NotFound if it was
        absent.
        """
        request = requests.delete(
            self.rest_mapper.served_kind(kind),
            name,
            namespace,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
        )
        response = await self.send(request)
        if _response_kind(response.body) == "Status":
            return None
        remaining = decode_object(response.body, kind)
        return remaining if remaining.metadata.deletion_timestamp is not None else None

    async def list(
        self, kind: type[K], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Listed[K]:
        """A consistent list of all objects, read page by page; undecodable ones in `unreadable`.

        An empty namespace means all. Begins anew if the continue token expires, at most three
        times; then raises `Gone`.
        """
        for _ in range(_LIST_RESTARTS):
            try:
                return await self._list_once(kind, namespace, labels, fields)
            except Gone:
                continue  # the continue token expired
        return await self._list_once(kind, namespace, labels, fields)

    async def current_resource_version(
        self, kind: type[K], *, namespace: str = "", fields: str = ""
    ) -> str:
        """The server's current resourceVersion, by a consistent list of one object.

        `fields` name the only object that the account may list, if there is one. Raises
        `KubeError`.
        """
        served = self.rest_mapper.served_kind(kind)
        page = requests.list_page(served, namespace, fields=fields, limit=1)
        response = await self.send(page)
        return decode_list_page(response.body, kind).metadata.resource_version

    async def count(self, kind: type[K], *, first: int) -> Counted[K]:
        """How many objects of a kind there are, and the `first` so many of them, by one request.

        Objects that cannot be decoded are counted, but not returned. The total is None if the
        server does not say how many follow. Raises `KubeError`.
        """
        served = self.rest_mapper.served_kind(kind)
        response = await self.send(requests.list_page(served, limit=first))
        page = decode_list_page(response.body, kind)
        listed = len(page.objects) + len(page.unreadable)
        rest = page.metadata.remaining_item_count if page.metadata.continue_ else 0
        return Counted(tuple(page.objects), None if rest is None else listed + rest)

    async def close(self) -> None:
        """Close the transport, also where another client uses it."""
        await self._transport.close()

    async def _list_once(
        self, kind: type[K], namespace: str, labels: str, fields: str
    ) -> Listed[K]:
        """List a kind page by page; raises the error of a failed page, `Gone` for an expired token.

        Objects that do not decode are returned as `unreadable`; the version is that of the last
        page.
        """
        served = self.rest_mapper.served_kind(kind)
        objects: list[K] = []
        unreadable: list[Unreadable] = []
        after = ""
        while True:
            request = requests.list_page(
                served,
                namespace,
                labels=labels,
                fields=fields,
                limit=self.page_size,
                after=after,
            )
            response = await self.send(request)
            page = decode_list_page(response.body, kind)
            objects += page.objects
            unreadable += page.unreadable
            after = page.metadata.continue_
            if not after:
                return Listed(tuple(objects), page.metadata.resource_version, tuple(unreadable))
            await asyncio.sleep(0)  # an in-process server answers without ever waiting


def _response_kind(body: bytes) -> str:
    """The `kind` in a response, empty without one; raises `Unreachable` if it is no JSON."""
    try:
        return _type_decoder.decode(body).kind
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
