"""Pods of tenants, as they are admitted: their network, its DNS, and the wait for a port."""

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
from hanse.features.networks.lifecycle import dns_ip
from hanse.features.networks.names import CNI_ARGS, DNS, NETWORK, READINESS, TENANT
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, WebhookRule
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot

MIRROR = "kubernetes.io/config.mirror"
NODES = "system:nodes"
NDOTS = {"name": "ndots", "value": "5"}


class PodsHook:
    """Stamps tenant and network on every pod of a tenant's, and points it at its DNS."""

    name = "networks-pods"
    asks = (
        WebhookRule(
            ("",), ("pods",), ("CREATE",), namespaces=TENANT_NAMESPACES, required=True, changes=True
        ),
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        return evaluate(self._admitted, review, snapshot)

    def _admitted(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        pod = review.object
        spec: Wire = pod.get("spec") or {}
        if spec.get("hostNetwork") or _is_mirror(review):
            return Allow()
        labels, trusted = labels_of(pod), is_trusted(review, self._feature.options)
        if CNI_ARGS in annotations_of(pod) and not trusted:
            raise RequestDenied(
                f"metadata.annotations[{CNI_ARGS}]: the network's provider sets it; remove it"
            )
        at = resolve_network(labels, review.namespace, snapshot, "metadata.labels")
        if at.network.metadata.deletion_timestamp is not None:
            raise RequestDenied(f"metadata.labels[{NETWORK}]: network {at.name} is being deleted")
        if labels.get(DNS) and not trusted:
            raise RequestDenied(f"metadata.labels[{DNS}]: it marks a network's DNS; remove it")
        change: Wire = {
            "metadata": {"labels": {TENANT: at.tenant, NETWORK: at.name.network}},
        }
        change["spec"] = self._resolver(spec, at, review.namespace, snapshot)
        _merge(change, self._gated(pod, at, snapshot))
        return Allow(change)

    def _resolver(
        self, spec: Wire, at: NetworkMembership, namespace: str, snapshot: Snapshot
    ) -> Wire:
        """The resolver settings of a pod that asks for the cluster's."""
        if spec.get("dnsPolicy", "ClusterFirst") != "ClusterFirst":
            return {}
        address = at.network.status.dns_service_ip or dns_ip(at.network, snapshot)
        if not address:
            raise RequestDenied(f"network {at.name} has no DNS address yet; try again", 503)
        domain = self._feature.options.domain
        own: Wire = spec.get("dnsConfig") or {}
        searches = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain]
        options = list(own.get("options") or ())
        if not any(one.get("name") == "ndots" for one in options):
            options.append(NDOTS)
        return {
            "dnsPolicy": "None",
            "dnsConfig": {
                "nameservers": [address],
                "searches": list(dict.fromkeys([*searches, *(own.get("searches") or ())])),
                "options": options,
            },
        }

    def _gated(self, pod: Wire, at: NetworkMembership, snapshot: Snapshot) -> Wire:
        """The wait for a port, where the provider has any."""
        provider = self._feature.provider_of(at.network)
        if not provider.has_ports:
            return {}
        try:
            provider.check(at.network, annotations_of(pod), snapshot)
        except InvalidInterface as bad:
            raise RequestDenied(str(bad), 422) from None
        spec: Wire = pod.get("spec") or {}
        marked: Wire = {"metadata": {"annotations": {READINESS: "false"}}}
        if spec.get("nodeName"):
            return marked  # an API server refuses a gate on a pod that has its node
        gates = [g for g in spec.get("schedulingGates") or () if g.get("name") != READINESS]
        return {**marked, "spec": {"schedulingGates": [*gates, {"name": READINESS}]}}


def _is_mirror(review: AdmissionRequest) -> bool:
    """Whether a node shows a pod of its own; others cannot say so of theirs."""
    return MIRROR in annotations_of(review.object) and NODES in review.groups


def _merge(change: Wire, more: Wire) -> None:
    for part, fields in more.items():
        target = change.setdefault(part, {})
        for name, value in fields.items():
            if isinstance(value, dict):
                target.setdefault(name, {}).update(value)
            else:
                target[name] = value
