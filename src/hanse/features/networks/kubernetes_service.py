"""The `kubernetes` Service of a network, with the endpoints of the cluster's API servers."""

from collections.abc import Iterator

from hanse.features.networks.dns_server import copied_slices, network_labels
from hanse.features.networks.lookups import apiserver_slices
from hanse.features.networks.names import NetworkName
from hanse.model.kinds.core import (
    Endpoints,
    EndpointsAddress,
    EndpointsPort,
    EndpointsSubset,
    Service,
    ServicePort,
    ServiceSpec,
)
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot

SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"


def kubernetes_service(name: NetworkName, address: str, snapshot: Snapshot) -> Service:
    """The network's `kubernetes` Service at an address, with the ports of `default/kubernetes`.

    While that Service is not in the snapshot, with https at 443. With an empty address the API
    server allocates one.
    """
    own = snapshot.get(snapshot.local, Service, "kubernetes", "default")
    ports = own.spec.ports if own is not None else (ServicePort(name="https", port=443),)
    meta = Meta(name=name.kubernetes, namespace=name.alias_namespace, labels=network_labels(name))
    return Service(metadata=meta, spec=ServiceSpec(ports=ports, cluster_ip=address))


def kubernetes_slices(name: NetworkName, snapshot: Snapshot) -> Iterator[EndpointSlice]:
    """Copies of the EndpointSlices of `default/kubernetes` for the network's `kubernetes` Service.

    None while there are none of those.
    """
    return copied_slices(apiserver_slices(snapshot), name, name.kubernetes, name.alias_namespace)


def kubernetes_endpoints(name: NetworkName, snapshot: Snapshot) -> Endpoints:
    """The Endpoints of a network's `kubernetes` Service, with the addresses of the API servers.

    It has a subset for each EndpointSlice of `default/kubernetes` that has endpoints, ready or not,
    and the label `skip-mirror`, so that the cluster makes no EndpointSlices of it.
    """
    labels = {**network_labels(name), SKIP_MIRROR: "true"}
    subsets = tuple(
        EndpointsSubset(
            addresses=tuple(
                EndpointsAddress(ip=address)
                for endpoint in endpoint_slice.endpoints or ()
                for address in endpoint.addresses
            ),
            ports=tuple(
                EndpointsPort(name=port.name, port=port.port, protocol=port.protocol)
                for port in endpoint_slice.ports or ()
                if port.port is not None
            ),
        )
        for endpoint_slice in apiserver_slices(snapshot)
        if endpoint_slice.endpoints
    )
    meta = Meta(name=name.kubernetes, namespace=name.alias_namespace, labels=labels)
    return Endpoints(metadata=meta, subsets=subsets)
