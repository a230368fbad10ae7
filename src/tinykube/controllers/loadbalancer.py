"""Addresses for Services of type LoadBalancer, from ranges of the cluster's own.

It speaks to any API server, embedded or real, and keeps no state but what the Services say.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from random import Random

from hanse.kube.client import Client
from hanse.kube.request import Transport
from hanse.kube.store import Name, Store, Transition
from hanse.kube.watching import follow
from hanse.model.kinds.core import Service
from hanse.model.objects import Wire
from tinykube.controllers.keyed import NameQueue

CLASS = "sim.hanse.dev/load-balancer"


class AddressBook:
    """Who holds which address of some ranges; at most one holder each."""

    def __init__(self, ranges: Iterable[str]) -> None:
        self._networks = [ip_network(one) for one in ranges]
        self._holders: dict[str, str] = {}
        self._held: dict[str, tuple[str, ...]] = {}

    def owns(self, address: str) -> bool:
        """Whether an address is of these ranges."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def is_free(self, address: str, holder: str) -> bool:
        """Whether a holder has an address of these ranges, or may have it."""
        return self.owns(address) and self._holders.get(address, holder) == holder

    def hold(self, holder: str, addresses: Sequence[str]) -> None:
        """Let a holder have exactly these addresses."""
        self.release(holder)
        self._held[holder] = tuple(addresses)
        self._holders.update(dict.fromkeys(addresses, holder))

    def release(self, holder: str) -> bool:
        """Take back all that a holder has; whether that was anything."""
        freed = self._held.pop(holder, ())
        for address in freed:
            del self._holders[address]
        return bool(freed)

    def next_free(self, family: str) -> str:
        """The first address of a family that nobody holds; empty when there is none."""
        for network in self._networks:
            if _family(network) == family:
                for address in network.hosts():
                    if str(address) not in self._holders:
                        return str(address)
        return ""


def _family(network: IPv4Network | IPv6Network) -> str:
    return f"IPv{network.version}"


def is_served(service: Service) -> bool:
    """Whether a Service asks for an address and names nobody else to give it."""
    spec = service.spec
    return spec.type == "LoadBalancer" and spec.load_balancer_class in ("", CLASS)


def addresses_of(service: Service) -> tuple[str, ...]:
    """The addresses that a Service says it has."""
    ingress = service.status.load_balancer.ingress
    return tuple(one.ip for one in ingress if one.ip)


def wanted_addresses(service: Service, book: AddressBook) -> tuple[str, ...]:
    """The addresses a Service should have: its own if they fit, the one it asks for, or new ones.

    Empty when the one it asks for is not to be had, or the ranges are used up.
    """
    uid = service.metadata.uid
    asked = service.spec.load_balancer_ip
    if asked:
        return (asked,) if book.is_free(asked, uid) else ()
    present = [one for one in addresses_of(service) if book.is_free(one, uid)]
    found: list[str] = []
    for family in service.spec.ip_families or ("IPv4",):
        kept = (one for one in present if (":" in one) == (family == "IPv6"))
        address = next(kept, "") or book.next_free(family)
        if address:
            found.append(address)
    return tuple(found)


def status_change(service: Service, wanted: Sequence[str], book: AddressBook) -> Wire | None:
    """The merge patch that gives a Service its addresses, or takes ours from it; None: neither."""
    present = addresses_of(service)
    if is_served(service):
        if present == tuple(wanted):
            return None
        ingress = [{"ip": address, "ipMode": "VIP"} for address in wanted]
    elif any(book.owns(address) for address in present):
        if service.spec.type == "LoadBalancer":
            return None  # another class serves it now, and says so itself
        ingress = []
    else:
        return None
    meta = {"resourceVersion": service.metadata.resource_version, "uid": service.metadata.uid}
    return {"metadata": meta, "status": {"loadBalancer": {"ingress": ingress or None}}}


class LoadBalancerAddresses:
    """Gives and takes addresses for as long as it runs."""

    def __init__(
        self, transport: Transport, ranges: Sequence[str], *, random: Random | None = None
    ) -> None:
        self._client = Client(transport, field_manager="hanse-load-balancer")
        self._random = random or Random()  # noqa: S311 - spreads retries, guards nothing
        self._book = AddressBook(ranges)
        self._services: Store[Service] = Store()
        self._queue = NameQueue(self._random)
        self._starving: set[Name] = set()

    async def run(self) -> None:
        """Run until cancelled; over Services that have their addresses it writes nothing."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="load-balancer watch")
            group.create_task(self._queue.serve(self._serve), name="load-balancer writes")

    async def _follow(self) -> None:
        async with aclosing(follow(self._client, Service, random=self._random)) as events:
            async for event in events:
                self._hear(list(self._services.take(event)))

    def _hear(self, changes: Sequence[Transition[Service]]) -> None:
        """Note what is held before anything new is given, the eldest first."""
        for gone in (change.before for change in changes if change.after is None):
            if gone is not None and self._book.release(gone.metadata.uid):
                self._feed()
        present = [change.after for change in changes if change.after is not None]
        for service in sorted(present, key=_age):
            standing = [one for one in addresses_of(service) if self._book.owns(one)]
            uid = service.metadata.uid
            if is_served(service) and standing and self._book.is_free(standing[0], uid):
                self._book.hold(uid, [one for one in standing if self._book.is_free(one, uid)])
        for service in present:
            self._queue.add((service.namespace, service.name))

    def _feed(self) -> None:
        for name in self._starving:
            self._queue.add(name)
        self._starving.clear()

    async def _serve(self, name: Name) -> None:
        service = self._services.get(*name)
        if service is None:
            return
        wanted: tuple[str, ...] = ()
        if is_served(service):
            wanted = wanted_addresses(service, self._book)
            self._book.hold(service.metadata.uid, wanted)
            if not wanted:
                self._starving.add(name)
        elif self._book.release(service.metadata.uid):
            self._feed()
        change = status_change(service, wanted, self._book)
        if change is not None:
            changed = await self._client.patch(
                Service, service.name, service.namespace, change, subresource="status"
            )
            self._services.put(changed)


def _age(service: Service) -> tuple[str, str, str]:
    created = service.metadata.creation_timestamp
    return (created.isoformat() if created else "", service.namespace, service.name)
