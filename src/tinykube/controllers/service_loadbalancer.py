"""The service load-balancer controller: allocates addresses to LoadBalancer Services."""

from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address, ip_network

from tinykube.controllers.controller import DONE, SERVICES, Key, Lister, Patch, Result
from tinykube.controllers.objects import key_of, spec_of, status_of, uid_of
from tinykube.resources import Object
from tinykube.storage import Change

CLASS = "sim.hanse.dev/load-balancer"

ServiceIdentity = tuple[Key, str]
"""A Service by its key and uid."""


class AddressPool:
    """The addresses of some ranges; each is assigned to at most one Service."""

    def __init__(self, ranges: Iterable[str]) -> None:
        self._networks = [ip_network(cidr) for cidr in ranges]
        self._owners: dict[str, ServiceIdentity] = {}
        self._assigned: dict[ServiceIdentity, tuple[str, ...]] = {}

    def contains(self, address: str) -> bool:
        """Whether an address is in these ranges; False for text that is no address."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def is_free(self, address: str, identity: ServiceIdentity) -> bool:
        """Whether an address is in these ranges, and no other Service has it."""
        return self.contains(address) and self._owners.get(address, identity) == identity

    def assign(self, identity: ServiceIdentity, addresses: Sequence[str]) -> None:
        """Assign exactly these addresses to a Service; releases those it had before.

        It is for the caller to check that they are free.
        """
        self.release(identity)
        self._assigned[identity] = tuple(addresses)
        self._owners.update(dict.fromkeys(addresses, identity))

    def release(self, identity: ServiceIdentity) -> bool:
        """Release all addresses of a Service; returns whether it had any."""
        freed = self._assigned.pop(identity, ())
        for address in freed:
            del self._owners[address]
        return bool(freed)

    def release_unless(self, exists: Callable[[ServiceIdentity], bool]) -> None:
        """Release the addresses of all Services for which `exists` returns False."""
        for identity in [identity for identity in self._assigned if not exists(identity)]:
            self.release(identity)

    def next_free_address(self, family: str) -> str:
        """The first free host address of a family (`IPv4` or `IPv6`); empty if there is none.

        It is not assigned.
        """
        for network in self._networks:
            if f"IPv{network.version}" == family:
                for address in network.hosts():
                    if str(address) not in self._owners:
                        return str(address)
        return ""


class ServiceLoadBalancerController:
    """Allocates addresses to Services, and keeps those in their status."""

    name = "load-balancer"
    watches = frozenset((SERVICES,))

    def __init__(self, ranges: Sequence[str]) -> None:
        self._pool = AddressPool(ranges)
        self._pending: dict[Key, None] = {}
        """The keys of Services for which no address was free."""

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The key of an existing Service, and of those waiting for an address if some are released.

        Also assigns it the addresses in its status, before any new one is allocated, and releases
        those of a deleted or unmanaged Service.
        """
        service = change.object
        key = key_of(SERVICES, service)
        deleted = change.type == "DELETED"
        if not deleted and is_managed(service):
            self._assign_observed(service, lister)
        else:
            self._pending.pop(key, None)
            if self._pool.release(service_identity(service)):
                yield from self._pending
        if not deleted:
            yield key

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """Assign addresses of the pool to a managed Service; returns the patch of its status.

        Without a free one it releases those of absent Services and retries once; then the Service
        waits for a release. From a Service that is no longer a LoadBalancer it removes addresses of
        the pool.
        """
        service = lister.get(SERVICES, key.namespace, key.name)
        self._pending.pop(key, None)
        if service is None:
            return DONE
        desired: tuple[str, ...] = ()
        if is_managed(service):
            desired = desired_addresses(service, self._pool)
            if not desired:
                self._pool.release_unless(lambda other: _service_exists(other, lister))
                desired = desired_addresses(service, self._pool)
            self._pool.assign(service_identity(service), desired)
            if not desired:
                self._pending[key] = None
        return Result(status_patches(service, desired, self._pool))

    def _assign_observed(self, service: Object, lister: Lister) -> None:
        """Assign the addresses in a Service's status to it, unless another Service has them.

        Addresses outside the pool are ignored. On a collision it first releases those of Services
        that no longer exist. If no address remains, the assignment of the Service stays as it is.
        """
        identity = service_identity(service)
        observed = [address for address in addresses_of(service) if self._pool.contains(address)]
        if not all(self._pool.is_free(address, identity) for address in observed):
            # after a restore the owner may be a Service that no longer exists
            self._pool.release_unless(lambda other: _service_exists(other, lister))
        kept = [address for address in observed if self._pool.is_free(address, identity)]
        if kept:
            self._pool.assign(identity, kept)


def service_identity(service: Object) -> ServiceIdentity:
    """The key and uid of a Service."""
    return key_of(SERVICES, service), uid_of(service)


def _service_exists(identity: ServiceIdentity, lister: Lister) -> bool:
    """Whether the Service exists with this uid and is still managed."""
    key, uid = identity
    service = lister.get(SERVICES, key.namespace, key.name)
    return service is not None and uid_of(service) == uid and is_managed(service)


def is_managed(service: Object) -> bool:
    """Whether a Service is of type LoadBalancer, with no loadBalancerClass or the simulated one."""
    spec = spec_of(service)
    own_class = spec.get("loadBalancerClass", "") in ("", CLASS)
    return spec.get("type") == "LoadBalancer" and own_class


def addresses_of(service: Object) -> tuple[str, ...]:
    """The IPs in the status.loadBalancer of a Service, without hostnames."""
    ingress = (status_of(service).get("loadBalancer") or {}).get("ingress") or ()
    return tuple(entry["ip"] for entry in ingress if entry.get("ip"))


def desired_addresses(service: Object, pool: AddressPool) -> tuple[str, ...]:
    """The requested address (loadBalancerIP), or one per family: the current one or a free one.

    A family without a free one is left out. Empty if there is none at all, or the requested one is
    not in the pool or of another Service; nothing is assigned.
    """
    identity, spec = service_identity(service), spec_of(service)
    if requested := spec.get("loadBalancerIP"):
        return (requested,) if pool.is_free(requested, identity) else ()
    current = [address for address in addresses_of(service) if pool.is_free(address, identity)]
    found: list[str] = []
    for family in spec.get("ipFamilies") or ("IPv4",):
        kept = (address for address in current if (":" in address) == (family == "IPv6"))
        address = next(kept, "") or pool.next_free_address(family)
        if address:
            found.append(address)
    return tuple(found)


def status_patches(service: Object, desired: Sequence[str], pool: AddressPool) -> tuple[Patch, ...]:
    """The status patch that sets or removes the addresses; empty if they are up to date.

    They are removed from a Service that is no LoadBalancer any more, if they are of the pool. A
    LoadBalancer of another class is left alone.
    """
    current = addresses_of(service)
    if is_managed(service):
        if current == tuple(desired):
            return ()
    elif spec_of(service).get("type") == "LoadBalancer":
        return ()  # another load-balancer class writes its status
    elif not any(pool.contains(address) for address in current):
        return ()
    ingress = [{"ip": address, "ipMode": "VIP"} for address in desired]
    body = {"status": {"loadBalancer": {"ingress": ingress or None}}}
    return (Patch(SERVICES, service, body, subresource="status"),)
