"""Addresses for Services of type LoadBalancer, from ranges of the cluster's own."""

from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address, ip_network

from tinykube.controllers.controller import DONE, SERVICES, Key, Lister, Patch, Result
from tinykube.controllers.objects import key_of, spec_of, status_of, uid_of
from tinykube.resources import Object
from tinykube.storage import Change

CLASS = "sim.hanse.dev/load-balancer"

Holder = tuple[Key, str]
"""A Service by its key and uid."""


class AddressBook:
    """Which Service holds which address of some ranges; each address has at most one holder."""

    def __init__(self, ranges: Iterable[str]) -> None:
        self._networks = [ip_network(cidr) for cidr in ranges]
        self._holders: dict[str, Holder] = {}
        self._held: dict[Holder, tuple[str, ...]] = {}

    def owns(self, address: str) -> bool:
        """Whether an address is of these ranges."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def is_free(self, address: str, holder: Holder) -> bool:
        """Whether a holder has an address of these ranges, or may have it."""
        return self.owns(address) and self._holders.get(address, holder) == holder

    def hold(self, holder: Holder, addresses: Sequence[str]) -> None:
        """Let a holder have exactly these addresses."""
        self.release(holder)
        self._held[holder] = tuple(addresses)
        self._holders.update(dict.fromkeys(addresses, holder))

    def release(self, holder: Holder) -> bool:
        """Take back all that a holder has; returns whether that was anything."""
        freed = self._held.pop(holder, ())
        for address in freed:
            del self._holders[address]
        return bool(freed)

    def release_unless(self, exists: Callable[[Holder], bool]) -> None:
        """Take back what holders have that no longer exist."""
        for holder in [holder for holder in self._held if not exists(holder)]:
            self.release(holder)

    def next_free_address(self, family: str) -> str:
        """The first address of a family that has no holder; empty when there is none."""
        for network in self._networks:
            if f"IPv{network.version}" == family:
                for address in network.hosts():
                    if str(address) not in self._holders:
                        return str(address)
        return ""


class ServiceLoadBalancerController:
    """Allocates addresses to Services and keeps those that their statuses show."""

    name = "load-balancer"
    watches = frozenset((SERVICES,))

    def __init__(self, ranges: Sequence[str]) -> None:
        self._book = AddressBook(ranges)
        self._waiting: dict[Key, None] = {}
        """The Services for which there was no address."""

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """Notes which addresses are held before any new one is allocated."""
        service = change.object
        key = key_of(SERVICES, service)
        deleted = change.type == "DELETED"
        if not deleted and is_served(service):
            self._hold_observed(service, lister)
        else:
            self._waiting.pop(key, None)
            if self._book.release(holder_of(service)):
                yield from self._waiting
        if not deleted:
            yield key

    def reconcile(self, key: Key, lister: Lister) -> Result:
        service = lister.get(SERVICES, key.namespace, key.name)
        self._waiting.pop(key, None)
        if service is None:
            return DONE
        wanted: tuple[str, ...] = ()
        if is_served(service):
            wanted = wanted_addresses(service, self._book)
            if not wanted:
                self._book.release_unless(lambda other: _exists(other, lister))
                wanted = wanted_addresses(service, self._book)
            self._book.hold(holder_of(service), wanted)
            if not wanted:
                self._waiting[key] = None
        return Result(status_patches(service, wanted, self._book))

    def _hold_observed(self, service: Object, lister: Lister) -> None:
        holder = holder_of(service)
        observed = [address for address in addresses_of(service) if self._book.owns(address)]
        if not all(self._book.is_free(address, holder) for address in observed):
            # after a restore the holder may be a Service that does not exist
            self._book.release_unless(lambda other: _exists(other, lister))
        kept = [address for address in observed if self._book.is_free(address, holder)]
        if kept:
            self._book.hold(holder, kept)


def holder_of(service: Object) -> Holder:
    return key_of(SERVICES, service), uid_of(service)


def _exists(holder: Holder, lister: Lister) -> bool:
    key, uid = holder
    service = lister.get(SERVICES, key.namespace, key.name)
    return service is not None and uid_of(service) == uid and is_served(service)


def is_served(service: Object) -> bool:
    """Whether a Service asks for an address and names no other class of load balancers."""
    spec = spec_of(service)
    ours = spec.get("loadBalancerClass", "") in ("", CLASS)
    return spec.get("type") == "LoadBalancer" and ours


def addresses_of(service: Object) -> tuple[str, ...]:
    """The addresses in the status of a Service."""
    ingress = (status_of(service).get("loadBalancer") or {}).get("ingress") or ()
    return tuple(entry["ip"] for entry in ingress if entry.get("ip"))


def wanted_addresses(service: Object, book: AddressBook) -> tuple[str, ...]:
    """The addresses a Service gets: its own where they fit, the one it asks for, or new ones.

    Empty when another Service holds the one it asks for, or the ranges are used up.
    """
    holder, spec = holder_of(service), spec_of(service)
    if asked := spec.get("loadBalancerIP"):
        return (asked,) if book.is_free(asked, holder) else ()
    present = [address for address in addresses_of(service) if book.is_free(address, holder)]
    found: list[str] = []
    for family in spec.get("ipFamilies") or ("IPv4",):
        kept = (address for address in present if (":" in address) == (family == "IPv6"))
        address = next(kept, "") or book.next_free_address(family)
        if address:
            found.append(address)
    return tuple(found)


def status_patches(service: Object, wanted: Sequence[str], book: AddressBook) -> tuple[Patch, ...]:
    """The write that gives a Service its addresses or takes ours from it; none when it has them."""
    present = addresses_of(service)
    if is_served(service):
        if present == tuple(wanted):
            return ()
    elif spec_of(service).get("type") == "LoadBalancer":
        return ()  # another class serves it, and writes its status
    elif not any(book.owns(address) for address in present):
        return ()
    ingress = [{"ip": address, "ipMode": "VIP"} for address in wanted]
    body = {"status": {"loadBalancer": {"ingress": ingress or None}}}
    return (Patch(SERVICES, service, body, subresource="status"),)
