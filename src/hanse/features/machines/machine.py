"""A machine, read from any of three kinds, and the tags that make it a Service."""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, TypeAlias, assert_never

from msgspec import Struct

from hanse.features.machines.names import PORTS_TAG, SERVICE_TAG
from hanse.model.internal_addresses import (
    CLUSTERS_FORMAT,
    INTERNAL_FROM,
    PreferredAddress,
    parse_clusters,
    preferred_addresses,
)
from hanse.model.kinds.core import Protocol
from hanse.model.kinds.discovery import address_family
from hanse.model.kinds.federation import VirtualMachine, spelled_label, spelled_value
from hanse.model.kinds.machines import CloudMachine, VirtualMachineInstance
from hanse.model.naming import is_service_name
from hanse.model.objects import ClusterId, Kind
from hanse.model.snapshot import Index

Source: TypeAlias = VirtualMachine | CloudMachine | VirtualMachineInstance
SOURCES: tuple[type[Source], ...] = (VirtualMachine, CloudMachine, VirtualMachineInstance)

_PORT = re.compile(r"(?:([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?):)?([0-9]{1,5})(?:/(TCP|UDP|SCTP))?")


class Port(Struct, frozen=True, order=True):
    """A port that a machine serves."""

    port: int
    name: str = ""
    protocol: Protocol = "TCP"


class Machine(Struct, frozen=True):
    """A machine, independent of the kind of its source."""

    kind: Kind
    name: str
    namespace: str
    id: str
    tags: dict[str, str]
    addresses: tuple[PreferredAddress, ...]
    """One of each family: the ExternalIP if there is one."""
    every_address: tuple[str, ...]
    """Those of all its interfaces: its packets may come from any."""
    running: bool

    @property
    def hostname(self) -> str:
        """The machine's name if it is a valid Service name, else a DNS label of it with a hash."""
        return dns_label(self.name)


class ServiceTags(Struct, frozen=True):
    """The Service and ports in a machine's tags, and what is wrong with the tags."""

    service: str = ""
    ports: tuple[Port, ...] = ()
    internal_from: tuple[ClusterId, ...] = ()
    """The clusters on the network of the machine, which use its internal addresses."""
    faults: tuple[str, ...] = ()


class ServiceMachine(Struct, frozen=True):
    """A machine that is a backend of a VM Service."""

    machine: Machine
    tags: ServiceTags


def parse_machine(source: Source) -> Machine:
    """The machine that an object describes; one without an id has its name as id.

    It runs if its state is `running`, in any case of letters, and it is not being deleted. An empty
    state means running, except for a VirtualMachineInstance. The tags of the latter are its
    annotations and labels; labels win.
    """
    meta = source.metadata
    addresses: list[tuple[str, str]]
    match source:
        case VirtualMachine():
            spec = source.spec
            addresses = [
                (ip.address, ip.address_type) for i in spec.network_interfaces for ip in i.ips
            ]
            tags, id_, state = spec.tags, spec.id, source.status.state or "running"
        case CloudMachine():
            status = source.status
            addresses = [
                (ip.address, ip.address_type) for i in status.network_interfaces for ip in i.ips
            ]
            tags, id_, state = status.tags, status.cloud_assigned_id, status.state or "running"
        case VirtualMachineInstance():
            addresses = [
                (address, "InternalIP")
                for i in source.status.interfaces
                for address in (i.ip_addresses or (i.ip_address,))
            ]
            tags, id_, state = {**meta.annotations, **meta.labels}, meta.name, source.status.phase
        case _:
            assert_never(source)
    return Machine(
        kind=type(source).kind,
        name=meta.name,
        namespace=meta.namespace,
        id=id_ or meta.name,
        tags=tags,
        addresses=tuple(preferred_addresses(addresses)),
        every_address=tuple(dict.fromkeys(a for a, _ in addresses if address_family(a))),
        running=state.lower() == "running" and meta.deletion_timestamp is None,
    )


def parse_service_tags(machine: Machine) -> ServiceTags:
    """The Service, ports and clusters on its network in a machine's tags, with faults.

    All are empty without the Service tag. Its empty value means a name made of the machine's id. An
    invalid name, port or list of clusters is left out, with a message in `faults`.
    """
    tagged = spelled_value(machine.tags, SERVICE_TAG)
    if tagged is None:
        return ServiceTags()
    faults: list[str] = []
    name = tagged or dns_label(machine.id)
    if not is_service_name(name):
        faults.append(
            f"tag {spelled_label(machine.tags, SERVICE_TAG)}: {name[:63]!r} cannot be the name of "
            "a Service: use up to 63 small letters, digits and dashes, beginning with a letter"
        )
        name = ""
    ports: list[Port] = []
    for text in (spelled_value(machine.tags, PORTS_TAG) or "").split(","):
        if text.strip():
            port = _parse_port(text.strip())
            if port is None:
                tag = spelled_label(machine.tags, PORTS_TAG)
                faults.append(f"tag {tag}: {text.strip()[:63]!r} is not like http:80/TCP")
            else:
                ports.append(port)
    internal_from = parse_clusters(machine.tags.get(INTERNAL_FROM, ""))
    if internal_from is None:
        text = machine.tags[INTERNAL_FROM][:63]
        faults.append(f"tag {INTERNAL_FROM}: {text!r} is not {CLUSTERS_FORMAT}")
    return ServiceTags(name, tuple(ports), internal_from or (), tuple(faults))


def _service_of(source: Source) -> Iterator[str]:
    """Index value: `namespace/name` of the VM Service in a machine's tags; none without a name."""
    service = parse_service_tags(parse_machine(source)).service
    if service:
        yield f"{source.metadata.namespace}/{service}"


BY_SERVICE: dict[type[Source], Index[Any]] = {
    kind: Index(kind, "machines-service", _service_of) for kind in SOURCES
}
"""Machines by the VM Service that they are backends of."""


def dns_label(text: str) -> str:
    """A valid Service name made of any text: the text itself if valid, else one with a hash."""
    plain = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
    label = plain if plain[:1].isalpha() else f"vm-{plain}".rstrip("-")
    if label == text and is_service_name(label):
        return label
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    return f"{label[:54].rstrip('-')}-{digest}"


def _parse_port(text: str) -> Port | None:
    """The port in a text like `http:80/TCP`; None if it is invalid or not from 1 to 65535.

    The name is optional, and so is the protocol, by default TCP.
    """
    found = _PORT.fullmatch(text)
    if found is None or not 1 <= int(found[3]) <= 65535:
        return None
    protocols: dict[str, Protocol] = {"TCP": "TCP", "UDP": "UDP", "SCTP": "SCTP"}
    return Port(int(found[3]), found[1] or "", protocols[found[4] or "TCP"])
