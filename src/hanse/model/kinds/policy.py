"""The group `policy`: how many replicas may be taken away at a time."""

from typing import ClassVar

from hanse.model.kinds.networking import LabelSelector
from hanse.model.objects import Kind, Object, Value


class PodDisruptionBudgetSpec(Value, frozen=True, kw_only=True):
    """Whose pods are protected, and how many must stay."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Value, frozen=True, kw_only=True):
    """The evictions that were granted."""

    disrupted_pods: dict[str, str] = {}
    """Pods whose eviction was granted and that still exist, with the time."""


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    """A limit on how many pods may be evicted at once."""

    kind: ClassVar[Kind] = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
