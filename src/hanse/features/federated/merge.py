"""Merges member Services into one federated Service: ports, their names, and who is left out.

The order of the members is irrelevant, so all leaders come to the same result.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.federated.records import Identity, MemberPort, Origin
from hanse.model.kinds.core import Protocol, ServicePort
from hanse.model.naming import is_label
from hanse.model.ports import MAX_PORT_NAME_LENGTH, default_port_name, unused_port_name

Number = tuple[Protocol, int]


class MergedService(Struct, frozen=True):
    """The federated Service that all members make together."""

    ports: tuple[ServicePort, ...] = ()
    members: tuple[Origin, ...] = ()
    """Those that are part of it, in the order of joining."""
    left_out: Mapping[Identity, str] = {}
    """Why others are not part of it, by their identity."""

    @property
    def names(self) -> dict[Number, str]:
        """The name of each port, by which its slices refer to it."""
        return {(p.protocol, p.port): p.name for p in self.ports}


def merge_members(origins: Iterable[Origin]) -> MergedService:
    """The merged Service of all member Services, in the order of joining; ports are their union.

    A member with a port number under none of the protocols that earlier members have for it is left
    out with a message; of equal ports the first counts.
    """
    members: list[Origin] = []
    left_out: dict[Identity, str] = {}
    protocols: dict[int, tuple[set[Protocol], Origin]] = {}
    ports: dict[Number, MemberPort] = {}
    for origin in sorted(origins, key=lambda o: o.age):
        fault = _protocol_conflict(origin, protocols)
        if fault:
            left_out[origin.identity] = fault
            continue
        members.append(origin)
        for port in origin.ports:
            protocols.setdefault(port.port, (set(), origin))[0].add(port.protocol)
            ports.setdefault((port.protocol, port.port), port)
    return MergedService(name_ports(ports.values()), tuple(members), left_out)


def _protocol_conflict(
    origin: Origin, protocols: Mapping[int, tuple[set[Protocol], Origin]]
) -> str:
    """The message for the lowest port that shares no protocol with that port of earlier members.

    Empty if there is none.
    """
    own_ports: dict[int, set[Protocol]] = {}
    for port in origin.ports:
        own_ports.setdefault(port.port, set()).add(port.protocol)
    for number, own in sorted(own_ports.items()):
        if number in protocols and own.isdisjoint(protocols[number][0]):
            theirs, first = protocols[number]
            return (
                f"port {number} is {'/'.join(sorted(own))} here and {'/'.join(sorted(theirs))} in "
                f"{first}, which joined before: use the same protocol, or another port"
            )
    return ""


def name_ports(ports: Iterable[MemberPort]) -> tuple[ServicePort, ...]:
    """The ports with unique, valid names, sorted by number.

    A single port keeps its valid name or none.
    """
    candidates = [port if is_label(port.name) else replace(port, name="") for port in ports]
    taken: set[str] = set()
    named: list[ServicePort] = []
    for port in candidates:
        name = port.name if len(candidates) == 1 else _unique_name(port, taken)
        taken.add(name)
        named.append(
            ServicePort(
                port=port.port, name=name, protocol=port.protocol, app_protocol=port.app_protocol
            )
        )
    return tuple(sorted(named, key=lambda p: (p.port, p.protocol)))


def _unique_name(port: MemberPort, taken: set[str]) -> str:
    """A name that no earlier port has: its own, else one with its protocol and number."""
    plain = default_port_name(port.protocol, port.port)
    if port.name and port.name not in taken:
        return port.name
    room = MAX_PORT_NAME_LENGTH - len(plain) - 1
    preferred = f"{port.name[:room].rstrip('-')}-{plain}" if port.name else plain
    return unused_port_name(preferred, taken)
