"""The slices of a federated Service in one member: each member Service's endpoints, as they are."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from hanse.features.federated.join_requests import Federated
from hanse.features.federated.merge import Number
from hanse.features.federated.names import CLUSTER, ORIGIN, US
from hanse.features.federated.records import Backends, MemberPort, Origin
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.naming import unique
from hanse.model.objects import Meta
from hanse.model.snapshot import Index

_READY = EndpointConditions(ready=True)
_UNREADY = EndpointConditions(ready=False)
_DRAINING = EndpointConditions(ready=False, serving=True, terminating=True)


def _generated(piece: EndpointSlice) -> Iterator[str]:
    labels = piece.metadata.labels
    if labels.get(MANAGED_BY) == US and KUBE_SERVICE in labels:
        yield f"{piece.metadata.namespace}/{labels[KUBE_SERVICE]}"


GENERATED = Index(EndpointSlice, "federated-generated", _generated)
"""The slices that we made, by their federated Service."""


class Part(Struct, frozen=True):
    """A member Service's share of a federated Service in one cluster."""

    origin: Origin
    backends: tuple[Backends, ...]


def slices_of(
    of: Federated, part: Part, names: dict[Number, str], most: int
) -> Iterator[EndpointSlice]:
    """The slices of one member Service, with ports by the names of the federated Service."""
    for backends in part.backends:
        ports, told = _renamed(backends.ports, part.origin, names)
        endpoints = [
            Endpoint(addresses=(address,), conditions=conditions)
            for addresses, conditions in (
                (backends.ready, _READY),
                (backends.draining, _DRAINING),
                (backends.unready, _UNREADY),
            )
            for address in addresses
        ]
        for start in range(0, len(endpoints), most):
            piece = tuple(endpoints[start : start + most])
            meta = _meta(of, part.origin, f"{backends.slot} {start}", told)
            yield EndpointSlice(
                metadata=meta, address_type=backends.family, endpoints=piece, ports=ports
            )


def origin_of(piece: EndpointSlice) -> Origin | None:
    """Whose a slice of ours is, as it says itself."""
    try:
        return _decoder.decode(piece.metadata.annotations.get(ORIGIN, ""))
    except msgspec.DecodeError:
        return None


def as_it_stands(piece: EndpointSlice) -> EndpointSlice:
    """A slice as we wrote it, to be kept while nobody can say anything new about it."""
    meta = piece.metadata
    return EndpointSlice(
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            labels={n: meta.labels[n] for n in (KUBE_SERVICE, MANAGED_BY) if n in meta.labels},
            annotations={
                n: meta.annotations[n] for n in (CLUSTER, ORIGIN) if n in meta.annotations
            },
        ),
        address_type=piece.address_type,
        endpoints=piece.endpoints,
        ports=piece.ports,
    )


def addresses_in(slices: Iterable[EndpointSlice], *, ready: bool = False) -> Iterator[str]:
    """Every address in slices of an address family; only ready ones, if asked so."""
    for piece in slices:
        if piece.address_type != "FQDN":
            for endpoint in piece.endpoints or ():
                if endpoint.ready or not ready:
                    yield from endpoint.addresses


def _renamed(
    ports: Iterable[EndpointPort], origin: Origin, names: dict[Number, str]
) -> tuple[tuple[EndpointPort, ...], tuple[MemberPort, ...]]:
    """Ports by the federated names, since kube-proxy joins by name; and what they stand for."""
    own = {p.name: p for p in origin.ports}
    served: list[EndpointPort] = []
    told: list[MemberPort] = []
    for port in ports:
        member = own.get(port.name)
        name = names.get((member.protocol, member.port)) if member is not None else None
        if member is not None and name is not None:
            served.append(
                EndpointPort(
                    port=port.port,
                    name=name,
                    protocol=port.protocol,
                    app_protocol=port.app_protocol or member.app_protocol,
                )
            )
            told.append(msgspec.structs.replace(member, name=name))
    return tuple(served), tuple(told)


def _meta(of: Federated, origin: Origin, slot: str, ports: tuple[MemberPort, ...]) -> Meta:
    name = unique(of.name, origin.cluster, origin.namespace, origin.name, origin.kind, slot)
    told = msgspec.json.encode(msgspec.structs.replace(origin, ports=ports)).decode()
    return Meta(
        name=name,
        namespace=of.namespace,
        labels={KUBE_SERVICE: of.name, MANAGED_BY: US},
        annotations={CLUSTER: origin.cluster, ORIGIN: told},
    )


_decoder = msgspec.json.Decoder(Origin)
