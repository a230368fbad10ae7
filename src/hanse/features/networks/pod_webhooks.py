"""Admission of tenants' pods: network labels, DNS settings and the gate for a port."""

from hanse.features.networks.admission import (
    TENANT_NAMESPACES,
    NetworkMembership,
    RequestDenied,
    annotations_of,
    evaluate,
    is_trusted,
    labels_of,
    resolve_network,
)
from hanse.features.networks.feature import Networks
from hanse.features.networks.interfaces import InvalidInterface
from hanse.features.networks.lifecycle import dns_cluster_ip
from hanse.features.networks.names import CNI_ARGS, DNS, MIRROR, NETWORK, READINESS, TENANT
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, WebhookRule
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot

NODES_GROUP = "system:nodes"
API_SERVER_HOST = {"name": "KUBERNETES_SERVICE_HOST", "value": "kubernetes.default.svc"}
NDOTS = {"name": "ndots", "value": "5"}


class PodsHook:
    """Labels pods with tenant and network, and configures the network's DNS."""

    name = "networks-pods"
    rules = (
        WebhookRule(
            ("",), ("pods",), ("CREATE",), namespaces=TENANT_NAMESPACES, required=True, changes=True
        ),
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Set the network labels, DNS settings and gate of a tenant's new pod, or deny it."""
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Set labels, DNS settings and scheduling gate of a new pod, or raise `RequestDenied`.

        That is for hostNetwork, whoever creates it, a network that is missing, being deleted or
        without DNS address, an invalid interface, and, unless by trusted users, for CNI arguments
        and the label of a network's DNS. Mirror pods of kubelets are allowed unchanged.
        """
        pod = review.object
        spec: Wire = pod.get("spec") or {}
        if _is_mirror(review):
            return Allow()
        deny_host_network(spec, "spec")
        labels, trusted = labels_of(pod), is_trusted(review, self._feature.options)
        if CNI_ARGS in annotations_of(pod) and not trusted:
            raise RequestDenied(
                f"metadata.annotations[{CNI_ARGS}]: the network's provider sets it; remove it"
            )
        membership = resolve_network(labels, review.namespace, snapshot, "metadata.labels")
        if membership.network.metadata.deletion_timestamp is not None:
            raise RequestDenied(
                f"metadata.labels[{NETWORK}]: network {membership.name} is being deleted"
            )
        if labels.get(DNS) and not trusted:
            raise RequestDenied(f"metadata.labels[{DNS}]: it marks a network's DNS; remove it")
        change: Wire = {
            "metadata": {"labels": {TENANT: membership.tenant, NETWORK: membership.name.network}},
        }
        change["spec"] = self._dns_settings(spec, membership, review.namespace, snapshot)
        _merge(change, self._scheduling_gate(pod, membership, snapshot))
        return Allow(change)

    def _dns_settings(
        self, spec: Wire, membership: NetworkMembership, namespace: str, snapshot: Snapshot
    ) -> Wire:
        """The spec fields with the network's DNS for a pod with policy ClusterFirst or none.

        The pod's own searches and options stay beside them, and its containers get the API server
        by name. Empty for other policies; raises `RequestDenied` (503) while the DNS has no
        address.
        """
        if spec.get("dnsPolicy", "ClusterFirst") != "ClusterFirst":
            return {}
        address = membership.network.status.dns_service_ip or dns_cluster_ip(
            membership.network, snapshot
        )
        if not address:
            raise RequestDenied(f"network {membership.name} has no DNS address yet; try again", 503)
        domain = self._feature.options.domain
        own: Wire = spec.get("dnsConfig") or {}
        searches = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain]
        options = list(own.get("options") or ())
        if not any(option.get("name") == "ndots" for option in options):
            options.append(NDOTS)
        return {
            **_api_server_by_name(spec),
            "dnsPolicy": "None",
            "dnsConfig": {
                "nameservers": [address],
                "searches": list(dict.fromkeys([*searches, *(own.get("searches") or ())])),
                "options": options,
            },
        }

    def _scheduling_gate(
        self, pod: Wire, membership: NetworkMembership, snapshot: Snapshot
    ) -> Wire:
        """The patch with the annotation and the scheduling gate by which a pod waits for its port.

        Other gates stay. Empty if the provider has no ports. Raises `RequestDenied` for an
        interface that the provider refuses (422), or a pod with a nodeName.
        """
        provider = self._feature.provider_of(membership.network)
        if not provider.has_ports:
            return {}
        try:
            provider.check(membership.network, annotations_of(pod), snapshot)
        except InvalidInterface as error:
            raise RequestDenied(str(error), 422) from None
        spec: Wire = pod.get("spec") or {}
        annotated: Wire = {"metadata": {"annotations": {READINESS: "false"}}}
        if spec.get("nodeName"):  # the API server refuses a gate on a pod with a node
            raise RequestDenied(
                f"spec.nodeName: pods of network {membership.name} wait for a port before they get "
                "a node; remove it, and use a nodeSelector"
            )
        gates = [g for g in spec.get("schedulingGates") or () if g.get("name") != READINESS]
        return {**annotated, "spec": {"schedulingGates": [*gates, {"name": READINESS}]}}


def _api_server_by_name(spec: Wire) -> Wire:
    """The containers of a spec with the variable by which they find the API server by its name.

    Also initContainers; empty lists are left out. The name is the network's alias in its DNS, at an
    address for which API servers have no certificate.
    """
    return {
        field: [_with_variable(container) for container in spec[field]]
        for field in ("containers", "initContainers")
        if spec.get(field)
    }


def _with_variable(container: Wire) -> Wire:
    """A container with KUBERNETES_SERVICE_HOST; one that sets this itself stays as it is."""
    variables = container.get("env") or []
    if any(one.get("name") == API_SERVER_HOST["name"] for one in variables):
        return container
    return {**container, "env": [*variables, API_SERVER_HOST]}


def deny_host_network(spec: Wire, field: str) -> None:
    """Raise `RequestDenied` for a pod spec with hostNetwork; `field` is its path.

    By its address such a pod could not be told from its node.
    """
    if spec.get("hostNetwork"):
        raise RequestDenied(
            f"{field}.hostNetwork: pods of tenants have an address of their own; remove it"
        )


def _is_mirror(review: AdmissionRequest) -> bool:
    """Whether a pod has the mirror annotation, and its creator is in group system:nodes."""
    return MIRROR in annotations_of(review.object) and NODES_GROUP in review.groups


def _merge(change: Wire, more: Wire) -> None:
    """Merge the patch `more` into the patch `change`, in place, two levels deep.

    Values of `more` win; lists and what is deeper are replaced.
    """
    for part, fields in more.items():
        target = change.setdefault(part, {})
        for name, value in fields.items():
            if isinstance(value, dict):
                target.setdefault(name, {}).update(value)
            else:
                target[name] = value
