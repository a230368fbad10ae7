"""`kubernetes` as a network sees it: a Service of its own that follows the cluster's endpoints."""

from collections.abc import Iterator

from msgspec.structs import replace

from hanse.features.networks.dns_server import network_labels
from hanse.features.networks.lookups import SLICES_BY_SERVICE
from hanse.features.networks.names import FEATURE_DOMAIN, NetworkName, shorten_name
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot

CLUSTER_API = "default/kubernetes"


def apiserver_slices(snapshot: Snapshot) -> list[EndpointSlice]:
    """Where the cluster's API server is, by its own word."""
    found = snapshot.by(snapshot.local, SLICES_BY_SERVICE, CLUSTER_API)
    return sorted(found, key=lambda s: s.metadata.name)


def apiserver_endpoints(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Address and port of every API server, in one order."""
    return sorted(
        {
            (address, port.port)
            for piece in apiserver_slices(snapshot)
            for endpoint in piece.endpoints or ()
            for address in endpoint.addresses
            for port in piece.ports or ()
            if port.port is not None
        }
    )


def kubernetes_service(name: NetworkName, address: str, snapshot: Snapshot) -> Service:
    """The network's `kubernetes`, with the ports of the cluster's own."""
    own = snapshot.get(snapshot.local, Service, "kubernetes", "default")
    ports = own.spec.ports if own is not None else (ServicePort(name="https", port=443),)
    meta = Meta(name=name.kubernetes, namespace=name.alias_namespace, labels=network_labels(name))
    return Service(metadata=meta, spec=ServiceSpec(ports=ports, cluster_ip=address))


def kubernetes_slices(name: NetworkName, snapshot: Snapshot) -> Iterator[EndpointSlice]:
    """The cluster's own endpoints, once more under the network's name."""
    for piece in apiserver_slices(snapshot):
        labels = {**network_labels(name), KUBE_SERVICE: name.kubernetes, MANAGED_BY: FEATURE_DOMAIN}
        called = shorten_name(f"{name.kubernetes}-{piece.metadata.name}", 253)
        meta = Meta(name=called, namespace=name.alias_namespace, labels=labels)
        yield replace(piece, metadata=meta)
