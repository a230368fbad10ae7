"""Every admission decision about tenant networks."""

from collections.abc import Iterator

import msgspec

from hanse.features.networks.admission import (
    TENANT_NAMESPACES,
    ReadRequired,
    RequestDenied,
    annotations_of,
    evaluate,
    is_trusted,
    labels_of,
    read_tenant,
    resolve_network,
)
from hanse.features.networks.admission_policies import MANAGED_RESOURCES
from hanse.features.networks.feature import Networks
from hanse.features.networks.interfaces import InvalidInterface
from hanse.features.networks.lookups import ipam_mode
from hanse.features.networks.names import (
    CNI_ARGS,
    DNS,
    NETWORK,
    READINESS,
    TENANT,
    parse_network_name,
)
from hanse.features.networks.pod_webhooks import PodsHook
from hanse.features.networks.policy_webhooks import PoliciesHook
from hanse.features.networks.ranges import validate_ranges
from hanse.features.networks.service_addresses import ServiceAddresses
from hanse.features.networks.service_webhooks import ClusterServicesHook, ServicesHook, SlicesHook
from hanse.model.admission import (
    AdmissionDecision,
    AdmissionHook,
    AdmissionRequest,
    Allow,
    Deny,
    WebhookRule,
)
from hanse.model.kinds.networks import Network
from hanse.model.objects import Wire
from hanse.model.ownership import OWNER
from hanse.model.snapshot import Snapshot

KEPT_LABELS = (TENANT, NETWORK, DNS)
KEPT_ANNOTATIONS = (CNI_ARGS, READINESS)
WORKLOADS = (
    ("apps", ("deployments", "statefulsets", "daemonsets", "replicasets")),
    ("batch", ("jobs", "cronjobs")),
    ("", ("replicationcontrollers",)),
)


