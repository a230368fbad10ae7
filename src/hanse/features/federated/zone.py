"""The external names of federated Services, as our own name server answers them.

The leader of the cluster writes host name, addresses and ports on the federated Service; here they
become records below a zone of global names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec

from hanse.features.federated.external_dns import MemberShare, Targets, annotated_hostname
from hanse.features.federated.names import FEDERATED, SHARES, TARGETS
from hanse.model.dns.names import child_name, is_subdomain, parse_name, wire_name
from hanse.model.dns.records import (
    AAAA,
    SRV,
    A,
    RRset,
    ZoneNode,
    address_rdata,
    full_rrset,
    grouped_rrset,
    srv_rdata,
)
from hanse.model.dns.service_records import (
    address_rrsets,
    dashed_address,
    port_name,
    target_rrsets,
)
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import Service
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, ObjectChange, Snapshot, Watch

PortNumber = Annotated[int, msgspec.Meta(ge=1, le=65535)]

HOST_TOPIC = "host"
SRV_WEIGHT = 50
MOST_SRV_WEIGHT = 1000
"""The weights of SRV records: of all where members do not differ, and of the heaviest address."""


def _hostnames(service: Service) -> Iterator[str]:
    """Index values: the host names of a federated Service that has targets, in lower case."""
    annotations = service.metadata.annotations
    if FEDERATED in annotations and TARGETS in annotations:
        for name in annotated_hostname(annotations).split(","):
            if name.strip():
                yield name.strip().rstrip(".").lower()


BY_HOSTNAME = Index(Service, "federated-hostname", _hostnames)
"""Federated Services by the external host names that they have."""


def outside_service(name: str, snapshot: Snapshot) -> Service | None:
    """The federated Service that has an external host name: the oldest; None if there is none."""
    claims = list(snapshot.by(snapshot.local, BY_HOSTNAME, name.lower().rstrip(".")))
    return min(claims, key=_precedence) if claims else None


def outside_rule(service: Service) -> str:
    """The sentence for users that says how the external name's addresses are chosen."""
    meta = service.metadata
    shares = _decode_shares(meta.annotations.get(SHARES, ""))
    if not shares:
        return f"every address of federated Service {meta.namespace}/{meta.name}"
    parts = ", ".join(f"{share.cluster} {share.weight}" for share in shares)
    return f"federated Service {meta.namespace}/{meta.name}, in turn by weight: {parts}"


