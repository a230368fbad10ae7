"""Whether this cluster takes an object that others submitted, by its AcceptancePolicy."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import assert_never

from msgspec import Struct

from hanse.model.kinds.acceptance import (
    DEFAULT_POLICY,
    AcceptancePolicy,
    AcceptancePolicySpec,
    NamespaceAcceptance,
    WorkloadAcceptance,
)
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.core import Service, ServiceAccount
from hanse.model.kinds.federation import SYSTEM
from hanse.model.kinds.gslb import NAMESPACE as AVI_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.pod_references import Reference, claim_references, references
from hanse.model.pod_security import violations
from hanse.model.selectors import selects
from hanse.model.snapshot import Snapshot

BROKER_ORIGIN = "broker"
"""The origin of what people submit at the broker."""

CREATED_BY = "hanse.dev/created-by"
"""Annotation of a namespace that Hanse created for a set."""

_OWN_NAMESPACES = ("hanse-*", SYSTEM, AVI_NAMESPACE)
_CONTROLLER_NAMESPACES = ("*-system", "*-operator", "cert-manager", "ingress-nginx", "argocd")
RESERVED_NAMESPACES = ("kube-*", "openshift*", *_OWN_NAMESPACES, *_CONTROLLER_NAMESPACES)
"""Namespaces that never take workloads from others, whatever their labels."""
_SYSTEM_PRIORITY = "system-"


class Accepted(Struct, frozen=True):
    """The object is taken."""


class Refused(Struct, frozen=True):
    """The object is not taken."""

    field: str
    """The field of the object, or of the AcceptancePolicy, that decides."""
    reason: str

    def __str__(self) -> str:
        """`field: reason`."""
        return f"{self.field}: {self.reason}"


Judgement = Accepted | Refused


class NamespaceFacts(Struct, frozen=True):
    """A namespace of this cluster that exists."""

    labels: Mapping[str, str] = {}
    created_by_us: bool = False


class Workload(Struct, frozen=True):
    """A StatefulSet that others submitted, with what comes with it."""

    namespace: str
    spec: StatefulSetSpec
    found: NamespaceFacts | None = NamespaceFacts()
    """The namespace here; None if it does not exist."""
    service: Service | None = None
    """The governing Service that comes with it."""
    carried: frozenset[tuple[str, str]] = frozenset()
    """Kind and name of the other objects that come with it."""
    path: str = "spec"
    """Where its spec stands in the object that people wrote."""
    reserved: tuple[str, ...] = ()
    """More namespaces that never take workloads."""


class ImportedService(Struct, frozen=True):
    """A Service of others: its import, its endpoints, or a federated Service."""

    namespace: str


class ReplicatedPolicy(Struct, frozen=True):
    """A network policy of others; without a namespace it is one of the whole cluster."""

    namespace: str = ""


Received = Workload | ImportedService | ReplicatedPolicy


def accepted(policy: AcceptancePolicySpec, received: Received, origin: str) -> Judgement:
    """`Accepted`, or the first `Refused`, for an object of others under a cluster's policy.

    The origin counts for workloads alone; others are refused by excluded namespaces only.
    """
    match received:
        case Workload():
            refusals = _workload_refusals(policy.workloads, received, origin)
            return next(refusals, Accepted())
        case ImportedService(namespace):
            return _judge_namespace(policy.services, namespace, "services.exclude")
        case ReplicatedPolicy(namespace):
            return _judge_namespace(policy.policies, namespace, "policies.exclude")
        case _:
            assert_never(received)


def read_policy(where: ClusterId, snapshot: Snapshot) -> AcceptancePolicySpec | None:
    """The spec of a cluster's AcceptancePolicy DEFAULT_POLICY, or the defaults if it has none.

    None until it is known whether there is one. Of a policy that cannot be decoded the last version
    that could counts, or the defaults.
    """
    if not snapshot.listed_or_unserved(where, AcceptancePolicy):
        return None
    found = snapshot.get(where, AcceptancePolicy, DEFAULT_POLICY)
    return found.spec if found is not None else AcceptancePolicySpec()


def matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a whole name matches a shell pattern, in which `*` stands for any characters."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _judge_namespace(rules: NamespaceAcceptance, namespace: str, field: str) -> Judgement:
    """`Refused` for a namespace that the rules exclude; an empty one is accepted."""
    if namespace and matches_any(namespace, rules.exclude):
        return Refused(field, f"nothing of others is taken in namespace {namespace}")
    return Accepted()


def _workload_refusals(
    rules: WorkloadAcceptance, received: Workload, origin: str
) -> Iterator[Refused]:
    """Every reason why a workload is not taken, the most general first; nothing if it is taken.

    `origin` is BROKER_ORIGIN, or the id of the cluster that hosts the set; empty if it is unknown.
    """
    if origin not in rules.origins:
        yield Refused("workloads.origins", f"sets of {origin or 'an unknown origin'} are not taken")
    yield from _namespace_refusals(rules, received)
    yield from _kind_refusals(rules, received)
    template, path = received.spec.template, received.path
    for violation in violations(template, rules.pod_security, f"{path}.template"):
        reason = f"{violation.reason} by pod security level {rules.pod_security}"
        yield Refused(violation.field, reason)
    yield from _reference_refusals(rules, received)
    yield from _priority_refusals(received)
    if received.service is not None:
        yield from _service_refusals(received.service)


def _namespace_refusals(rules: WorkloadAcceptance, received: Workload) -> Iterator[Refused]:
    """One refusal at most: a reserved namespace, a missing one, or one that is not selected.

    A missing one is taken if the policy creates namespaces; one that Hanse created need not be
    selected.
    """
    name = received.namespace
    if matches_any(name, (*RESERVED_NAMESPACES, *received.reserved)):
        yield Refused("metadata.namespace", f"namespace {name} never takes workloads of others")
    elif received.found is None:
        if not rules.create_namespaces:
            reason = f"there is no namespace {name}, and none is created"
            yield Refused("workloads.createNamespaces", reason)
    elif not received.found.created_by_us and not selects(rules.namespaces, received.found.labels):
        yield Refused("workloads.namespaces", _unselected_reason(rules, name))


def _unselected_reason(rules: WorkloadAcceptance, name: str) -> str:
    """Why a namespace is not selected, with the command that labels it so that it is.

    Without a command if the selector has expressions or no labels.
    """
    labels = [f"{key}={value}" for key, value in sorted(rules.namespaces.match_labels.items())]
    if rules.namespaces.match_expressions or not labels:
        return f"namespace {name} is not selected"
    command = f"kubectl label namespace {name} {' '.join(labels)}"
    return f"namespace {name} does not take workloads of others: `{command}`"


def _kind_refusals(rules: WorkloadAcceptance, received: Workload) -> Iterator[Refused]:
    """A refusal for each kind, sorted, of the workload's objects that the policy does not list.

    The objects are the StatefulSet, those carried with it but ServiceAccounts, and the governing
    Service.
    """
    kinds = {StatefulSet.kind.name, *(kind for kind, _ in received.carried)}
    kinds.discard(ServiceAccount.kind.name)
    if received.service is not None:
        kinds.add(Service.kind.name)
    for kind in sorted(kinds - set(rules.kinds)):
        yield Refused("workloads.kinds", f"objects of kind {kind} are not taken")


def _reference_refusals(rules: WorkloadAcceptance, received: Workload) -> Iterator[Refused]:
    """A refusal for each object referred to that did not come with the workload and is not listed.

    A template that names no ServiceAccount refers to `default`.
    """
    spec, path = received.spec, received.path
    found = (
        *references(spec.template, f"{path}.template"),
        *claim_references(spec.volume_claim_templates, f"{path}.volumeClaimTemplates"),
    )
    if not any(each.kind == "ServiceAccount" for each in found):
        account = f"{path}.template.spec.serviceAccountName"
        found = (Reference(account, "ServiceAccount", "default"), *found)
    for each in found:
        if (each.kind, each.name) not in received.carried and not _is_listed(rules, each):
            yield Refused(each.field, _reference_reason(each))


def _is_listed(rules: WorkloadAcceptance, reference: Reference) -> bool:
    """Whether a pattern that the policy has for this kind matches the name; never for `Unknown`."""
    match reference.kind:
        case "ServiceAccount":
            return matches_any(reference.name, rules.service_accounts)
        case "Secret":
            return matches_any(reference.name, rules.secrets)
        case "ConfigMap":
            return matches_any(reference.name, rules.config_maps)
        case "PersistentVolumeClaim":
            return matches_any(reference.name, rules.claims)
        case "Unknown":
            return False
        case _:
            assert_never(reference.kind)


def _reference_reason(reference: Reference) -> str:
    """Why a reference is refused, with the remedy where there is one."""
    if reference.kind == "Unknown":
        return "it refers to what did not come with the set"
    told = f"{reference.kind} {reference.name!r} did not come with the set and is not listed"
    match reference.kind:
        case "ConfigMap":
            return f"{told}: create it at the broker, beside the set"
        case "Secret" | "ServiceAccount":
            field = "secrets" if reference.kind == "Secret" else "serviceAccounts"
            return f"{told}: create it in this cluster, and list it in workloads.{field}"
        case _:
            return told


def _priority_refusals(received: Workload) -> Iterator[Refused]:
    """A refusal if priorityClassName begins with `system-`: such pods evict those of users."""
    spec = received.spec.template.get("spec")
    priority = spec.get("priorityClassName") if isinstance(spec, dict) else None
    if isinstance(priority, str) and priority.startswith(_SYSTEM_PRIORITY):
        path = f"{received.path}.template.spec.priorityClassName"
        yield Refused(path, f"priority class {priority} is for the cluster's own pods")


def _service_refusals(service: Service) -> Iterator[Refused]:
    """Refusals of a governing Service with a type other than ClusterIP, or with externalIPs."""
    spec, path = service.spec, f"Service {service.metadata.name}: spec"
    if spec.type != "ClusterIP":
        yield Refused(f"{path}.type", f"a governing Service of type {spec.type} is not taken")
    if spec.external_ips:
        yield Refused(f"{path}.externalIPs", "external addresses are not taken")
