"""The AcceptancePolicy: what a cluster takes from others."""

from typing import Annotated, ClassVar, Literal

from hanse.model.kinds.field_types import Count
from hanse.model.kinds.networking import LabelSelector
from hanse.model.objects import Kind, Object, Value
from hanse.model.schema import LABEL, Column, Crd, Schema

ACCEPT = "hanse.dev/accept"
"""Label of a namespace that takes workloads from others, with the value `true`."""

DEFAULT_POLICY = "default"
"""The name of a cluster's AcceptancePolicy; no other name is read."""

PodSecurityLevel = Literal["restricted", "baseline", "privileged"]
CarriedKind = Literal["StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget", "Secret"]
NamePattern = Annotated[
    str, Schema(pattern=r"^[a-z0-9*]([-.a-z0-9*]*[a-z0-9*])?$", min_length=1, max_length=253)
]
"""A name in which `*` stands for any characters."""
Origin = Annotated[str, Schema(pattern=LABEL, min_length=1, max_length=63)]


class WorkloadLimits(Value, frozen=True, kw_only=True):
    """How much is taken."""

    replicas_per_set: Annotated[
        Count, Schema("Replicas of one set that run in this cluster at most.")
    ] = 100


class WorkloadAcceptance(Value, frozen=True, kw_only=True):
    """Which workloads are taken from others: StatefulSets, and what comes with them."""

    namespaces: Annotated[
        LabelSelector,
        Schema(
            "Namespaces that take workloads, beside those that Hanse created; the default selects "
            "the label hanse.dev/accept=true. Namespaces of Kubernetes, of Hanse and of "
            "controllers never do."
        ),
    ] = LabelSelector(match_labels={ACCEPT: "true"})
    origins: Annotated[
        tuple[Origin, ...],
        Schema(
            "Whose sets are taken: `broker` for those submitted at the broker (the default), and "
            "the ids of clusters that host sets.",
            unique=True,
            max_items=1000,
        ),
    ] = ("broker",)
    create_namespaces: Annotated[
        bool, Schema("Whether a missing namespace is created for a set.", default=True)
    ] = True
    kinds: Annotated[
        tuple[CarriedKind, ...],
        Schema(
            "The kinds that are taken; the default is StatefulSet, Service, ConfigMap and "
            "PodDisruptionBudget.",
            unique=True,
            max_items=8,
        ),
    ] = ("StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget")
    pod_security: Annotated[
        PodSecurityLevel,
        Schema("The level of the Pod Security Standards that pod templates must meet."),
    ] = "baseline"
    service_accounts: Annotated[
        tuple[NamePattern, ...],
        Schema(
            "ServiceAccounts that pods may run as; the default is `default`.",
            unique=True,
            max_items=100,
        ),
    ] = ("default",)
    config_maps: Annotated[
        tuple[NamePattern, ...],
        Schema(
            "ConfigMaps of this cluster that pods may use; the default is kube-root-ca.crt.",
            unique=True,
            max_items=100,
        ),
    ] = ("kube-root-ca.crt",)
    secrets: Annotated[
        tuple[NamePattern, ...],
        Schema(
            "Secrets of this cluster that pods may use; none by default.",
            unique=True,
            max_items=100,
        ),
    ] = ()
    claims: Annotated[
        tuple[NamePattern, ...],
        Schema(
            "PersistentVolumeClaims of this cluster that pods may use beside those of the set "
            "itself; none by default.",
            unique=True,
            max_items=100,
        ),
    ] = ()
    limits: Annotated[WorkloadLimits, Schema("How much is taken.", filled=True)] = WorkloadLimits()


class NamespaceAcceptance(Value, frozen=True, kw_only=True):
    """In which namespaces objects are taken from others."""

    exclude: Annotated[
        tuple[NamePattern, ...],
        Schema(
            "Namespaces in which nothing is taken; `*` stands for any characters. The default is "
            "kube-*.",
            unique=True,
            max_items=100,
        ),
    ] = ("kube-*",)


class AcceptancePolicySpec(Value, frozen=True, kw_only=True):
    """What a cluster takes from others; an absent field has its default."""

    workloads: Annotated[
        WorkloadAcceptance, Schema("StatefulSets, and what comes with them.", filled=True)
    ] = WorkloadAcceptance()
    services: Annotated[
        NamespaceAcceptance, Schema("Imported Services, their endpoints, and federated Services.")
    ] = NamespaceAcceptance()
    policies: Annotated[NamespaceAcceptance, Schema("Replicated network policies.")] = (
        NamespaceAcceptance()
    )


class AcceptancePolicy(Object, frozen=True, kw_only=True):
    """What this cluster takes from others; the one named `default` counts."""

    kind: ClassVar[Kind] = Kind(
        "hanse.dev", "v1alpha1", "AcceptancePolicy", "acceptancepolicies", namespaced=False
    )
    crd: ClassVar[Crd] = Crd(
        short_names=("accept",),
        columns=(
            Column("Pod-Security", ".spec.workloads.podSecurity"),
            Column("Create-Namespaces", ".spec.workloads.createNamespaces", "boolean"),
        ),
        name=Schema(pattern="^default$"),
        status=False,
    )
    has_status_subresource: ClassVar[bool] = False

    spec: Annotated[AcceptancePolicySpec, Schema(filled=True)] = AcceptancePolicySpec()
