"""The webhooks of tenant networks, and those that protect labels and owned objects."""

from collections.abc import Iterator

from hanse.features.networks.admission import (
    TENANT_NAMESPACES,
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
from hanse.features.networks.names import (
    CNI_ARGS,
    DNS,
    NETWORK,
    READINESS,
    TENANT,
)
from hanse.features.networks.network_webhooks import NetworksHook
from hanse.features.networks.pod_webhooks import PodsHook, deny_host_network
from hanse.features.networks.policy_webhooks import PluginPoliciesHook, PoliciesHook
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

IMMUTABLE_LABELS = (TENANT, NETWORK, DNS)
IMMUTABLE_ANNOTATIONS = (CNI_ARGS, READINESS)
WORKLOADS = (
    ("apps", ("deployments", "statefulsets", "daemonsets", "replicasets")),
    ("batch", ("jobs", "cronjobs")),
    ("", ("replicationcontrollers",)),
)


class LabelsHook:
    """Denies changes of the labels that admission set on pods, Services and slices."""

    name = "networks-labels"
    rules = (
        WebhookRule(
            ("",), ("pods", "services"), ("CREATE", "UPDATE"), namespaces=TENANT_NAMESPACES
        ),
        WebhookRule(
            ("",),
            ("pods/status", "pods/ephemeralcontainers", "pods/resize", "services/status"),
            ("UPDATE",),
            namespaces=TENANT_NAMESPACES,
        ),
        WebhookRule(
            ("discovery.k8s.io",), ("endpointslices",), ("UPDATE",), namespaces=TENANT_NAMESPACES
        ),
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - the contract
        """Deny updates of immutable labels and annotations, and new objects with the owner label.

        An update may not remove the readiness gate, either. Trusted users may do all of it.
        """
        if is_trusted(review, self._feature.options):
            return Allow()
        errors = list(
            _immutable_changes(review) if review.operation == "UPDATE" else _forged_labels(review)
        )
        return Deny("; ".join(errors)) if errors else Allow()


def _immutable_changes(review: AdmissionRequest) -> Iterator[str]:
    """A message for each changed, added or removed network or owner label.

    Also for each such annotation of a pod (CNI arguments, readiness), and for a readiness gate that
    is removed.
    """
    for field, names, get_map in (
        ("labels", (*IMMUTABLE_LABELS, OWNER), labels_of),
        ("annotations", IMMUTABLE_ANNOTATIONS if review.kind == "Pod" else (), annotations_of),
    ):
        before, after = get_map(review.before), get_map(review.object)
        for name in names:
            if before.get(name) != after.get(name):
                yield (
                    f"metadata.{field}[{name}]: it was stamped when {review.name} was created "
                    "and cannot be changed; create it anew"
                )
    if _readiness_gates(review.before) - _readiness_gates(review.object):
        yield f"spec.schedulingGates: {READINESS} goes when the network has prepared a port"


def _forged_labels(review: AdmissionRequest) -> Iterator[str]:
    """Yield a message if a new object has the owner label."""
    if OWNER in labels_of(review.object):
        yield f"metadata.labels[{OWNER}]: it marks what Hanse keeps; remove it"


def _readiness_gates(pod: Wire) -> set[str]:
    """A set with gate `READINESS` if the pod has it, else empty; other gates are ignored."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return {str(g.get("name")) for g in gates} & {READINESS}


class ManagedObjectsHook:
    """Denies changes of objects that Hanse owns in tenants' namespaces."""

    name = "networks-kept"
    rules = tuple(
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

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - the contract
        """Deny changes and deletion of objects with any owner label, except by trusted users.

        The label of the object before the change counts.
        """
        if OWNER not in labels_of(review.before) or is_trusted(review, self._feature.options):
            return Allow()
        verb = "deleted" if review.operation == "DELETE" else "changed"
        return Deny(
            f"{review.kind} {review.name} is kept by Hanse for the network and cannot be {verb}; "
            "ask an administrator, or change the Network"
        )


class TemplatesHook:
    """Denies workloads whose pods would be denied."""

    name = "networks-templates"
    rules = tuple(
        WebhookRule((group,), resources, ("CREATE", "UPDATE"), namespaces=TENANT_NAMESPACES)
        for group, resources in WORKLOADS
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Allow trusted users; deny others' workloads whose pod template is not for tenants.

        May ask for a live read first.
        """
        if is_trusted(review, self._feature.options):
            return Allow()
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Check labels, annotations, network and interface of a changed pod template.

        Templates that are unchanged are allowed; raises `RequestDenied` for hostNetwork, labels of
        a network's DNS or of an owner, CNI arguments, and an unknown network or interface.
        """
        path, template = _template(review)
        before = _pod_template(review.kind, review.before)
        if template == before:
            return Allow()
        deny_host_network(template.get("spec") or {}, f"{path}.spec")
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
        membership = resolve_network(labels, review.namespace, snapshot, f"{path}.metadata.labels")
        try:
            self._feature.provider_of(membership.network).check(
                membership.network, annotations_of(template), snapshot
            )
        except InvalidInterface as error:
            raise RequestDenied(f"{path}.{error}", 422) from None
        return Allow()


def _template(review: AdmissionRequest) -> tuple[str, Wire]:
    """Field path and pod template of a workload; of a CronJob those in its jobTemplate.

    The template is empty if it has none.
    """
    is_cron_job = review.kind == "CronJob"
    path = "spec.jobTemplate.spec.template" if is_cron_job else "spec.template"
    return path, _pod_template(review.kind, review.object)


def _pod_template(kind: str, wire: Wire) -> Wire:
    """The pod template of a workload, or of a CronJob's jobTemplate; empty if it has none."""
    spec: Wire = wire.get("spec") or {}
    if kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template: Wire = spec.get("template") or {}
    return template


class NamespacesHook:
    """Denies changes of the tenant label of namespaces; a VAP does so without an agent."""

    name = "networks-namespaces"
    rules = (
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

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - the contract
        """Deny a change of a namespace's tenant label, also a new label, except by trusted users.

        A namespace that is created with the label counts as changed.
        """
        before, after = labels_of(review.before).get(TENANT), labels_of(review.object).get(TENANT)
        if before == after or is_trusted(review, self._feature.options):
            return Allow()
        return Deny(
            f"metadata.labels[{TENANT}]: only administrators say whose a namespace is; "
            "ask one, or list the namespace in your Tenant's spec.namespaces"
        )


class PeeringsHook:
    """Denies NetworkPeerings outside of tenants' namespaces."""

    name = "networks-peerings"
    rules = (WebhookRule((Network.kind.group,), ("networkpeerings",), ("CREATE", "UPDATE")),)

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny a NetworkPeering in a namespace without tenant label; may ask for a live read."""
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny a namespace that is no tenant's, by its label or else a live read.

        Raises `ReadRequired` for a read that nobody has made lately, `RequestDenied` if it failed.
        """
        if not read_tenant(review.namespace, snapshot):
            return Deny(
                f"metadata.namespace: {review.namespace} is no tenant's; "
                "create the NetworkPeering in a namespace of yours",
                422,
            )
        return Allow()


def network_hooks(feature: Networks) -> tuple[AdmissionHook, ...]:
    """The webhooks of one agent; those that allocate addresses share their reservations.

    Nothing is registered here.
    """
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
        PluginPoliciesHook(feature),
    )