class FederatedZone:
    """The external names of a cluster's federated Services below the zones of global names."""

    name = "federated"
    watches: tuple[Watch, ...] = (
        Watch(
            Role.LOCAL,
            Service,
            indexes=(BY_HOSTNAME,),
            reason="external names of federated Services",
        ),
    )

    def __init__(self, view: View) -> None:
        """The external names below the view's zones of global names; nothing is read yet."""
        self.view = view
        self.zones: tuple[bytes, ...] = tuple(wire_name(zone) for zone in view.global_zones)

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether the Services of this cluster are listed, or are not served."""
        return snapshot.listed_or_unserved(snapshot.local, Service)

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """One key for each external host name of a federated Service of this cluster."""
        names = {n for s in snapshot.all(snapshot.local, Service) for n in _hostnames(s)}
        yield from (Key(HOST_TOPIC, name) for name in names)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The names of a local Service before and after a change; facts affect none."""
        match change:
            case ObjectChange(where, before, after) if where == snapshot.local:
                sides = [side for side in (before, after) if isinstance(side, Service)]
                return {Key(HOST_TOPIC, name) for side in sides for name in _hostnames(side)}
            case ObjectChange() | FactChange():
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function that builds the nodes of a name; none outside of the zones.

        A name belongs to the oldest Service that has it.
        """

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            """The nodes of a name: its addresses, and its ports with a name for each address.

            None outside of the view's zones, or if no Service has the name.
            """
            oldest = outside_service(key.name, snapshot)
            name = self._name_in_zones(key.name)
            if name is None or oldest is None:
                return ()
            targets = _decode_targets(oldest.metadata.annotations[TARGETS])
            shares = _decode_shares(oldest.metadata.annotations.get(SHARES, ""))
            return tuple(_host_nodes(name, targets, shares, self.view.ttl))

        return build_nodes

    def _name_in_zones(self, text: str) -> bytes | None:
        """Parse a name; None if it is invalid or in none of the zones."""
        name = parse_name(text)
        if name is None or not any(is_subdomain(name, zone) for zone in self.zones):
            return None
        return name


def _precedence(service: Service) -> tuple[str, str, str]:
    """The order of Services that claim one name: by age, then by namespace and name."""
    meta = service.metadata
    created = meta.creation_timestamp.isoformat() if meta.creation_timestamp is not None else "~"
    return (created, meta.namespace, meta.name)


@lru_cache(maxsize=4096)
def _decode_targets(text: str) -> Targets:
    """The targets in an annotation; none if it is invalid, as with a number that is no port."""
    try:
        return decode_json(text, type=dict[str, dict[str, PortNumber]])
    except msgspec.DecodeError:
        return {}


@lru_cache(maxsize=4096)
def _decode_shares(text: str) -> tuple[MemberShare, ...]:
    """The shares in an annotation; none if it is missing or invalid."""
    try:
        return decode_json(text, type=tuple[MemberShare, ...])
    except msgspec.DecodeError:
        return ()


def _host_nodes(
    name: bytes, targets: Targets, shares: Sequence[MemberShare], ttl: int
) -> Iterator[ZoneNode]:
    """The node of a name, and nodes of its ports and of each address that has ports.

    None without a usable target. With shares an answer has the addresses of one member, by weight;
    SRV records have them all, with their weights.
    """
    rrsets = tuple(_shared_rrsets(shares, ttl)) or tuple(target_rrsets(list(targets), ttl))
    if not rrsets:
        return
    yield ZoneNode(name, rrsets)
    ports: dict[str, list[bytes]] = {}
    weights = _srv_weights(shares)
    for text in targets:
        rdata, own = address_rdata(text), child_name(dashed_address(text), name)
        if rdata is not None and own is not None and targets[text]:
            yield ZoneNode(own, address_rrsets([rdata], ttl))
            for port, number in targets[text].items():
                rdata = srv_rdata(number, own, weight=weights.get(text, SRV_WEIGHT))
                ports.setdefault(port, []).append(rdata)
    yield from _port_nodes(name, ports, ttl)


def _shared_rrsets(shares: Sequence[MemberShare], ttl: int) -> Iterator[RRset]:
    """RRsets that answer with addresses of one member at a time, by weight; none without shares.

    Weight 0 counts as 1; a family without addresses has no RRset.
    """
    for rtype, size in ((A, 4), (AAAA, 16)):
        groups = [
            ([r for text in share.addresses if len(r := address_rdata(text) or b"") == size], share)
            for share in shares
        ]
        weighted = [(rdatas, share.weight or 1) for rdatas, share in groups if rdatas]
        if weighted:
            yield grouped_rrset(rtype, weighted, ttl)


def _srv_weights(shares: Sequence[MemberShare]) -> dict[str, int]:
    """The weight of each address in SRV records: its part of its member's share, at least 1.

    They are scaled so that the heaviest address has MOST_SRV_WEIGHT.
    """
    parts = {a: share.weight / len(share.addresses) for share in shares for a in share.addresses}
    most = max(parts.values(), default=1.0) or 1.0
    return {a: max(1, round(part / most * MOST_SRV_WEIGHT)) for a, part in parts.items()}


def _port_nodes(name: bytes, ports: Mapping[str, Sequence[bytes]], ttl: int) -> Iterator[ZoneNode]:
    """The node `_port._protocol` of each named port, by name.

    Ports that make no valid DNS name are left out.
    """
    for port, rdatas in sorted(ports.items()):
        label, _, protocol = port.partition("/")
        own = port_name(label, protocol, name)
        if own is not None:
            yield ZoneNode(own, (full_rrset(SRV, rdatas, ttl),))
