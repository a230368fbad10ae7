"""Admission of Services and their endpoints: network labels and addresses."""

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
from hanse.features.networks.lookups import PODS_BY_ADDRESS, apiserver_endpoints
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.features.networks.ranges import parse_range, platform_ranges
from hanse.features.networks.service_addresses import ServiceAddresses, needs_address
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, WebhookRule
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot


class ServicesHook:
    """Labels Services of tenants, and allocates addresses of their network."""

    name = "networks-services"
    rules = (
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
        """Set the network and address of a Service, or deny it.

        An update is only looked at if it needs an address or adds external IPs; others are allowed.
        """
        if review.operation == "UPDATE" and not (
            needs_address(review) or _added_external_ips(review)
        ):
            return Allow()
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Set the network labels, and allocate an address if the Service needs one.

        Own writes are allowed unchanged. Raises `RequestDenied` if the network is missing or being
        deleted, for added external IPs unless by trusted users, and if no address can be had;
        `ReadRequired` if an answer is needed first.
        """
        labels = labels_of(review.object)
        if is_own_write(review, self._feature.options):
            return Allow()
        membership = resolve_network(labels, review.namespace, snapshot, "metadata.labels")
        if membership.network.metadata.deletion_timestamp is not None:
            raise RequestDenied(
                f"metadata.labels[{NETWORK}]: network {membership.name} is being deleted"
            )
        if not is_trusted(review, self._feature.options):
            _deny_external_ips(review)
        change: Wire = {
            "metadata": {"labels": {TENANT: membership.tenant, NETWORK: membership.name.network}}
        }
        if not needs_address(review):
            return Allow(change)
        fields = self._addresses.allocate_for_tenant(review, membership, snapshot)
        return Allow({**change, "spec": fields} if fields else change)


def _added_external_ips(review: AdmissionRequest) -> list[str]:
    """The external IPs of the new Service that the old one lacks; all for a creation."""
    before = (review.before.get("spec") or {}).get("externalIPs") or ()
    after = (review.object.get("spec") or {}).get("externalIPs") or ()
    return [str(text) for text in after if text not in before]


def _deny_external_ips(review: AdmissionRequest) -> None:
    """Raise `RequestDenied` for added external IPs: nodes would send others' traffic there."""
    if added := _added_external_ips(review):
        raise RequestDenied(
            f"spec.externalIPs: {added[0][:50]}: tenants cannot take traffic of the cluster to "
            "themselves; use type LoadBalancer, or ask an administrator"
        )


class ClusterServicesHook:
    """Allocates addresses for Services outside of tenants' namespaces."""

    name = "networks-addresses"
    rules = (
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
        """Allocate an address from the cluster's range if the Service needs one; else allow it.

        Denies it if none is free, or it requests one in a network's range.
        """
        if not needs_address(review):
            return Allow()
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Allow the Service with the addresses that are allocated from the cluster's range, if any.

        Raises `RequestDenied` if none is free, or the requested one is in a network's range.
        """
        fields = self._addresses.allocate_for_cluster(review, snapshot)
        return Allow({"spec": fields} if fields else {})


class SlicesHook:
    """Labels EndpointSlices and Endpoints, and denies addresses of other networks' pods."""

    name = "networks-slices"
    rules = tuple(
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
        """Set the network labels of endpoints, or deny those that are not the network's.

        May ask for a live read first.
        """
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Set the network labels, by default those of the Service that the endpoints belong to.

        Own writes are allowed unchanged. Raises `RequestDenied` for another network than the
        Service's, and for added addresses of other networks' pods or the platform by users who are
        not trusted.
        """
        labels = labels_of(review.object)
        if is_own_write(review, self._feature.options):
            return Allow()
        service_name = review.name if review.kind == "Endpoints" else labels.get(KUBE_SERVICE, "")
        service = snapshot.get(snapshot.local, Service, service_name, review.namespace)
        desired = dict(labels)
        if service is not None and NETWORK in service.metadata.labels:
            service_network = service.metadata.labels[NETWORK]
            if desired.setdefault(NETWORK, service_network) != service_network:
                raise RequestDenied(
                    f"metadata.labels[{NETWORK}]: Service {service.metadata.name} is in network "
                    f"{service_network}; remove the label"
                )
        membership = resolve_network(desired, review.namespace, snapshot, "metadata.labels")
        if not is_trusted(review, self._feature.options):
            _deny_foreign_endpoints(review, membership.name, snapshot)
        network_labels = {TENANT: membership.tenant, NETWORK: membership.name.network}
        return Allow({"metadata": {"labels": network_labels}})


def _deny_foreign_endpoints(
    review: AdmissionRequest, name: NetworkName, snapshot: Snapshot
) -> None:
    """Raise `RequestDenied` for added addresses of pods of other networks, or of the platform.

    Who asks the Service may reach more than its tenant: the API server for one, as a proxy.
    """
    before = {text for _, text in _addresses(review.before)}
    for field, text in _addresses(review.object):
        if text in before:
            continue
        if is_foreign_pod_address(text, name, snapshot):
            raise RequestDenied(
                f"{field}: {text} is a pod of another network than {name}; remove it"
            )
        if owner := _platform_owner(text, snapshot):
            raise RequestDenied(f"{field}: {text} is of {owner}; remove it")


def _platform_owner(text: str, snapshot: Snapshot) -> str:
    """Whose an address inside the cluster is: API server, node, or a range of pods or Services.

    Empty for addresses of known pods, for those outside, and for what is no address.
    """
    address = parse_address(text)
    if address is None or any(snapshot.by(snapshot.local, PODS_BY_ADDRESS, str(address))):
        return ""
    if str(address) in {host for host, _ in apiserver_endpoints(snapshot)}:
        return "the API server"
    for owner, cidr in platform_ranges(snapshot):
        range_ = parse_range(cidr)
        if range_ is not None and is_in_ranges(address, (range_,)):
            return owner
    return ""


def _addresses(wire: Wire) -> Iterator[tuple[str, str]]:
    """Field path and text of each address of an EndpointSlice or Endpoints."""
    for number, endpoint in enumerate(wire.get("endpoints") or ()):
        for text in endpoint.get("addresses") or ():
            yield f"endpoints[{number}].addresses", str(text)
    for number, subset in enumerate(wire.get("subsets") or ()):
        for part in ("addresses", "notReadyAddresses"):
            for address_entry in subset.get(part) or ():
                yield f"subsets[{number}].{part}", str(address_entry.get("ip", ""))


def is_foreign_pod_address(text: str, name: NetworkName, snapshot: Snapshot) -> bool:
    """Whether a known pod with that address lacks the labels of this network.

    False if no known pod has it, or the text is no address.
    """
    pods = snapshot.by(snapshot.local, PODS_BY_ADDRESS, str(parse_address(text) or ""))
    own = (name.tenant, name.network)
    return any((p.metadata.labels.get(TENANT), p.metadata.labels.get(NETWORK)) != own for p in pods)
