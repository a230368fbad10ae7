"""Addresses by which others reach an export: its own, or global ones where Globalnet runs."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.slices import ExportBackends, family_of, is_address
from hanse.model.facts import KindServed
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import Endpoint, EndpointSlice
from hanse.model.kinds.submariner import GlobalIngressIP
from hanse.model.snapshot import Index, Snapshot

SERVICE_REF = "submariner.io/serviceRef"
ENDPOINT_ADDRESS = "submariner.io/headless-svc-endpoints-ip"


def ingress_service_name(ingress: GlobalIngressIP) -> str:
    """The name of the Service that a global address was made for."""
    ref = ingress.spec.service_ref
    return ref.name if ref is not None else ingress.metadata.labels.get(SERVICE_REF, "")


def _found_under(ingress: GlobalIngressIP) -> Iterator[str]:
    yield f"{ingress.metadata.namespace}/{ingress_service_name(ingress)}"


INGRESS = Index(GlobalIngressIP, "services-ingress", _found_under)


class ReachableBackends(Struct, frozen=True):
    """What stands behind an export as others reach it."""

    backing: ExportBackends
    waiting: bool = False
    """Whether there is something to reach and no global address leads to it yet."""


def reached(
    service: Service, pods: Sequence[EndpointSlice], snapshot: Snapshot, *, as_pods: bool
) -> ReachableBackends:
    """A Service and its pods by the addresses that lead there from other clusters."""
    own = ExportBackends(_own_addresses(service), tuple(pods))
    served = snapshot.fact(KindServed, (snapshot.local, GlobalIngressIP.kind))
    if served is None or not served.served:
        return ReachableBackends(own)
    place = f"{service.metadata.namespace}/{service.metadata.name}"
    found = snapshot.by(snapshot.local, INGRESS, place)
    allocated = [i for i in found if is_address(i.status.allocated_ip)]
    return _pods_reached(own, allocated) if as_pods else _service_reached(own, allocated)


def _own_addresses(service: Service) -> tuple[str, ...]:
    spec = service.spec
    addresses = spec.cluster_ips or (spec.cluster_ip,)
    return tuple(a for a in addresses if a and a != "None")


def _service_reached(
    own: ExportBackends, allocated: Sequence[GlobalIngressIP]
) -> ReachableBackends:
    found = [i.status.allocated_ip for i in allocated if i.spec.target == "ClusterIPService"]
    by_family = {family_of(address): address for address in sorted(found)}
    return ReachableBackends(
        replace(own, addresses=tuple(by_family.values())), waiting=not by_family
    )


def _pods_reached(own: ExportBackends, allocated: Sequence[GlobalIngressIP]) -> ReachableBackends:
    by_pod = {i.spec.pod_ref.name: i.status.allocated_ip for i in allocated if i.spec.pod_ref}
    by_address = {
        i.metadata.annotations[ENDPOINT_ADDRESS]: i.status.allocated_ip
        for i in allocated
        if ENDPOINT_ADDRESS in i.metadata.annotations
    }

    def globally(endpoint: Endpoint) -> Iterator[Endpoint]:
        pod = endpoint.target_ref.name if endpoint.target_ref is not None else ""
        local = endpoint.addresses[0] if endpoint.addresses else ""
        found = by_pod.get(pod) or by_address.get(local)
        if found:
            yield replace(endpoint, addresses=(found,))

    pods = tuple(
        replace(p, endpoints=tuple(g for e in p.endpoints or () for g in globally(e)))
        for p in own.pods
    )
    unreached = any(p.endpoints for p in own.pods) and not any(p.endpoints for p in pods)
    return ReachableBackends(ExportBackends(pods=pods), waiting=unreached)
