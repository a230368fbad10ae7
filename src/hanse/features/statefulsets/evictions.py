"""A PodDisruptionBudget at the broker holds for the replicas of all clusters together.

Each cluster's API server counts its own pods only. So every cluster gets a budget of its own that
allows no eviction. Where a node with replicas is drained, the cluster takes a permit and lets one
replica go; it closes the budget again before it returns the permit.
"""

from collections.abc import Mapping
from math import ceil

import msgspec

from hanse.features.statefulsets.names import SET, cluster_set_name
from hanse.features.statefulsets.owned_objects import BUDGETS_BY_SET
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.kinds.core import Node, Pod
from hanse.model.kinds.networking import LabelSelector
from hanse.model.kinds.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId, Meta, Object
from hanse.model.ownership import OWNER
from hanse.model.selectors import selects
from hanse.model.snapshot import Snapshot

_DRAIN_TAINTS = frozenset(
    {
        "node.kubernetes.io/unschedulable",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)
ALWAYS_ALLOW = "AlwaysAllow"


def find_budget(
    submitted: SubmittedSet, snapshot: Snapshot, broker: ClusterId
) -> PodDisruptionBudget | None:
    """The first PodDisruptionBudget by name at the broker that selects the set's pods; else None.

    In the set's namespace. Those without a selector, that Hanse wrote (owner label) or that are
    terminating do not count.
    """
    metadata = submitted.spec.template.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    found = (
        budget
        for budget in snapshot.in_namespace(broker, PodDisruptionBudget, submitted.namespace)
        if budget.metadata.deletion_timestamp is None
        and OWNER not in budget.metadata.labels
        and budget.spec.selector is not None
        and selects(budget.spec.selector, labels or {})
    )
    return min(found, key=lambda budget: budget.metadata.name, default=None)


def allowed_evictions(budget: PodDisruptionBudget | None, replicas: int) -> int:
    """How many replicas of all clusters may be down by evictions; 0 without a budget.

    By maxUnavailable, else by minAvailable, which is 1 if neither is given; 0, too, for a text that
    is no percentage, which Kubernetes does not evaluate either.
    """
    if budget is None:
        return 0
    spec = budget.spec
    if spec.max_unavailable is not None:
        return _scaled(spec.max_unavailable, replicas) or 0
    needed = _scaled(spec.min_available if spec.min_available is not None else 1, replicas)
    return max(replicas - needed, 0) if needed is not None else 0


def _scaled(value: int | str, replicas: int) -> int | None:
    """A number, or a percentage of the replicas, rounded up; None if it is neither."""
    if isinstance(value, int):
        return value
    percent = parse_number(value.removesuffix("%")) if value.endswith("%") else None
    return ceil(replicas * percent / 100) if percent is not None else None


def derived_budget(
    submitted: SubmittedSet, budget: PodDisruptionBudget, cluster: ClusterId, *, opens: bool
) -> PodDisruptionBudget | None:
    """The PodDisruptionBudget of a set here: maxUnavailable 1 if `opens`, else 0.

    It takes unhealthyPodEvictionPolicy from `budget`, the users' one, or else AlwaysAllow. None if
    the set's selector cannot be decoded.
    """
    try:
        selector = msgspec.convert(submitted.spec.selector, LabelSelector)
    except msgspec.ValidationError:
        return None  # the API server refuses the StatefulSet, too
    return PodDisruptionBudget(
        metadata=Meta(
            name=cluster_set_name(submitted.name, cluster),
            namespace=submitted.namespace,
            labels={SET: submitted.name},
        ),
        spec=PodDisruptionBudgetSpec(
            max_unavailable=int(opens),
            selector=selector,
            unhealthy_pod_eviction_policy=budget.spec.unhealthy_pod_eviction_policy or ALWAYS_ALLOW,
        ),
    )


def may_be_evicted(name: str, namespace: str, snapshot: Snapshot) -> bool:
    """Whether an eviction may come or has come: the budget here is open, or has disruptedPods."""
    return any(
        budget.spec.max_unavailable or budget.status.disrupted_pods
        for budget in snapshot.by(snapshot.local, BUDGETS_BY_SET, f"{namespace}/{name}")
    )


def is_drained(node: Object | None) -> bool:
    """Whether an object is a Node that is cordoned, by its spec or a taint, or being emptied.

    The latter by a taint of the cluster autoscaler or Karpenter. False for None or another object.
    """
    if not isinstance(node, Node):
        return False
    return node.spec.unschedulable or any(t.key in _DRAIN_TAINTS for t in node.spec.taints)


def draining_ordinals(pods: Mapping[int, Pod], snapshot: Snapshot) -> frozenset[int]:
    """The ordinals of the pods on nodes in this cluster that are being drained."""
    return frozenset(
        ordinal
        for ordinal, pod in pods.items()
        if pod.spec.node_name and is_drained(snapshot.get(snapshot.local, Node, pod.spec.node_name))
    )
