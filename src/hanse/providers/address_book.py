"""A reference provider of networks with ipam External: an address book, served over HTTP.

It gives each network a range of its own and its Services addresses of it. What is allocated and not
confirmed within a minute is free again.
"""

import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from hanse.model.json_input import decode_json
from hanse.model.objects import Wire

UNCONFIRMED_SECONDS = 60.0
NETWORK_PREFIX = 24
SMALLEST_POOL_PREFIX = 28
"""Of a pool with the address of a DNS and some for Services."""
DNS_OFFSET = 10
"""The address of a network's DNS within its range."""
MAX_REQUEST = 1024 * 1024


class InvalidRequest(Exception):
    """A request that cannot be answered; the message says why."""


class Entry(Struct):
    """An address that is given out."""

    namespace: str
    service: str
    request: str = ""
    uid: str = ""
    """Of the Service that has it; empty until it is confirmed."""
    expires: float = 0.0
    ports: list[dict[str, Any]] = []


class BookNetwork(Struct):
    """The range of one network, and its addresses."""

    range: str
    addresses: dict[str, Entry] = {}


class AddressBook:
    """Ranges of networks and addresses of Services; kept in a file if there is one."""

    def __init__(
        self,
        pool: IPv4Network,
        file: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Give out parts of a pool; `file`, read now if it exists, keeps what was given out."""
        self._pool = pool
        self._file = file
        self._clock = clock
        self.networks: dict[str, BookNetwork] = {}
        if file is not None and file.exists():
            self.networks = decode_json(file.read_bytes(), type=dict[str, BookNetwork])

    def answer(self, request: Wire) -> Wire:
        """Carry out a request by its `action`, and return the answer; raises `InvalidRequest`.

        Any action on an unknown network gives it a range; then all is written to the file, if any.
        """
        actions: dict[str, Callable[[Wire, BookNetwork], Wire]] = {
            "describe": self._describe,
            "allocate": self._allocate,
            "confirm": self._confirm,
            "release": self._release,
            "list": self._list,
        }
        action, name = actions.get(str(request.get("action"))), request.get("network")
        if action is None:
            raise InvalidRequest(f"action: it is one of {', '.join(actions)}")
        if not isinstance(name, str) or not name:
            raise InvalidRequest("network: it is needed, as acme.default")
        answer = action(request, self._network(name))
        if self._file is not None:
            draft = self._file.with_suffix(".new")
            draft.write_bytes(msgspec.json.encode(self.networks))
            draft.replace(self._file)
        return answer

    def _network(self, name: str) -> BookNetwork:
        """The network of a name; a new one gets the first range that is free.

        Raises `InvalidRequest` if no range is left.
        """
        if name not in self.networks:
            used = {network.range for network in self.networks.values()}
            prefix = max(NETWORK_PREFIX, self._pool.prefixlen)
            free = (str(r) for r in self._pool.subnets(new_prefix=prefix) if str(r) not in used)
            if (found := next(free, None)) is None:
                raise InvalidRequest(f"{self._pool} has no range left")
            self.networks[name] = BookNetwork(found)
        return self.networks[name]

    def _describe(self, request: Wire, network: BookNetwork) -> Wire:  # noqa: ARG002 - the contract
        """The range of a network, and the address within it for its DNS Service."""
        address = str(ip_network(network.range)[DNS_OFFSET])
        return {"ranges": [network.range], "dnsServiceIP": address}

    def _allocate(self, request: Wire, network: BookNetwork) -> Wire:
        """An address for a Service: the one it asks for, or the first free; held until it expires.

        That of the DNS is given only if asked for. Expired ones are freed first. A `request` id
        that already has an address gets the same again; with `dry_run` none is held. Raises
        `InvalidRequest` if the address is not free, or none is left.
        """
        self._expire(network)
        said = str(request.get("request") or "")
        for address, entry in network.addresses.items():
            if said and entry.request == said:
                return {"address": address}
        wanted = str(request.get("address") or "")
        address = (
            self._check_free(wanted, network) if wanted else next(_free_addresses(network), "")
        )
        if not address:
            raise InvalidRequest(f"{network.range} has no address left")
        if not request.get("dry_run"):
            network.addresses[address] = Entry(
                str(request.get("namespace")),
                str(request.get("service")),
                said,
                expires=self._clock() + UNCONFIRMED_SECONDS,
            )
        return {"address": address}

    def _check_free(self, wanted: str, network: BookNetwork) -> str:
        """The requested address in canonical form; that of the DNS is allowed, too.

        Raises `InvalidRequest` if it is no host address of the range, or is given out.
        """
        range_ = ip_network(network.range)
        try:
            address = ip_address(wanted)
        except ValueError:
            address = range_.network_address
        unusable = (range_.network_address, *((range_.broadcast_address,) * (range_.version == 4)))
        if address not in range_ or address in unusable or str(address) in network.addresses:
            raise InvalidRequest(f"address: {wanted[:50]} is not free in {network.range}")
        return str(address)

    def _confirm(self, request: Wire, network: BookNetwork) -> Wire:
        """Record the Service (by uid) and the ports of an address, which then no longer expires.

        Raises `InvalidRequest` if another uid has it; it need not have been allocated before, nor
        be in the range.
        """
        address, uid = str(request.get("address")), str(request.get("uid"))
        held = network.addresses.get(address)
        if held is not None and held.uid not in ("", uid):
            raise InvalidRequest(f"address: {address} is of {held.namespace}/{held.service}")
        network.addresses[address] = Entry(
            str(request.get("namespace")),
            str(request.get("service")),
            held.request if held is not None else "",
            uid,
            ports=list(request.get("ports") or ()),
        )
        return {}

    def _release(self, request: Wire, network: BookNetwork) -> Wire:
        """Free an address if the Service with the uid of the request has it; else do nothing."""
        address = str(request.get("address"))
        held = network.addresses.get(address)
        if held is not None and held.uid == request.get("uid"):
            del network.addresses[address]
        return {}

    def _list(self, request: Wire, network: BookNetwork) -> Wire:  # noqa: ARG002 - the contract
        """The addresses that were confirmed, each with namespace, name and uid of its Service."""
        held = [
            {"address": a, "namespace": e.namespace, "service": e.service, "uid": e.uid}
            for a, e in network.addresses.items()
            if e.uid
        ]
        return {"addresses": held}

    def _expire(self, network: BookNetwork) -> None:
        """Free the addresses that were not confirmed within UNCONFIRMED_SECONDS."""
        now = self._clock()
        for address, entry in list(network.addresses.items()):
            if not entry.uid and entry.expires <= now:
                del network.addresses[address]


def _free_addresses(network: BookNetwork) -> Iterator[str]:
    """The free host addresses of a network in ascending order, but for that of its DNS."""
    range_ = ip_network(network.range)
    reserved = str(range_[DNS_OFFSET])
    return (
        text
        for host in range_.hosts()
        if (text := str(host)) != reserved and text not in network.addresses
    )


def book_application(book: AddressBook) -> web.Application:
    """An HTTP server of a book: POST / with a request, GET / for all that is given out.

    400 for a body that is no JSON object, 409 for an `InvalidRequest`.
    """

    async def answer(request: web.Request) -> web.Response:
        """Answer a POSTed request: 400 if it is no JSON object, 409 if it is invalid."""
        try:
            body = decode_json(await request.read(), type=dict[str, Any])
            return web.json_response(book.answer(body))
        except msgspec.DecodeError:
            return web.json_response({"error": "the request is not a JSON object"}, status=400)
        except InvalidRequest as error:
            return web.json_response({"error": str(error)}, status=409)

    async def show(_: web.Request) -> web.Response:
        """All networks with the addresses that are given out, also unconfirmed ones, as JSON."""
        return web.Response(
            body=msgspec.json.encode(book.networks), content_type="application/json"
        )

    app = web.Application(client_max_size=MAX_REQUEST)
    app.router.add_post("/", answer)
    app.router.add_get("/", show)
    return app


@asynccontextmanager
async def serving_book(listener: socket.socket, book: AddressBook) -> AsyncIterator[str]:
    """Serve an address book over HTTP on the listener until the block ends; gives its URL.

    It is the reference provider that allocates Service addresses of networks with ipam External.
    """
    runner = web.AppRunner(book_application(book), access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    try:
        yield "http://{}:{}/".format(*listener.getsockname()[:2])
    finally:
        await runner.cleanup()
