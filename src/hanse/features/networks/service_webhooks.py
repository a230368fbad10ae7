"""Services, as they are admitted: their network, and an address of the range they belong to."""

from collections.abc import Iterator

from hanse.features.networks.addresses import is_in_ranges, parse_address
from hanse.features.networks.admission import (
    OTHER_NAMESPACES,
    TENANT_NAMESPACES,
    RequestDenied,
    evaluate,
    is_own_write,
    is_trusted,
    labels_of,
    resolve_network,
)
from hanse.features.networks.feature import Networks
from hanse.features.networks.lookups import PODS_BY_ADDRESS
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.features.networks.ranges import parse_range
from hanse.features.networks.service_addresses import ServiceAddresses, needs_address
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, WebhookRule
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot


class ServicesHook:
    """Stamps Services of tenants, and gives each an address of its own network."""

    name = "networks-services"
    asks = (
        WebhookRule(
            ("",),
            ("services",),
            ("CREATE", "UPDATE"),
            namespaces=TENANT_NAMESPACES,
            required=True,
            changes=True,
        ),
    )

    def __init__(self, feature: Networks, addresses: ServiceAddresses) -> None:
        self._feature = feature
        self._addresses = addresses

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        if review.operation == "UPDATE" and not (needs_address(review) or _outer(review)):
            return Allow()
        return evaluate(self._admitted, review, snapshot)

    def _admitted(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        labels = labels_of(review.object)
        if is_own_write(review, self._feature.options):
            return Allow()
        at = resolve_network(labels, review.namespace, snapshot, "metadata.labels")
        if at.network.metadata.deletion_timestamp is not None:
            raise RequestDenied(f"metadata.labels[{NETWORK}]: network {at.name} is being deleted")
        if not is_trusted(review, self._feature.options):
            _refuse_others_addresses(review, at.name, snapshot)
        change: Wire = {"metadata": {"labels": {TENANT: at.tenant, NETWORK: at.name.network}}}
        if not needs_address(review):
            return Allow(change)
        given = self._addresses.allocate_for_tenant(review, at, snapshot)
        return Allow({**change, "spec": given} if given else change)


def _outer(review: AdmissionRequest) -> list[str]:
    """Addresses from outside that a Service wants to be reached at and was not before."""
    before = (review.before.get("spec") or {}).get("externalIPs") or ()
    after = (review.object.get("spec") or {}).get("externalIPs") or ()
    return [str(text) for text in after if text not in before]


def _refuse_others_addresses(
    review: AdmissionRequest, name: NetworkName, snapshot: Snapshot
) -> None:
    """A Service that could be reached at another's address would get what is meant for it."""
    for text in _outer(review):
        address = parse_address(text)
        taken = address is not None and any(
            is_in_ranges(address, (range_,))
            for cidr in snapshot.all(snapshot.local, ServiceCIDR)
            for told in cidr.spec.cidrs
            if (range_ := parse_range(told)) is not None
        )
        if taken or is_foreign(text, name, snapshot):
            raise RequestDenied(
                f"spec.externalIPs: {text[:50]} is an address of the cluster or of another "
                "network; remove it"
            )


class ClusterServicesHook:
    """Gives every other Service an address that is no network's."""

    name = "networks-addresses"
    asks = (
        WebhookRule(
            ("",),
            ("services",),
            ("CREATE", "UPDATE"),
            namespaces=OTHER_NAMESPACES,
            required=False,
            changes=True,
        ),
    )

    def __init__(self, addresses: ServiceAddresses) -> None:
        self._addresses = addresses

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        if not needs_address(review):
            return Allow()
        return evaluate(self._admitted, review, snapshot)

    def _admitted(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        given = self._addresses.allocate_for_cluster(review, snapshot)
        return Allow({"spec": given} if given else {})


class SlicesHook:
    """Endpoints written by hand get their Service's network, and lead nowhere else."""

    name = "networks-slices"
    asks = tuple(
        WebhookRule(
            (group,), resources, ("CREATE", "UPDATE"), namespaces=TENANT_NAMESPACES, changes=True
        )
        for group, resources in (
            ("discovery.k8s.io", ("endpointslices",)),
            ("", ("endpoints",)),  # which the cluster makes slices of
        )
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        return evaluate(self._admitted, review, snapshot)

    def _admitted(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        labels = labels_of(review.object)
        if is_own_write(review, self._feature.options):
            return Allow()
        called = review.name if review.kind == "Endpoints" else labels.get(KUBE_SERVICE, "")
        service = snapshot.get(snapshot.local, Service, called, review.namespace)
        told = dict(labels)
        if service is not None and NETWORK in service.metadata.labels:
            wanted = service.metadata.labels[NETWORK]
            if told.setdefault(NETWORK, wanted) != wanted:
                raise RequestDenied(
                    f"metadata.labels[{NETWORK}]: Service {service.metadata.name} is in network "
                    f"{wanted}; remove the label"
                )
        at = resolve_network(told, review.namespace, snapshot, "metadata.labels")
        if not is_trusted(review, self._feature.options):
            _lead_home(review, at.name, snapshot)
        stamp = {TENANT: at.tenant, NETWORK: at.name.network}
        return Allow({"metadata": {"labels": stamp}})


def _lead_home(review: AdmissionRequest, name: NetworkName, snapshot: Snapshot) -> None:
    """Refuse endpoints that are pods of another network."""
    for field, text in _addresses(review.object):
        if is_foreign(text, name, snapshot):
            raise RequestDenied(
                f"{field}: {text} is a pod of another network than {name}; remove it"
            )


def _addresses(wire: Wire) -> Iterator[tuple[str, str]]:
    for number, endpoint in enumerate(wire.get("endpoints") or ()):
        for text in endpoint.get("addresses") or ():
            yield f"endpoints[{number}].addresses", str(text)
    for number, subset in enumerate(wire.get("subsets") or ()):
        for part in ("addresses", "notReadyAddresses"):
            for one in subset.get(part) or ():
                yield f"subsets[{number}].{part}", str(one.get("ip", ""))


def is_foreign(text: str, name: NetworkName, snapshot: Snapshot) -> bool:
    """Whether an address is known to be a pod's of another network."""
    pods = snapshot.by(snapshot.local, PODS_BY_ADDRESS, str(parse_address(text) or ""))
    own = (name.tenant, name.network)
    return any((p.metadata.labels.get(TENANT), p.metadata.labels.get(NETWORK)) != own for p in pods)
