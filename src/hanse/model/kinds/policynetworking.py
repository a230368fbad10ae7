"""The group `policy.networking.k8s.io`: policies of administrators over whole clusters."""

from typing import ClassVar, Literal

from hanse.model.objects import Kind, Object, Value, Wire


class ClusterNetworkPolicySpec(Value, frozen=True, kw_only=True):
    """Whose traffic is decided on, in which order, and how."""

    tier: Literal["Admin", "Baseline"]
    priority: int = 0
    subject: Wire = {}
    ingress: tuple[Wire, ...] = ()
    egress: tuple[Wire, ...] = ()


class ClusterNetworkPolicy(Object, frozen=True, kw_only=True):
    """Decides on traffic before or after NetworkPolicies do."""

    kind: ClassVar[Kind] = Kind(
        "policy.networking.k8s.io",
        "v1alpha2",
        "ClusterNetworkPolicy",
        "clusternetworkpolicies",
        namespaced=False,
    )

    spec: ClusterNetworkPolicySpec
