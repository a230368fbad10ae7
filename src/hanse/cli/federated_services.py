"""Federated Services and machines, put together from what clusters hold; pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from hanse.cli.doctor.clusters import Finding
from hanse.features.federated.names import CLUSTER, FEDERATED
from hanse.features.federated.names import DOMAIN as FEDERATING
from hanse.features.federated.status import FEDERATED_CONDITION
from hanse.features.federated.status import NAME_FREE_CONDITION as TAKEN
from hanse.features.machines.names import DOMAIN as SERVING_MACHINES
from hanse.features.machines.names import VM_SERVICE
from hanse.features.machines.status import NAME_FREE_CONDITION as TAKEN_FROM_MACHINES
from hanse.features.machines.status import SERVED_CONDITION
from hanse.model.conditions import find_condition
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.federation import NativeService, VirtualMachine
from hanse.model.objects import ClusterId

_TROUBLES = (FEDERATED_CONDITION, TAKEN, TAKEN_FROM_MACHINES, SERVED_CONDITION)


class Holding(Struct, frozen=True):
    """What one cluster holds of all this."""

    cluster: ClusterId
    services: tuple[Service, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    native: tuple[NativeService, ...] = ()
    machines: tuple[VirtualMachine, ...] = ()


class FederatedServiceView(Struct, frozen=True):
    """A federated Service: where it stands, and how many endpoints are ready by their cluster."""

    namespace: str
    name: str
    ports: tuple[str, ...]
    stands_in: tuple[ClusterId, ...]
    ready: dict[ClusterId, int]


class MachineServiceView(Struct, frozen=True):
    """A VM Service of one cluster, and how many machines are behind it."""

    cluster: ClusterId
    namespace: str
    name: str
    machines: int


class FailedCondition(Struct, frozen=True):
    """Something that people were told on an object of theirs."""

    cluster: ClusterId
    object: str
    reason: str
    message: str


class FederatedView(Struct, frozen=True):
    """All of it, over all clusters that answer."""

    services: tuple[FederatedServiceView, ...] = ()
    machines: tuple[MachineServiceView, ...] = ()
    troubles: tuple[FailedCondition, ...] = ()


def build_view(holdings: Iterable[Holding]) -> FederatedView:
    """What clusters hold, as one picture."""
    several = sorted(holdings, key=lambda h: h.cluster)
    names = sorted({name for held in several for name in _federated_in(held)})
    return FederatedView(
        tuple(_federated(name, several) for name in names),
        tuple(one for held in several for one in _machines(held)),
        tuple(one for held in several for one in _troubles(held)),
    )


def findings(seen: FederatedView) -> tuple[Finding, ...]:
    """What people were told, as something to mend: the message says how."""
    return tuple(
        Finding(
            one.cluster,
            f"{one.object}: {one.message}",
            f"do as it says; {_look(one)} shows when it is well again",
        )
        for one in seen.troubles
    )


def _look(one: FailedCondition) -> str:
    kind, _, place = one.object.partition(" ")
    namespace, _, name = place.partition("/")
    return f"kubectl --context {one.cluster} -n {namespace} describe {kind.lower()} {name}"


def document(seen: FederatedView) -> dict[str, Any]:
    """The same for other programs."""
    return {
        "federatedServices": [
            {
                "namespace": one.namespace,
                "name": one.name,
                "ports": list(one.ports),
                "standsIn": list(one.stands_in),
                "ready": one.ready,
            }
            for one in seen.services
        ],
        "machineServices": [
            {
                "cluster": one.cluster,
                "namespace": one.namespace,
                "name": one.name,
                "machines": one.machines,
            }
            for one in seen.machines
        ],
        "federationTroubles": [
            {
                "cluster": one.cluster,
                "object": one.object,
                "reason": one.reason,
                "message": one.message,
            }
            for one in seen.troubles
        ],
    }


def _federated_in(held: Holding) -> dict[tuple[str, str], Service]:
    return {
        (s.metadata.namespace, s.metadata.name): s
        for s in held.services
        if FEDERATED in s.metadata.annotations
    }


def _federated(place: tuple[str, str], several: Iterable[Holding]) -> FederatedServiceView:
    ports: dict[str, None] = {}
    stands_in: list[ClusterId] = []
    ready: dict[ClusterId, int] = {}
    for held in several:
        service = _federated_in(held).get(place)
        if service is None:
            continue
        stands_in.append(held.cluster)
        ports.update(dict.fromkeys(_port(p.name, p.port, p.protocol) for p in service.spec.ports))
        for cluster, number in _ready(place, held).items():
            ready[cluster] = max(ready.get(cluster, 0), number)
    namespace, name = place
    return FederatedServiceView(
        namespace, name, tuple(ports), tuple(stands_in), dict(sorted(ready.items()))
    )


def _port(name: str, number: int, protocol: str) -> str:
    return f"{number}/{protocol} {name}".rstrip()


def _ready(place: tuple[str, str], held: Holding) -> dict[ClusterId, int]:
    found: dict[ClusterId, int] = {}
    for piece in held.slices:
        meta = piece.metadata
        mine = (meta.namespace, meta.labels.get(KUBE_SERVICE)) == place
        if mine and meta.labels.get(MANAGED_BY) == FEDERATING and piece.address_type != "FQDN":
            source = meta.annotations.get(CLUSTER, "?")
            number = sum(e.ready for e in piece.endpoints or ())
            found[source] = found.get(source, 0) + number
    return found


def _machines(held: Holding) -> Iterator[MachineServiceView]:
    for service in held.services:
        meta = service.metadata
        if VM_SERVICE in meta.annotations:
            behind = {
                e.target_ref.name
                for piece in held.slices
                if piece.metadata.labels.get(MANAGED_BY) == SERVING_MACHINES
                and piece.metadata.namespace == meta.namespace
                and piece.metadata.labels.get(KUBE_SERVICE) == meta.name
                for e in piece.endpoints or ()
                if e.target_ref is not None
            }
            yield MachineServiceView(held.cluster, meta.namespace, meta.name, len(behind))


def _troubles(held: Holding) -> Iterator[FailedCondition]:
    told_on: list[Service | NativeService | VirtualMachine]
    told_on = [*held.services, *held.native, *held.machines]
    for obj in told_on:
        for type_ in _TROUBLES:
            told = find_condition(obj.status.conditions, type_)
            if told is not None and told.status == "False":
                what = f"{type(obj).kind.name} {obj.metadata.namespace}/{obj.metadata.name}"
                yield FailedCondition(held.cluster, what, told.reason, told.message)
