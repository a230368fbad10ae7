"""What is told to people: on their machines, and on a Service that is in the way of one of ours."""

from collections.abc import Sequence

import msgspec

from hanse.features.machines.machine import Machine, ServiceTags
from hanse.features.machines.names import VM_SERVICE
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import VirtualMachine
from hanse.model.objects import ClusterObjectRef, ObjectRef, object_ref
from hanse.model.plan import EventRequest, Key, Patch, Plan
from hanse.model.snapshot import Snapshot

SERVED_CONDITION = "Served"
"""Of a machine: whether it is the Service that its tags ask for."""
NO_ADDRESS = (
    "spec.networkInterfaces: there is no address that an endpoint may have; give it an InternalIP "
    "or an ExternalIP"
)
NAME_FREE_CONDITION = "MachineNameFree"
"""Of a Service that is in the way of a VM Service, which has the same name."""


def machines_status_plan(
    key: Key, several: Sequence[tuple[Machine, ServiceTags]], snapshot: Snapshot
) -> Plan:
    """What keeps machines of our kind from being served; others' kinds are not ours to write."""
    taken = name_conflict(key, snapshot)
    plans = [machine_status_plan(machine, offer, taken, snapshot) for machine, offer in several]
    return Plan(
        patches=tuple(p for plan in plans for p in plan.patches),
        events=tuple(n for plan in plans for n in plan.events),
    )


def machine_status_plan(
    machine: Machine, offer: ServiceTags, taken: str, snapshot: Snapshot
) -> Plan:
    """The condition of one machine, once there is something to say."""
    source = snapshot.get(snapshot.local, VirtualMachine, machine.name, machine.namespace)
    if machine.kind != VirtualMachine.kind or source is None:
        return Plan()
    standing = source.status.conditions
    faults = [("InvalidTag", fault) for fault in offer.faults]
    if taken:
        faults.append(("NameTaken", taken))
    if offer.service and machine.running and not machine.addresses:
        faults.append(("NoAddress", NO_ADDRESS))
    if faults:
        told = "; ".join(text for _, text in faults)
        wanted = condition(SERVED_CONDITION, False, faults[0][0], told[:32000])
    elif find(standing, SERVED_CONDITION) is not None and _is_certain(machine, offer, snapshot):
        wanted = condition(SERVED_CONDITION, True, "Served")
    else:
        return Plan()
    after = merged(standing, [wanted], snapshot.now, source.metadata.generation)
    return _told(ClusterObjectRef(snapshot.local, object_ref(source)), standing, after, wanted)


def _is_certain(machine: Machine, offer: ServiceTags, snapshot: Snapshot) -> bool:
    """Whether a machine is served by now: the Service that it asks for stands, if it asks."""
    if not offer.service:
        return True
    return snapshot.get(snapshot.local, Service, offer.service, machine.namespace) is not None


def name_conflict_plan(standing: Service | None, machine: str, snapshot: Snapshot) -> Plan:
    """That a Service of people is in the way; once told, also that it no longer is."""
    if standing is None:
        return Plan()
    key = Key("", standing.metadata.name, standing.metadata.namespace)
    before = standing.status.conditions
    if machine and name_conflict(key, snapshot):
        text = (
            f"machine {machine} asks to be a Service of this name: this one is left alone; rename "
            "it, or give the machine another tag"
        )
        wanted = condition(NAME_FREE_CONDITION, False, "NameTaken", text)
    elif find(before, NAME_FREE_CONDITION) is not None:
        wanted = condition(NAME_FREE_CONDITION, True, "Free")
    else:
        return Plan()
    after = merged(before, [wanted], snapshot.now, standing.metadata.generation)
    return _told(ClusterObjectRef(snapshot.local, object_ref(standing)), before, after, wanted)


def name_conflict(key: Key, snapshot: Snapshot) -> str:
    """Why a VM Service could not be written, if something else has its name."""
    place = ClusterObjectRef(snapshot.local, ObjectRef(Service.kind, key.name, key.namespace))
    outcome = snapshot.fact(WriteOutcome, place)
    service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
    theirs = service is not None and VM_SERVICE not in service.metadata.annotations
    if not theirs and (outcome is None or outcome.result != "Foreign"):
        return ""
    return f"Service {key.namespace}/{key.name} is somebody else's: it is left alone"


def _told(
    place: ClusterObjectRef,
    before: Sequence[Condition],
    after: Sequence[Condition],
    wanted: Condition,
) -> Plan:
    change = {"status": {"conditions": msgspec.to_builtins(after)}}
    known = find(before, wanted.type)
    same = known is not None and (known.status, known.message) == (wanted.status, wanted.message)
    bad = wanted.status == "False" and not same
    events = (EventRequest(place, wanted.reason, wanted.message, "Warning"),) if bad else ()
    return Plan(patches=(Patch(place, change, "status"),), events=events)
