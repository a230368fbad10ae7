"""Builds the EndpointSlices of a federated Service in one member."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.merge import Number
from hanse.features.federated.names import CLUSTER, DOMAIN, ORIGIN
from hanse.features.federated.records import Backends, MemberPort, Origin
from hanse.model.affinity import DRAINING, with_zone_hint
from hanse.model.json_input import decode_json
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.naming import unique_name
from hanse.model.objects import Meta
from hanse.model.snapshot import Index

_READY = EndpointConditions(ready=True)
_UNREADY = EndpointConditions(ready=False)


def _generated_for(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index value: `namespace/name` of the federated Service of a slice that we generated."""
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY) == DOMAIN and KUBE_SERVICE in labels:
        yield f"{endpoint_slice.metadata.namespace}/{labels[KUBE_SERVICE]}"


GENERATED_SLICES = Index(EndpointSlice, "federated-generated", _generated_for)
"""The slices that this feature generates, by their federated Service."""


class MemberEndpoints(Struct, frozen=True):
    """The backends of one member Service, as one cluster reaches them."""

    origin: Origin
    backends: tuple[Backends, ...]


def build_slices(
    federated: FederatedName, part: MemberEndpoints, names: dict[Number, str], most: int
) -> Iterator[EndpointSlice]:
    """The slices of one member Service with federated port names, at most `most` endpoints in each.

    Endpoints are ordered ready, draining, unready; backends without any give no slice.
    """
    for backends in part.backends:
        ports, renamed = rename_ports(backends.ports, part.origin.ports, names)
        endpoints = [
            with_zone_hint(
                Endpoint(
                    addresses=(address,),
                    conditions=conditions,
                    zone=backends.zones.get(address, ""),
                )
            )
            for addresses, conditions in (
                (backends.ready, _READY),
                (backends.draining, DRAINING),
                (backends.unready, _UNREADY),
            )
            for address in addresses
        ]
        for start in range(0, len(endpoints), most):
            chunk = tuple(endpoints[start : start + most])
            meta = _meta(federated, part.origin, f"{backends.slot} {start}", renamed)
            yield EndpointSlice(
                metadata=meta, address_type=backends.family, endpoints=chunk, ports=ports
            )


def slice_origin(endpoint_slice: EndpointSlice) -> Origin | None:
    """The member Service in a generated slice's annotation; None if that is missing or invalid."""
    try:
        return decode_json(endpoint_slice.metadata.annotations.get(ORIGIN, ""), Origin)
    except msgspec.DecodeError:
        return None


def as_applied(endpoint_slice: EndpointSlice) -> EndpointSlice:
    """A current slice with only the fields, labels and annotations that we write."""
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


def slice_addresses(slices: Iterable[EndpointSlice]) -> Iterator[str]:
    """Every address in slices, except in those of type FQDN."""
    for endpoint_slice in slices:
        if endpoint_slice.address_type != "FQDN":
            for endpoint in endpoint_slice.endpoints or ():
                yield from endpoint.addresses


def rename_ports(
    ports: Iterable[EndpointPort], member_ports: Iterable[MemberPort], names: Mapping[Number, str]
) -> tuple[tuple[EndpointPort, ...], tuple[MemberPort, ...]]:
    """The ports under their federated names, and the member's own ports under the same names.

    They correspond by the name in the member's ports; ports that the member or the federated
    Service lacks are left out.
    """
    own = {p.name: p for p in member_ports}
    served: list[EndpointPort] = []
    renamed: list[MemberPort] = []
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
            renamed.append(msgspec.structs.replace(member, name=name))
    return tuple(served), tuple(renamed)


def _meta(
    federated: FederatedName, origin: Origin, slot: str, ports: tuple[MemberPort, ...]
) -> Meta:
    """Metadata of a slice, with a name unique by origin and slot, labels, and the cluster.

    An annotation has the origin, with `ports` as its ports.
    """
    name = unique_name(
        federated.name, origin.cluster, origin.namespace, origin.name, origin.kind, slot
    )
    encoded = msgspec.json.encode(msgspec.structs.replace(origin, ports=ports)).decode()
    return Meta(
        name=name,
        namespace=federated.namespace,
        labels={KUBE_SERVICE: federated.name, MANAGED_BY: DOMAIN},
        annotations={CLUSTER: origin.cluster, ORIGIN: encoded},
    )
