"""Addresses by which other clusters reach an export: its own, or global ones under Globalnet."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.slices import ExportBackends, address_family
from hanse.model.addresses import is_address
from hanse.model.internal_addresses import address_by_internal, decode_addresses
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import Endpoint, EndpointSlice
from hanse.model.kinds.submariner import GlobalIngressIP
from hanse.model.snapshot import Index, Snapshot

SERVICE_REF = "submariner.io/serviceRef"
ENDPOINT_ADDRESS = "submariner.io/headless-svc-endpoints-ip"


def ingress_service_name(ingress: GlobalIngressIP) -> str:
    """The name of the Service of a global address: spec.serviceRef, else its label, else empty."""
    ref = ingress.spec.service_ref
    return ref.name if ref is not None else ingress.metadata.labels.get(SERVICE_REF, "")


def _ingress_service(ingress: GlobalIngressIP) -> Iterator[str]:
    """Index value: `namespace/name` of the Service that a global address is for."""
    yield f"{ingress.metadata.namespace}/{ingress_service_name(ingress)}"


INGRESS = Index(GlobalIngressIP, "services-ingress", _ingress_service)
"""Global addresses by the Service that they are allocated for."""


class ReachableBackends(Struct, frozen=True):
    """The backends of an export, by the addresses that other clusters use."""

    backends: ExportBackends
    waiting: bool = False
    """Whether there are backends and none has a global address yet."""


def uses_globalnet(snapshot: Snapshot) -> bool:
    """Whether the local API server serves GlobalIngressIP; False while that is not known.

    If it does, other clusters reach this one by global addresses only.
    """
    return snapshot.serves(snapshot.local, GlobalIngressIP) is True


def reachable_backends(
    service: Service, pods: Sequence[EndpointSlice], snapshot: Snapshot, *, as_pods: bool
) -> ReachableBackends:
    """The backends of a Service as other clusters reach them.

    With Globalnet by global addresses, of pods if `as_pods`, else of the Service; it is `waiting`
    while no backend has one. Else its cluster IPs and pods as they are, but for machines, whose
    internal addresses are replaced as an annotation of the slice says.
    """
    own = ExportBackends(_cluster_ips(service), tuple(pods))
    if not uses_globalnet(snapshot):
        return ReachableBackends(replace(own, pods=tuple(map(_with_published_addresses, pods))))
    service_key = f"{service.metadata.namespace}/{service.metadata.name}"
    found = snapshot.by(snapshot.local, INGRESS, service_key)
    allocated = [i for i in found if is_address(i.status.allocated_ip)]
    return _with_global_pods(own, allocated) if as_pods else _with_global_ips(own, allocated)


def _with_published_addresses(endpoint_slice: EndpointSlice) -> EndpointSlice:
    """The slice with internal addresses of machines replaced by those that its annotation gives.

    Unchanged without a valid annotation.
    """
    instead = address_by_internal(decode_addresses(endpoint_slice.metadata.annotations))
    if not instead:
        return endpoint_slice
    endpoints = tuple(
        replace(e, addresses=tuple(instead.get(a, a) for a in e.addresses))
        for e in endpoint_slice.endpoints or ()
    )
    return replace(endpoint_slice, endpoints=endpoints)


def _cluster_ips(service: Service) -> tuple[str, ...]:
    """The cluster IPs of a Service; none if it is headless or has none yet."""
    spec = service.spec
    addresses = spec.cluster_ips or (spec.cluster_ip,)
    return tuple(a for a in addresses if a and a != "None")


def _with_global_ips(
    own: ExportBackends, allocated: Sequence[GlobalIngressIP]
) -> ReachableBackends:
    """The backends with the Service's global address of each family in place of its cluster IPs.

    `waiting` if there is none. All of `allocated` must have an address; those of pods do not count.
    """
    found = [i.status.allocated_ip for i in allocated if i.spec.target == "ClusterIPService"]
    by_family = {address_family(address): address for address in sorted(found)}
    return ReachableBackends(
        replace(own, addresses=tuple(by_family.values())), waiting=not by_family
    )


def _with_global_pods(
    own: ExportBackends, allocated: Sequence[GlobalIngressIP]
) -> ReachableBackends:
    """The backends with only those pods that have a global address, at that address.

    They have no address of the Service; `waiting` if there are pods and none has one.
    """
    by_pod = {i.spec.pod_ref.name: i.status.allocated_ip for i in allocated if i.spec.pod_ref}
    by_address = {
        i.metadata.annotations[ENDPOINT_ADDRESS]: i.status.allocated_ip
        for i in allocated
        if ENDPOINT_ADDRESS in i.metadata.annotations
    }

    def with_global_address(endpoint: Endpoint) -> Iterator[Endpoint]:
        """The endpoint at its pod's or address' global address; nothing if it has none."""
        pod = endpoint.target_ref.name if endpoint.target_ref is not None else ""
        local = endpoint.addresses[0] if endpoint.addresses else ""
        found = by_pod.get(pod) or by_address.get(local)
        if found:
            yield replace(endpoint, addresses=(found,))

    pods = tuple(
        replace(p, endpoints=tuple(g for e in p.endpoints or () for g in with_global_address(e)))
        for p in own.pods
    )
    unreached = any(p.endpoints for p in own.pods) and not any(p.endpoints for p in pods)
    return ReachableBackends(ExportBackends(pods=pods), waiting=unreached)
