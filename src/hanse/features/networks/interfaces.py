"""The network interface that a pod requests by annotation, and CNI arguments."""

import re
from ipaddress import ip_network

import msgspec

from hanse.features.networks.addresses import (
    gateway_address,
    is_network_or_broadcast,
    parse_address,
)
from hanse.features.networks.names import NIC
from hanse.features.networks.ranges import DEFAULT_SUBNET, Range, parse_range
from hanse.model.json_input import decode_json
from hanse.model.kinds.networks import Network, Subnet


class InterfaceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The interface that a pod requests; all fields are optional."""

    name: str = ""
    subnet: str = ""
    ip: str = ""


VPC_ARGUMENT = "VPCID"
"""The CNI argument that names a pod's VPC."""
_INTERFACE_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.-]{1,15}")


class InvalidInterface(ValueError):
    """A request that cannot be met; the message names the annotation and the remedy."""


def parse_interface(annotations: dict[str, str]) -> InterfaceRequest:
    """The interface that the nic annotation requests; all its fields are empty without one.

    Raises `InvalidInterface` if it is no such JSON, has other fields, or an invalid interface name
    or address.
    """
    text = annotations.get(NIC)
    if text is None:
        return InterfaceRequest()
    try:
        nic = decode_json(text, type=InterfaceRequest)
    except msgspec.DecodeError as error:
        raise InvalidInterface(
            f"metadata.annotations[{NIC}]: {error}; "
            'write JSON such as {"name": "eth0", "subnet": "front", "ip": "10.0.0.5"}'
        ) from None
    if nic.name and _INTERFACE_NAME.fullmatch(nic.name) is None:
        raise InvalidInterface(
            f"metadata.annotations[{NIC}]: name {nic.name[:50]!r} is no name of an interface; "
            "write up to 15 letters, digits and any of -_. such as eth0"
        )
    if nic.ip and parse_address(nic.ip) is None:
        raise InvalidInterface(f"metadata.annotations[{NIC}]: ip {nic.ip[:50]!r} is not an address")
    return nic


def candidate_subnets(network: Network, nic: InterfaceRequest) -> tuple[Subnet, ...]:
    """The subnets of a network, or its default one, that match the subnet and address of a request.

    All if it names neither; a subnet is named by its name or by a CIDR within. Raises
    `InvalidInterface` if none matches, or the address is the network or broadcast address of the
    first that does.
    """
    subnets: tuple[Subnet, ...] = network.spec.subnets or (DEFAULT_SUBNET,)
    names = ", ".join(f"{s.name} ({s.cidr})" for s in subnets) or "none"
    if nic.subnet:
        subnets = tuple(
            s for s in subnets if nic.subnet == s.name or _is_cidr_within(nic.subnet, s.cidr)
        )
        if not subnets:
            raise InvalidInterface(
                f"metadata.annotations[{NIC}]: network {network.metadata.name} has no subnet "
                f"{nic.subnet[:50]}; it has {names}"
            )
    address = parse_address(nic.ip) if nic.ip else None
    if address is not None:
        subnets = tuple(
            s
            for s in subnets
            if (r := requested_range(s, nic)) is not None
            and r.version == address.version
            and address in r
        )
        if not subnets:
            where = f"subnet {nic.subnet}" if nic.subnet else f"the subnets {names}"
            raise InvalidInterface(
                f"metadata.annotations[{NIC}]: ip {nic.ip} is outside of {where}; choose one inside"
            )
        _reject_network_and_broadcast(nic, subnets[0])
    return subnets


def requested_range(subnet: Subnet, nic: InterfaceRequest) -> Range | None:
    """The addresses that a request may take from a subnet; None if its CIDR is invalid.

    Where `nic.subnet` is a CIDR within the subnet's, only that one; else the whole subnet.
    """
    return parse_range(nic.subnet if _is_cidr_within(nic.subnet, subnet.cidr) else subnet.cidr)


def reject_gateway(nic: InterfaceRequest, subnet: Subnet) -> None:
    """Raise `InvalidInterface` if the requested address is the subnet's gateway.

    Nothing happens without a requested address, or if the subnet's CIDR is invalid.
    """
    range_ = parse_range(subnet.cidr)
    if nic.ip and range_ is not None and parse_address(nic.ip) == gateway_address(range_):
        raise InvalidInterface(
            f"metadata.annotations[{NIC}]: ip {nic.ip} is the gateway of subnet {subnet.name} "
            f"({subnet.cidr}); choose another"
        )


def _reject_network_and_broadcast(nic: InterfaceRequest, subnet: Subnet) -> None:
    """Raise `InvalidInterface` for a subnet's network address, or its IPv4 broadcast address.

    That is by `nic.ip`; other addresses, invalid ones and an invalid CIDR pass.
    """
    address, range_ = parse_address(nic.ip), parse_range(subnet.cidr)
    if address is not None and range_ is not None and is_network_or_broadcast(address, (range_,)):
        raise InvalidInterface(
            f"metadata.annotations[{NIC}]: ip {nic.ip} is the address of subnet {subnet.name} "
            f"({subnet.cidr}) itself, or that of all its hosts; choose another"
        )


def _is_cidr_within(text: str, cidr: str) -> bool:
    """Whether a text is a CIDR within a subnet or equal to it; False if one of both is invalid."""
    own = parse_range(cidr)
    try:
        requested = ip_network(text)
    except ValueError:
        return False
    return own is not None and own.version == requested.version and requested.subnet_of(own)  # type: ignore[arg-type]  # of one version


def parse_cni_args(text: str) -> dict[str, str]:
    """Parse `key=value` pairs separated by semicolons; the last value of a key counts.

    Raises ValueError for a part without `=`, even an empty one, a key that is not of ASCII letters
    and digits, or a value with `=`. An empty text has no pairs.
    """
    pairs: dict[str, str] = {}
    for part in text.split(";") if text else ():
        key, equals, value = part.partition("=")
        if not equals or not key.isalnum() or not key.isascii() or "=" in value:
            raise ValueError(f"{part[:40]!r} is not key=value")
        pairs[key] = value
    return pairs


def format_cni_args(pairs: dict[str, str]) -> str:
    """Format pairs as CNI_ARGS, in their order: `key=value;key=value`.

    Raises ValueError for a key that is not of ASCII letters and digits, or a value with `;` or `=`.
    """
    for key, value in pairs.items():
        if not (key.isalnum() and key.isascii()) or set(value) & {";", "="}:
            raise ValueError(f"{key}={value} cannot be a CNI argument")
    return ";".join(f"{key}={value}" for key, value in pairs.items())
