"""The slices of a federated Service in one member: each member Service's endpoints, as they are."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.merge import Number
from hanse.features.federated.names import CLUSTER, DOMAIN, ORIGIN
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


def _generated(endpoint_slice: EndpointSlice) -> Iterator[str]:
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY) == DOMAIN and KUBE_SERVICE in labels:
        yield f"{endpoint_slice.metadata.namespace}/{labels[KUBE_SERVICE]}"


GENERATED_SLICES = Index(EndpointSlice, "federated-generated", _generated)
"""The slices that we made, by their federated Service."""


class MemberEndpoints(Struct, frozen=True):
    """A member Service's share of a federated Service in one cluster."""

    origin: Origin
    backends: tuple[Backends, ...]


def build_slices(
    federated: FederatedName, part: MemberEndpoints, names: dict[Number, str], most: int
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
            endpoint_slice = tuple(endpoints[start : start + most])
            meta = _meta(federated, part.origin, f"{backends.slot} {start}", told)
            yield EndpointSlice(
                metadata=meta, address_type=backends.family, endpoints=endpoint_slice, ports=ports
            )


def slice_origin(endpoint_slice: EndpointSlice) -> Origin | None:
    """Whose a slice of ours is, as it says itself."""
    try:
        return _decoder.decode(endpoint_slice.metadata.annotations.get(ORIGIN, ""))
    except msgspec.DecodeError:
        return None


def as_applied(endpoint_slice: EndpointSlice) -> EndpointSlice:
    """A slice as we wrote it, to be kept while nobody can say anything new about it."""
    meta = endpoint_slice.metadata
    return EndpointSlice(
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            labels={n: meta.labels[n] for n in (KUBE_SERVICE, MANAGED_BY) if n in meta.labels},
            annotations={
                n: meta.annotations[n] for n in (CLUSTER, ORIGIN) if n in meta.annotations
            },
        ),
        address_type=endpoint_slice.address_type,
        endpoints=endpoint_slice.endpoints,
        ports=endpoint_slice.ports,
    )


def slice_addresses(slices: Iterable[EndpointSlice], *, ready: bool = False) -> Iterator[str]:
    """Every address in slices of an address family; only ready ones, if asked so."""
    for endpoint_slice in slices:
        if endpoint_slice.address_type != "FQDN":
            for endpoint in endpoint_slice.endpoints or ():
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


def _meta(
    federated: FederatedName, origin: Origin, slot: str, ports: tuple[MemberPort, ...]
) -> Meta:
    name = unique(federated.name, origin.cluster, origin.namespace, origin.name, origin.kind, slot)
    told = msgspec.json.encode(msgspec.structs.replace(origin, ports=ports)).decode()
    return Meta(
        name=name,
        namespace=federated.namespace,
        labels={KUBE_SERVICE: federated.name, MANAGED_BY: DOMAIN},
        annotations={CLUSTER: origin.cluster, ORIGIN: told},
    )


_decoder = msgspec.json.Decoder(Origin)
