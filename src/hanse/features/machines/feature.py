"""The feature `machines`: its watches, the keys that a change affects, and the plan of each."""

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

SERVICE_TOPIC = "service"
MACHINE_TOPIC = "machine"


_MACHINES = "machines, their addresses and labels"


class Machines:
    """VM Services and ExternalEntities of this cluster, independent of any federation."""

    name = "machines"
    watches: tuple[Watch, ...] = (
        Watch(
            Role.LOCAL,
            VirtualMachine,
            indexes=(BY_SERVICE[VirtualMachine],),
            writes=Writes.STATUS,
            reason=_MACHINES,
        ),
        Watch(Role.LOCAL, CloudMachine, indexes=(BY_SERVICE[CloudMachine],), reason=_MACHINES),
        Watch(
            Role.LOCAL,
            VirtualMachineInstance,
            indexes=(BY_SERVICE[VirtualMachineInstance],),
            reason=_MACHINES,
        ),
        Watch(
            Role.LOCAL,
            Service,
            writes=Writes.OBJECTS | Writes.STATUS,
            reason="the Service in front of machines",
        ),
        Watch(
            Role.LOCAL,
            EndpointSlice,
            writes=Writes.OBJECTS,
            reason="addresses of machines, as backends of their Service",
        ),
        Watch(
            Role.LOCAL,
            ExternalEntity,
            writes=Writes.OBJECTS,
            reason="machines as peers of policies",
            only_with="Antrea",
        ),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of a changed machine and of the Services in its tags, before and after that.

        For a write outcome of a Service its key; for a change of whether this cluster serves
        ExternalEntity all keys. None for other objects and facts, and for other clusters.
        """
        match change:
            case ObjectChange(where, before, after) if where == snapshot.local:
                return {key for side in (before, after) for key in _source_keys(side)}
            case FactChange(_, KindServed(where, kind)) if where == snapshot.local:
                return _all_keys(snapshot) if kind == ExternalEntity.kind else ()
            case FactChange():
                return _keys_for_outcome(change, snapshot)
            case _:
                return ()

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """A VM Service with its ExternalEntity, or the ExternalEntity and status of one machine.

        ExternalEntities are planned only where the kind is served, that of a VM Service only if its
        plan has desired objects.
        """
        entities = snapshot.serves(snapshot.local, ExternalEntity) is True
        if key.topic != SERVICE_TOPIC:
            return self._machine_plan(key, snapshot, entities=entities)
        plan = plan_service(key, snapshot)
        entity = service_entity(key.name, key.namespace, snapshot) if entities else None
        if entity is None or not plan.desired:
            return plan
        desired = Desired(entity, snapshot.local, sources=frozenset({snapshot.local}))
        return replace(plan, desired=(*plan.desired, desired))

    def _machine_plan(self, key: Key, snapshot: Snapshot, *, entities: bool) -> Plan:
        """The ExternalEntity of a machine if `entities`; its status if its tags name no Service.

        With a Service its status is in the plan of that. Empty for a machine that does not exist.
        """
        source = _source(key, snapshot)
        plan = plan_machine(source, snapshot) if entities else Plan()
        if source is None:
            return plan
        machine = parse_machine(source)
        tags = parse_service_tags(machine)
        if tags.service:
            return plan  # the plan of the Service sets the status
        status = machine_status_plan(machine, tags, "", snapshot)
        return replace(plan, patches=status.patches, events=status.events)


def _source_keys(obj: object) -> Iterator[Key]:
    """The keys of a machine and of the VM Service in its tags, if any; none for other objects."""
    if isinstance(obj, SOURCES):
        yield _machine_key(obj)
        service = parse_service_tags(parse_machine(obj)).service
        if service:
            yield Key(SERVICE_TOPIC, service, obj.metadata.namespace)


def _machine_key(source: Source) -> Key:
    """The key of a machine; its topic tells the kind: two kinds may have the same name."""
    number = SOURCES.index(type(source))
    return Key(f"{MACHINE_TOPIC}{number}", source.metadata.name, source.metadata.namespace)


def _source(key: Key, snapshot: Snapshot) -> Source | None:
    """The machine object that a key names; None if it is missing or the topic is invalid."""
    number = key.topic.removeprefix(MACHINE_TOPIC)
    if not number.isdecimal() or int(number) >= len(SOURCES):
        return None
    found: Source | None = snapshot.get(
        snapshot.local, SOURCES[int(number)], key.name, key.namespace
    )
    return found


def _keys_for_outcome(change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
    """The key of the Service whose write in this cluster has a new outcome.

    None for other facts.
    """
    fact = change.fact
    if isinstance(fact, WriteOutcome) and fact.target.where == snapshot.local:
        ref = fact.target.ref
        if ref.kind == Service.kind:
            yield Key(SERVICE_TOPIC, ref.name, ref.namespace)


def _all_keys(snapshot: Snapshot) -> set[Key]:
    """The keys of all machines in this cluster and of their VM Services."""
    return {
        key
        for kind in SOURCES
        for source in snapshot.all(snapshot.local, kind)
        for key in _source_keys(source)
    }
