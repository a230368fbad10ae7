"""The group `apps`: workloads, with their pod templates as opaque JSON."""

from typing import ClassVar, Literal

from hanse.model.kinds.core import ObservedCondition
from hanse.model.objects import Kind, Object, Value, Wire


class Ordinals(Value, frozen=True, kw_only=True):
    """Where the numbering of replicas begins."""

    start: int = 0


class StatefulSetSpec(Value, frozen=True, kw_only=True):
    """All of a StatefulSet's spec, so that copying one loses nothing."""

    replicas: int = 1
    selector: Wire = {}
    template: Wire = {}
    service_name: str = ""
    volume_claim_templates: tuple[Wire, ...] = ()
    pod_management_policy: Literal["OrderedReady", "Parallel"] = "OrderedReady"
    update_strategy: Wire = {}
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: Wire = {}
    ordinals: Ordinals | None = None


class StatefulSetStatus(Value, frozen=True, kw_only=True):
    """How far a StatefulSet has come."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[ObservedCondition, ...] = ()


class StatefulSet(Object, frozen=True, kw_only=True):
    """Replicas with names and storage of their own."""

    kind: ClassVar[Kind] = Kind("apps", "v1", "StatefulSet", "statefulsets")

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class ControllerRevision(Object, frozen=True, kw_only=True):
    """One template that a StatefulSet had, which is only read."""

    kind: ClassVar[Kind] = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")

    revision: int = 0
    data: Wire = {}


class DeploymentSpec(Value, frozen=True, kw_only=True):
    """The fields of a Deployment that we write."""

    replicas: int = 1
    selector: Wire = {}
    template: Wire = {}
    strategy: Wire = {}
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600


class DeploymentStatus(Value, frozen=True, kw_only=True):
    """How far a Deployment has come."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[ObservedCondition, ...] = ()


class Deployment(Object, frozen=True, kw_only=True):
    """Replicas that are all alike."""

    kind: ClassVar[Kind] = Kind("apps", "v1", "Deployment", "deployments")

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class DaemonSetStatus(Value, frozen=True, kw_only=True):
    """On how many nodes a DaemonSet runs."""

    desired_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSet(Object, frozen=True, kw_only=True):
    """A pod on each node, which is only read."""

    kind: ClassVar[Kind] = Kind("apps", "v1", "DaemonSet", "daemonsets")

    status: DaemonSetStatus = DaemonSetStatus()
