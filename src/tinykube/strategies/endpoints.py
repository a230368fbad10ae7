"""EndpointSlices: defaulting and validation."""

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from tinykube.errors import (
    FieldError,
    duplicate,
    invalid,
    required,
    too_many,
    unsupported,
)
from tinykube.resources import Object
from tinykube.strategy import Strategy
from tinykube.validation import dns1123_label_problems, dns1123_subdomain_problems

PROTOCOLS = ("SCTP", "TCP", "UDP")
_LINK_LOCAL_MULTICAST = (ip_network("224.0.0.0/24"), ip_network("ff02::/16"))


def address_errors(address: str, field: str, kind: str) -> Iterator[FieldError]:
    """Validation errors of an endpoint address; `kind` is the required family, empty for any.

    It must be an IP address that is not unspecified, loopback, link-local (also not multicast) or
    IPv4 mapped to IPv6.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid(field, address, detail)
        return
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        yield invalid(field, address, "must not be an IPv4-mapped IPv6 address")
        return
    if kind and f"IPv{parsed.version}" != kind:
        yield invalid(field.rpartition("[")[0], address, f"must be an {kind} address")
    if parsed.is_unspecified:
        yield invalid(field, address, f"may not be unspecified ({address})")
    if parsed.is_loopback:
        detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
        yield invalid(field, address, detail)
    if parsed.is_link_local:
        detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        yield invalid(field, address, detail)
    if any(parsed in network for network in _LINK_LOCAL_MULTICAST):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        yield invalid(field, address, detail)


def default_slice(found: Object) -> None:
    """Default the name (empty) and protocol (TCP) of an EndpointSlice's ports, in place."""
    for port in found.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def slice_errors(found: Object) -> Iterator[FieldError]:
    """Validation errors of an EndpointSlice: addressType, endpoints, ports.

    Names of ports must be unique; an empty name counts. With more than 1000 endpoints, neither
    these nor the ports are checked.
    """
    kind = found.get("addressType", "")
    if not kind:
        yield required("addressType")
    elif kind not in ("FQDN", "IPv4", "IPv6"):
        yield unsupported("addressType", kind, ("FQDN", "IPv4", "IPv6"))
    endpoints = found.get("endpoints") or []
    if len(endpoints) > 1000:
        yield too_many("endpoints", len(endpoints), 1000)
        return
    for at, endpoint in enumerate(endpoints):
        yield from _endpoint_errors(endpoint, f"endpoints[{at}]", kind)
    names: set[str] = set()
    for at, port in enumerate(found.get("ports") or ()):
        field, name = f"ports[{at}]", port.get("name", "")
        for problem in dns1123_label_problems(name) if name else ():
            yield invalid(f"{field}.name", name, problem)
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
        if port.get("protocol") not in PROTOCOLS:
            yield unsupported(f"{field}.protocol", port.get("protocol", ""), PROTOCOLS)


def _endpoint_errors(endpoint: dict[str, Any], field: str, kind: str) -> Iterator[FieldError]:
    """Errors of addresses (1 to 100), hostname and nodeName; `kind` is the slice's addressType.

    Addresses of type FQDN are only counted.
    """
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield required(f"{field}.addresses", "must contain at least 1 address")
    elif len(addresses) > 100:
        yield too_many(f"{field}.addresses", len(addresses), 100)
    for at, address in enumerate(addresses):
        if kind in ("IPv4", "IPv6"):
            yield from address_errors(address, f"{field}.addresses[{at}]", kind)
    hostname = endpoint.get("hostname")
    if hostname:
        for problem in dns1123_label_problems(hostname):
            yield invalid(f"{field}.hostname", hostname, problem)
    node = endpoint.get("nodeName")
    if node:
        for problem in dns1123_subdomain_problems(node):
            yield invalid(f"{field}.nodeName", node, problem)


def slice_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """An error if the addressType changes."""
    if new.get("addressType") != old.get("addressType"):
        yield invalid("addressType", new.get("addressType"), "field is immutable")


def slice_warnings(found: Object) -> Iterator[str]:
    """A warning if the addressType is FQDN, else none."""
    if found.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"


ENDPOINT_SLICE_STRATEGY = Strategy(
    warnings=slice_warnings,
    default=default_slice,
    validate=slice_errors,
    validate_update=slice_update_errors,
    tracks_generation=True,
)