class LabelsHook:
    """The labels of pods, Services and slices stay as they were stamped."""

    name = "networks-labels"
    asks = (
        WebhookRule(
            ("",), ("pods", "services"), ("CREATE", "UPDATE"), namespaces=TENANT_NAMESPACES
        ),
        WebhookRule(
            ("discovery.k8s.io",), ("endpointslices",), ("UPDATE",), namespaces=TENANT_NAMESPACES
        ),
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - a hook's
        if is_trusted(review, self._feature.options):
            return Allow()
        faults = list(_changes(review) if review.operation == "UPDATE" else _forgeries(review))
        return Deny("; ".join(faults)) if faults else Allow()


def _changes(review: AdmissionRequest) -> Iterator[str]:
    """What was changed that cannot be."""
    for field, names, of in (
        ("labels", (*KEPT_LABELS, OWNER), labels_of),
        ("annotations", KEPT_ANNOTATIONS if review.kind == "Pod" else (), annotations_of),
    ):
        before, after = of(review.before), of(review.object)
        for name in names:
            if before.get(name) != after.get(name):
                yield (
                    f"metadata.{field}[{name}]: it was stamped when {review.name} was created "
                    "and cannot be changed; create it anew"
                )
    if _gates(review.before) - _gates(review.object):
        yield f"spec.schedulingGates: {READINESS} goes when the network has prepared a port"


def _forgeries(review: AdmissionRequest) -> Iterator[str]:
    if OWNER in labels_of(review.object):
        yield f"metadata.labels[{OWNER}]: it marks what Hanse keeps; remove it"


def _gates(pod: Wire) -> set[str]:
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return {str(g.get("name")) for g in gates} & {READINESS}


class ManagedObjectsHook:
    """What Hanse keeps in a tenant's namespaces is not the tenant's to change."""

    name = "networks-kept"
    asks = tuple(
        WebhookRule(
            (group,),
            resources,
            ("UPDATE", "DELETE"),
            namespaces=TENANT_NAMESPACES,
            objects={"matchExpressions": [{"key": OWNER, "operator": "Exists"}]},
        )
        for group, resources in MANAGED_RESOURCES
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - a hook's
        if OWNER not in labels_of(review.before) or is_trusted(review, self._feature.options):
            return Allow()
        verb = "deleted" if review.operation == "DELETE" else "changed"
        return Deny(
            f"{review.kind} {review.name} is kept by Hanse for the network and cannot be {verb}; "
            "ask an administrator, or change the Network"
        )


class TemplatesHook:
    """Workloads whose pods would be refused are refused themselves."""

    name = "networks-templates"
    asks = tuple(
        WebhookRule((group,), resources, ("CREATE", "UPDATE"), namespaces=TENANT_NAMESPACES)
        for group, resources in WORKLOADS
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        if is_trusted(review, self._feature.options):
            return Allow()
        return evaluate(self._admitted, review, snapshot)

    def _admitted(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        path, template = _template(review)
        before = _template_in(review.kind, review.before)
        if (template.get("spec") or {}).get("hostNetwork") or template == before:
            return Allow()
        labels = labels_of(template)
        for name in (DNS, OWNER):
            if name in labels:
                raise RequestDenied(
                    f"{path}.metadata.labels[{name}]: it is not for tenants; remove it"
                )
        if CNI_ARGS in annotations_of(template):
            raise RequestDenied(
                f"{path}.metadata.annotations[{CNI_ARGS}]: the provider sets it; remove it"
            )
        at = resolve_network(labels, review.namespace, snapshot, f"{path}.metadata.labels")
        try:
            self._feature.provider_of(at.network).check(
                at.network, annotations_of(template), snapshot
            )
        except InvalidInterface as bad:
            raise RequestDenied(f"{path}.{bad}", 422) from None
        return Allow()


def _template(review: AdmissionRequest) -> tuple[str, Wire]:
    deep = review.kind == "CronJob"
    path = "spec.jobTemplate.spec.template" if deep else "spec.template"
    return path, _template_in(review.kind, review.object)


def _template_in(kind: str, wire: Wire) -> Wire:
    spec: Wire = wire.get("spec") or {}
    if kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template: Wire = spec.get("template") or {}
    return template


class NamespacesHook:
    """Only Hanse and administrators say whose a namespace is; a VAP says so where this is down."""

    name = "networks-namespaces"
    asks = (
        WebhookRule(
            ("",),
            ("namespaces",),
            ("CREATE", "UPDATE"),
            objects=TENANT_NAMESPACES,
            required=False,
        ),
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - a hook's
        before, after = labels_of(review.before).get(TENANT), labels_of(review.object).get(TENANT)
        if before == after or is_trusted(review, self._feature.options):
            return Allow()
        return Deny(
            f"metadata.labels[{TENANT}]: only administrators say whose a namespace is; "
            "ask one, or list the namespace in your Tenant's spec.namespaces"
        )


class NetworksHook:
    """Networks that could never be provisioned are refused when they are written."""

    name = "networks-networks"
    asks = (WebhookRule((Network.kind.group,), ("networks",), ("CREATE", "UPDATE")),)

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        try:
            network = msgspec.convert(review.object, Network, strict=False)
        except msgspec.ValidationError as error:
            return Deny(f"it is not a Network: {error}", 422)
        if network.metadata.deletion_timestamp is not None:
            return Allow()
        before = review.before.get("spec") or {}
        if review.operation == "UPDATE" and before == review.object.get("spec"):
            return Allow()
        faults = list(validate_network(network, before, snapshot))
        return Deny("; ".join(faults), 422) if faults else Allow()


class PeeringsHook:
    """Consent is given from a namespace of the tenant whose network it is."""

    name = "networks-peerings"
    asks = (WebhookRule((Network.kind.group,), ("networkpeerings",), ("CREATE", "UPDATE")),)

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        try:
            tenant = read_tenant(review.namespace, snapshot)
        except ReadRequired as missing:
            return missing.ask
        if not tenant:
            return Deny(
                f"metadata.namespace: {review.namespace} is no tenant's; "
                "create the NetworkPeering in a namespace of yours",
                422,
            )
        return Allow()


_IMMUTABLE = ("type", "tenant")


def validate_network(network: Network, before: Wire, snapshot: Snapshot) -> Iterator[str]:
    """Everything that keeps a network from ever being Ready."""
    name = parse_network_name(network.metadata.name)
    for field in _IMMUTABLE:
        if before and before.get(field) != getattr(network.spec, field):
            yield f"spec.{field}: it cannot be changed; create another network"
    if not network.spec.type:
        yield "spec.type: it is needed; flat, vpc or a provider's name"
    if not name.network or network.spec.tenant != name.tenant:
        yield (
            f"spec.tenant: {network.spec.tenant!r} does not agree with the name "
            f"{network.metadata.name}; name it <tenant>.<network>, such as acme.default"
        )
    if network.spec.type == "vpc" and not network.spec.vpc_id:
        yield "spec.vpcID: it is needed for type vpc; set it"
    if ipam_mode(network) == "Arktos" and not network.spec.service.cidrs:
        yield "spec.service.cidrs: ipam Arktos needs at least one range; add one"
    yield from validate_ranges(network, snapshot)


def network_hooks(feature: Networks) -> tuple[AdmissionHook, ...]:
    """The hooks of one agent; those that give out addresses share what they promised."""
    addresses = ServiceAddresses()
    return (
        PodsHook(feature),
        ServicesHook(feature, addresses),
        ClusterServicesHook(addresses),
        SlicesHook(feature),
        LabelsHook(feature),
        ManagedObjectsHook(feature),
        TemplatesHook(feature),
        NamespacesHook(feature),
        NetworksHook(feature),
        PeeringsHook(),
        PoliciesHook(feature),
    )
