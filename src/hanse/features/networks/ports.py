"""Ports of pods on a provider's network, and the removal of the scheduling gate."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.networks.interfaces import InvalidInterface
from hanse.features.networks.names import FEATURE_DOMAIN, READINESS
from hanse.features.networks.providers import Provider
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterObjectRef, Object, Wire, object_ref
from hanse.model.plan import Desired, EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

PORT_MESSAGE = f"{FEATURE_DOMAIN}/port"
"""Annotation of a waiting pod: why it has no port."""
_FINAL_PHASES = ("Succeeded", "Failed")


class PortPlan(Struct, frozen=True):
    """The objects of a pod's port, and the annotations of the pod once it is ready."""

    objects: tuple[Object, ...] = ()
    ready: bool = False
    annotations: dict[str, str] = {}
    message: str = ""


@runtime_checkable
class PortProvider(Protocol):
    """A provider that creates ports; for other providers an external controller does."""

    def port(self, pod: Pod, network: Network, snapshot: Snapshot) -> PortPlan:
        """The objects of a pod's port, and once it is ready the pod's annotations.

        Not ready with a message if the pod has to wait for more than those objects. Raises
        `InvalidInterface` if the pod cannot have the interface that it requests.
        """
        ...


def plan_port(
    pod: Pod | None, network: Network | None, provider: Provider, snapshot: Snapshot
) -> Plan:
    """Plan the port of a pod; once it is ready, annotate the pod and remove its scheduling gate.

    Some providers need only the annotations, which tell the CNI plugin the port, and no object. If
    no address is free or the interface is invalid, an annotation and a Warning Event say why, and
    it is requeued. The plan is empty, which deletes the port, if the pod or network is None, the
    pod has ended or has hostNetwork, or the provider creates no ports.
    """
    if pod is None or network is None or pod.status.phase in _FINAL_PHASES or pod.spec.host_network:
        return Plan()
    if not isinstance(provider, PortProvider):
        return Plan()
    try:
        port = provider.port(pod, network, snapshot)
    except InvalidInterface as error:
        return _waiting_plan(pod, str(error), snapshot)
    desired = tuple(Desired(obj, snapshot.local) for obj in port.objects)
    if not port.ready:
        waiting = _waiting_plan(pod, port.message, snapshot) if port.message else Plan()
        return replace(waiting, desired=desired)
    return Plan(desired, patches=tuple(_release_patches(pod, port, snapshot)))


def is_waiting(pod: Pod) -> bool:
    """Whether a pod still waits for its port: it has the readiness annotation or gate."""
    return READINESS in pod.metadata.annotations or any(
        gate.name == READINESS for gate in pod.spec.scheduling_gates
    )


def _release_patches(pod: Pod, port: PortPlan, snapshot: Snapshot) -> list[Patch]:
    """The patch that removes the readiness gate and annotation and sets the port's annotations.

    It also removes the annotation that says why the pod waits. Empty if the pod does not wait and
    has the port's annotations.
    """
    current = pod.metadata.annotations
    if not is_waiting(pod) and all(current.get(n) == v for n, v in port.annotations.items()):
        return []
    annotations: Wire = {READINESS: None, PORT_MESSAGE: None, **port.annotations}
    change: Wire = {"metadata": {"annotations": annotations}}
    gates = [{"name": g.name} for g in pod.spec.scheduling_gates if g.name != READINESS]
    if len(gates) != len(pod.spec.scheduling_gates):
        change["spec"] = {"schedulingGates": gates or None}
    return [Patch(ClusterObjectRef(snapshot.local, object_ref(pod)), change)]


def _waiting_plan(pod: Pod, message: str, snapshot: Snapshot) -> Plan:
    """Annotate why a pod waits, with a Warning Event, and plan again after a minute.

    The annotation has the first 1000 characters of the message. No object is desired.
    """
    ref = ClusterObjectRef(snapshot.local, object_ref(pod))
    patch = Patch(ref, {"metadata": {"annotations": {PORT_MESSAGE: message[:1000]}}})
    event = EventRequest(ref, "NoPort", message, "Warning")
    return Plan(patches=(patch,), events=(event,), requeue_after=timedelta(minutes=1))
