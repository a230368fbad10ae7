"""The feature: what it watches, what wakes which decision, and the two decisions."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from hanse.features.machines.entities import plan_machine, service_entity
from hanse.features.machines.machine import (
    BY_SERVICE,
    SOURCES,
    Source,
    parse_machine,
    parse_service_tags,
)
from hanse.features.machines.service import plan_service
from hanse.features.machines.status import machine_status_plan
from hanse.model.facts import KindServed, Role, WriteOutcome
from hanse.model.kinds.antrea import ExternalEntity
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import VirtualMachine
from hanse.model.kinds.machines import CloudMachine, VirtualMachineInstance
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes

SERVICE = "service"
MACHINE = "machine"


class Machines:
    """VM Services and entities of this cluster; it needs no federation and no leader."""

    name = "machines"
    watches: tuple[Watch, ...] = (
        Watch(
            Role.LOCAL,
            VirtualMachine,
            indexes=(BY_SERVICE[VirtualMachine],),
            writes=Writes.STATUS,
        ),
        Watch(Role.LOCAL, CloudMachine, indexes=(BY_SERVICE[CloudMachine],)),
        Watch(Role.LOCAL, VirtualMachineInstance, indexes=(BY_SERVICE[VirtualMachineInstance],)),
        Watch(Role.LOCAL, Service, writes=Writes.OBJECTS | Writes.STATUS),
        Watch(Role.LOCAL, EndpointSlice, writes=Writes.OBJECTS),
        Watch(Role.LOCAL, ExternalEntity, writes=Writes.OBJECTS),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        match change:
            case ObjectChange(where, before, after) if where == snapshot.local:
                return {key for side in (before, after) for key in _keys_of(side)}
            case FactChange(_, KindServed(where, kind)) if where == snapshot.local:
                return _everything(snapshot) if kind == ExternalEntity.kind else ()
            case FactChange():
                return _of_outcome(change, snapshot)
            case _:
                return ()

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        entities = _serves_entities(snapshot)
        if key.topic != SERVICE:
            return self._machine(key, snapshot, entities=entities)
        plan = plan_service(key, snapshot)
        entity = service_entity(key.name, key.namespace, snapshot) if entities else None
        if entity is None or not plan.desired:
            return plan
        told = Desired(entity, snapshot.local, sources=frozenset({snapshot.local}))
        return replace(plan, desired=(*plan.desired, told))

    def _machine(self, key: Key, snapshot: Snapshot, *, entities: bool) -> Plan:
        source = _source(key, snapshot)
        plan = plan_machine(source, snapshot) if entities else Plan()
        if source is None:
            return plan
        machine = parse_machine(source)
        offer = parse_service_tags(machine)
        if offer.service:
            return plan  # the Service's own decision tells how it went
        telling = machine_status_plan(machine, offer, "", snapshot)
        return replace(plan, patches=telling.patches, events=telling.events)


def _keys_of(obj: object) -> Iterator[Key]:
    if isinstance(obj, SOURCES):
        yield _machine_key(obj)
        service = parse_service_tags(parse_machine(obj)).service
        if service:
            yield Key(SERVICE, service, obj.metadata.namespace)


def _machine_key(source: Source) -> Key:
    """Kinds have their own keys: machines of two sources may share a name."""
    number = SOURCES.index(type(source))
    return Key(f"{MACHINE}{number}", source.metadata.name, source.metadata.namespace)


def _source(key: Key, snapshot: Snapshot) -> Source | None:
    number = key.topic.removeprefix(MACHINE)
    if not number.isdecimal() or int(number) >= len(SOURCES):
        return None
    found: Source | None = snapshot.get(
        snapshot.local, SOURCES[int(number)], key.name, key.namespace
    )
    return found


def _of_outcome(change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
    """A VM Service that could not be written, or now can be."""
    fact = change.fact
    if isinstance(fact, WriteOutcome) and fact.place.where == snapshot.local:
        ref = fact.place.ref
        if ref.kind == Service.kind:
            yield Key(SERVICE, ref.name, ref.namespace)


def _everything(snapshot: Snapshot) -> set[Key]:
    return {
        key
        for kind in SOURCES
        for source in snapshot.all(snapshot.local, kind)
        for key in _keys_of(source)
    }


def _serves_entities(snapshot: Snapshot) -> bool:
    served = snapshot.fact(KindServed, (snapshot.local, ExternalEntity.kind))
    return served is not None and served.served
