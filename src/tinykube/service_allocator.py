"""Allocation of cluster IPs, as IPAddress objects from ServiceCIDRs, and of node ports."""

from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from random import Random
from typing import Any, assert_never

from tinykube.clock import Clock
from tinykube.errors import (
    FieldError,
    StatusError,
    internal_error,
    invalid,
    invalid_object,
)
from tinykube.object_meta import new_uid, timestamp
from tinykube.resources import Object
from tinykube.storage import Change, Restored, Storage, StorageEvent, name_of

IPADDRESSES = "ipaddresses.networking.k8s.io"
SERVICECIDRS = "servicecidrs.networking.k8s.io"
_NODE_PORTS = range(30000, 32768)
_TRIES = 64

Network = IPv4Network | IPv6Network


class ServiceAllocator:
    """Allocates addresses and ports to Services; its state is derived from storage."""

    def __init__(self, storage: Storage, clock: Clock, random: Random) -> None:
        """Subscribe to changes of Services for as long as the storage lives.

        Node ports of Services stored before are unknown until a restore.
        """
        self._storage = storage
        self._clock = clock
        self._random = random
        self._ports: dict[int, tuple[str, str]] = {}
        storage.subscribe(self._on_storage_event, "services")

    def _on_storage_event(self, event: StorageEvent) -> None:
        """Update the index of node ports from a change of a Service; after a restore from all."""
        match event:
            case Change():
                for port in _node_ports(event.before or {}):
                    self._ports.pop(port, None)
                if event.type != "DELETED":
                    self._ports |= dict.fromkeys(_node_ports(event.object), name_of(event.object))
            case Restored():
                self._ports = {
                    port: name_of(service)
                    for service in self._storage.objects("services")
                    for port in _node_ports(service)
                }
            case _:
                assert_never(event)

    def release(self, service: Object) -> None:
        """Remove the IPAddresses of a deleted Service from storage (node ports: by the event)."""
        for address in (service.get("spec") or {}).get("clusterIPs") or ():
            self._release(address, service)

    def allocate(self, new: Object, old: Object | None, *, dry_run: bool) -> Object:
        """A copy of the Service with cluster IPs and node ports; raises 422 if one is not free.

        500 if none is left. Creates IPAddresses for new cluster IPs and removes those of `old` not
        used, unless on a dry run. The Service is not stored, which is when its node ports are
        taken.
        """
        spec = dict(new["spec"])
        spec["ports"] = [dict(port) for port in spec.get("ports") or ()]
        if not spec["ports"]:
            del spec["ports"]
        service = {**new, "spec": spec}
        allocated = _cluster_ips(old)
        if spec.get("type") != "ExternalName":
            self._choose_families(service, old)
            self._choose_addresses(service, allocated)
        self._choose_ports(service)
        if not dry_run:
            wanted = _cluster_ips(service)
            for address in wanted:
                if address not in allocated:
                    self._reserve(address, service)
            for address in allocated:
                if address not in wanted:
                    self._release(address, service)
        return service

    def _choose_families(self, service: Object, old: Object | None) -> None:
        """Set ipFamilyPolicy and ipFamilies in place; raises 422 if they do not fit.

        The policy defaults to the old one, else SingleStack, of a headless Service without selector
        RequireDualStack. Families default to those of given clusterIPs, else to that of the first
        range; for dual-stack the other one is added if there are ranges of both, to that headless
        one always. An update with SingleStack cuts families and clusterIPs to the first one.
        """
        spec = service["spec"]
        ranges = self._ranges()
        headless = spec.get("clusterIP") == "None"
        open_ended = headless and not spec.get("selector")
        if not spec.get("ipFamilyPolicy"):
            before = (old or {}).get("spec", {}).get("ipFamilyPolicy")
            spec["ipFamilyPolicy"] = before or ("RequireDualStack" if open_ended else "SingleStack")
        errors = [*_family_errors(spec, old, set(ranges), open_ended=open_ended)]
        if errors:
            raise _invalid_service(service, errors)
        single = spec["ipFamilyPolicy"] == "SingleStack"
        given = [_family(address) for address in spec.get("clusterIPs") or () if address != "None"]
        families = list(spec.get("ipFamilies") or ())
        families += given[len(families) :]
        families = families or [next(iter(ranges), "IPv4")]
        if not single and len(families) == 1 and (open_ended or len(ranges) == 2):
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        if single and old is not None:
            families = families[:1]
            if spec.get("clusterIPs"):
                spec["clusterIPs"] = spec["clusterIPs"][:1]
        spec["ipFamilies"] = families

    def _choose_addresses(self, service: Object, allocated: list[str]) -> None:
        """Set clusterIP and clusterIPs in place, `None` for a headless Service.

        Missing ones are chosen but not reserved. Raises 422 if a given one is not free, 500 if none
        is left.
        """
        spec = service["spec"]
        if spec.get("clusterIP") == "None":
            spec["clusterIPs"] = ["None"]
            return
        chosen = list(spec.get("clusterIPs") or ())
        if not chosen and spec.get("clusterIP"):
            chosen = [spec["clusterIP"]]
        for at, family in enumerate(spec["ipFamilies"]):
            if at < len(chosen):
                self._check_free(service, chosen[at], chosen, allocated)
            else:
                chosen.append(self._next_address(family))
        spec["clusterIP"], spec["clusterIPs"] = chosen[0], chosen

    def _check_free(
        self, service: Object, address: str, chosen: list[str], allocated: list[str]
    ) -> None:
        """Raise 422 unless an address is in a range and unallocated.

        The first of a range, and the last of IPv4, are no Service's. Addresses in `allocated`,
        which the Service already has, always pass.
        """
        if address in allocated:
            return
        ranges = [network for networks in self._ranges().values() for network in networks]
        parsed = ip_address(address)
        why = ""
        own = next((n for n in ranges if parsed.version == n.version and parsed in n), None)
        if own is None:
            why = "the provided network does not match the current range"
        elif parsed == own[0] or (own.version == 4 and parsed == own[-1]):
            valid = f"The range of valid IPs is {own}"
            why = f"the provided IP ({address}) is not in the valid range. {valid}"
        elif self._storage.get(IPADDRESSES, "", str(parsed)) is not None:
            why = "provided IP is already allocated"
        if why:
            detail = f"failed to allocate IP {address}: {why}"
            raise _invalid_service(service, [invalid("spec.clusterIPs", chosen, detail)])

    def _ranges(self) -> dict[str, list[Network]]:
        """The CIDRs of ServiceCIDRs not being deleted, by family, those of `kubernetes` first."""
        ranges: dict[str, list[Network]] = {}
        cidrs = [*self._storage.objects(SERVICECIDRS)]
        cidrs.sort(key=lambda cidr: cidr["metadata"]["name"] != "kubernetes")
        for cidr in cidrs:
            if not cidr["metadata"].get("deletionTimestamp"):
                for text in cidr["spec"].get("cidrs") or ():
                    network = _parse_network(text)
                    ranges.setdefault(f"IPv{network.version}", []).append(network)
        return ranges

    def _next_address(self, family: str) -> str:
        """A free address of a family, random ones tried first; raises 500 if all are taken.

        Also if no range is of the family. Does not allocate it: no IPAddress is created.
        """
        for network in self._ranges().get(family, ()):
            for offset in self._offsets(network):
                address = str(network[offset])
                if self._storage.get(IPADDRESSES, "", address) is None:
                    return address
        raise internal_error("failed to allocate a serviceIP: range is full")

    def _offsets(self, network: Network) -> Iterator[int]:
        """The offsets to try in a range: random ones outside of its lower band, then all from 1."""
        last = network.num_addresses - (2 if network.version == 4 else 1)
        reserved = min(max(16, network.num_addresses // 16), 256)
        if last > reserved:
            for _ in range(_TRIES):
                yield self._random.randint(reserved, min(last, 1 << 40))
        yield from range(1, min(last, 1 << 20) + 1)

    def _reserve(self, address: str, service: Object) -> None:
        """Store the IPAddress of a cluster IP; raises `KeyExists` if there is one."""
        namespace, name = name_of(service)
        family = _family(address)
        made: Object = {
            "kind": "IPAddress",
            "apiVersion": "networking.k8s.io/v1",
            "metadata": {
                "name": str(ip_address(address)),
                "uid": new_uid(self._random),
                "creationTimestamp": timestamp(self._clock.now()),
                "labels": {
                    "ipaddress.kubernetes.io/ip-family": family,
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                },
            },
            "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
        }
        self._storage.create(IPADDRESSES, made)

    def _release(self, address: str, service: Object) -> None:
        """Remove the IPAddress of a cluster IP if it belongs to this Service.

        Does nothing for `None` and for an address without IPAddress.
        """
        if address == "None":
            return
        key = str(ip_address(address))
        allocated = self._storage.get(IPADDRESSES, "", key)
        if allocated is None:
            return
        parent = allocated["spec"].get("parentRef") or {}
        if (parent.get("namespace"), parent.get("name")) == name_of(service):
            self._storage.remove(IPADDRESSES, "", key)

    def _choose_ports(self, service: Object) -> None:
        """Set missing node ports, and healthCheckNodePort if needed, in place; takes none.

        Only NodePort and LoadBalancer have node ports, the latter unless
        allocateLoadBalancerNodePorts is false; ports of equal number share one. Raises 422 if a
        given node port is not free, 500 if none is left.
        """
        spec = service["spec"]
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            allocate = spec.get("allocateLoadBalancerNodePorts", True)
            if spec["type"] == "NodePort":
                allocate = True
            taken: set[int] = set()
            by_port: dict[int, int] = {}
            for at, port in enumerate(spec.get("ports") or ()):
                shared = by_port.get(port["port"], 0)
                if port.get("nodePort"):
                    if port["nodePort"] != shared:
                        self._check_port(service, at, port["nodePort"], taken)
                elif shared:
                    port["nodePort"] = shared
                elif allocate:
                    port["nodePort"] = self._next_port(taken)
                if port.get("nodePort"):
                    taken.add(port["nodePort"])
                    by_port[port["port"]] = port["nodePort"]
        if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
            used = {port.get("nodePort", 0) for port in spec.get("ports") or ()}
            spec["healthCheckNodePort"] = self._next_port(used)

    def _check_port(self, service: Object, at: int, port: int, taken: set[int]) -> None:
        """Raise 422 if a node port is out of range, in `taken`, or of another Service."""
        field = f"spec.ports[{at}].nodePort"
        if port not in _NODE_PORTS:
            first, last = _NODE_PORTS[0], _NODE_PORTS[-1]
            detail = (
                "provided port is not in the valid range. "
                f"The range of valid ports is {first}-{last}"
            )
            raise _invalid_service(service, [invalid(field, port, detail)])
        holder = self._ports.get(port)
        if port in taken or (holder is not None and holder != name_of(service)):
            raise _invalid_service(
                service, [invalid(field, port, "provided port is already allocated")]
            )

    def _next_port(self, taken: set[int]) -> int:
        """A free node port that is not in `taken`: random ones are tried first, then the lowest.

        Raises 500 if none is free. Does not allocate it.
        """
        for _ in range(_TRIES):
            port = self._random.choice(_NODE_PORTS)
            if port not in self._ports and port not in taken:
                return port
        for port in _NODE_PORTS:
            if port not in self._ports and port not in taken:
                return port
        raise internal_error("failed to allocate a nodePort: range is full")


def _family_errors(
    spec: dict[str, Any], old: Object | None, served: set[str], *, open_ended: bool
) -> Iterator[FieldError]:
    """Errors of addresses and families against the policy and the families served.

    With `open_ended`, for a headless Service without selector, what the cluster serves is not
    checked. With SingleStack two addresses or families are no error if `old` has the same.
    """
    policy = spec["ipFamilyPolicy"]
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    field = "spec.ipFamilyPolicy"
    if policy == "SingleStack":
        before = (old or {}).get("spec", {})
        either = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
        if len(addresses) == 2 and addresses != before.get("clusterIPs"):
            yield invalid(field, policy, f"{either} cluster IPs are specified")
        if len(families) == 2 and families != before.get("ipFamilies"):
            yield invalid(field, policy, f"{either} IP families are specified")
    if open_ended:
        return
    if policy == "RequireDualStack" and len(served) < 2:
        yield invalid(field, policy, "this cluster is not configured for dual-stack services")
    for at, family in enumerate(families):
        if family not in served:
            yield invalid(f"spec.ipFamilies[{at}]", family, "not configured on this cluster")
    for at, address in enumerate(addresses):
        if at >= len(families) and address != "None" and _family(address) not in served:
            detail = f"{_family(address)} is not configured on this cluster"
            yield invalid(f"spec.clusterIPs[{at}]", addresses, detail)


def _invalid_service(service: Object, errors: list[FieldError]) -> StatusError:
    """The 422 to raise for a Service with these field errors."""
    return invalid_object("Service", "", service["metadata"]["name"], errors)


def _cluster_ips(service: Object | None) -> list[str]:
    """The cluster IPs of a Service, without `None`; none for no Service."""
    spec = (service or {}).get("spec") or {}
    return [address for address in spec.get("clusterIPs") or () if address != "None"]


def _node_ports(service: Object) -> Iterator[int]:
    """All node ports of a Service, its healthCheckNodePort included."""
    spec = service.get("spec") or {}
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


def needs_health_check(spec: dict[str, Any]) -> bool:
    """Whether a Service has a healthCheckNodePort: of type LoadBalancer, external policy Local."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _family(address: str) -> str:
    """`IPv4` or `IPv6`; ValueError if it is no address."""
    return f"IPv{ip_address(address).version}"


@cache
def _parse_network(text: str) -> Network:
    """The network of a CIDR, cached; ValueError if it is malformed or has host bits set."""
    return ip_network(text)
