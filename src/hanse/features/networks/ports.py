"""A pod's way onto a provider's network: its port, and the end of its wait."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hanse.features.networks.interfaces import InvalidInterface
from hanse.features.networks.names import FEATURE_DOMAIN, READINESS
from hanse.features.networks.providers import Provider
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterObjectRef, Object, Wire, object_ref
from hanse.model.plan import Desired, EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

PORT_MESSAGE = f"{FEATURE_DOMAIN}/port"
"""Annotation of a pod that waits: why it has no port."""
_ENDED = ("Succeeded", "Failed")


class PortPlan(Struct, frozen=True):
    """What a provider wants for one pod, and what the pod is told once that is there."""

    objects: tuple[Object, ...] = ()
    ready: bool = False
    annotations: dict[str, str] = {}
    message: str = ""


@runtime_checkable
class PortProvider(Protocol):
    """A provider that prepares ports by itself; of others somebody else does."""

    def port(self, pod: Pod, network: Network, snapshot: Snapshot) -> PortPlan:
        """The port of one pod; `InvalidInterface` if it cannot have the one it asks for."""
        ...


def plan_port(
    pod: Pod | None, network: Network | None, provider: Provider, snapshot: Snapshot
) -> Plan:
    """A port for as long as the pod lives; without it the engine takes the port back, once."""
    if pod is None or network is None or pod.status.phase in _ENDED or pod.spec.host_network:
        return Plan()
    if not isinstance(provider, PortProvider):
        return Plan()
    try:
        port = provider.port(pod, network, snapshot)
    except InvalidInterface as bad:
        return _waiting(pod, str(bad), snapshot)
    desired = tuple(Desired(obj, snapshot.local) for obj in port.objects)
    if not port.ready:
        waiting = _waiting(pod, port.message, snapshot) if port.message else Plan()
        return Plan(desired, patches=waiting.patches, events=waiting.events)
    return Plan(desired, patches=tuple(_released(pod, port, snapshot)))


def is_waiting(pod: Pod) -> bool:
    """Whether a pod still waits for its port."""
    return READINESS in pod.metadata.annotations or any(
        gate.name == READINESS for gate in pod.spec.scheduling_gates
    )


def _released(pod: Pod, port: PortPlan, snapshot: Snapshot) -> list[Patch]:
    """Let a pod be scheduled, with what its network plugin needs to know."""
    told = pod.metadata.annotations
    if not is_waiting(pod) and all(told.get(n) == v for n, v in port.annotations.items()):
        return []
    annotations: Wire = {READINESS: None, PORT_MESSAGE: None, **port.annotations}
    change: Wire = {"metadata": {"annotations": annotations}}
    gates = [{"name": g.name} for g in pod.spec.scheduling_gates if g.name != READINESS]
    if len(gates) != len(pod.spec.scheduling_gates):
        change["spec"] = {"schedulingGates": gates or None}
    return [Patch(ClusterObjectRef(snapshot.local, object_ref(pod)), change)]


def _waiting(pod: Pod, message: str, snapshot: Snapshot) -> Plan:
    """Tell why a pod waits; what is in its way may go, and then it is looked at again."""
    place = ClusterObjectRef(snapshot.local, object_ref(pod))
    patch = Patch(place, {"metadata": {"annotations": {PORT_MESSAGE: message[:1000]}}})
    notice = EventRequest(place, "NoPort", message, "Warning")
    return Plan(patches=(patch,), events=(notice,), requeue_after=timedelta(minutes=1))
