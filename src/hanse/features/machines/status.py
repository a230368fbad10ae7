"""Conditions of machines, and of foreign Services that have the name of a VM Service."""

from collections.abc import Sequence

from hanse.features.machines.machine import Machine, ServiceMachine, ServiceTags
from hanse.features.machines.names import VM_SERVICE
from hanse.model.conditions import condition, find_condition
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import VirtualMachine
from hanse.model.objects import ClusterObjectRef, ObjectRef
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.status import conditions_plan

SERVED_CONDITION = "Served"
"""Of a machine: whether it is a backend of the Service in its tags."""
NO_ADDRESS = (
    "spec.networkInterfaces: there is no address that an endpoint may have; give it an InternalIP "
    "or an ExternalIP"
)
NAME_FREE_CONDITION = "MachineNameFree"
"""Of a foreign Service that has the name of a VM Service."""


def machines_status_plan(key: Key, machines: Sequence[ServiceMachine], snapshot: Snapshot) -> Plan:
    """The patches and Events of the condition Served for each VirtualMachine of a VM Service.

    A foreign Service with the name of the VM Service is a fault of every machine.
    """
    conflict = name_conflict(key, snapshot)
    plans = [machine_status_plan(m.machine, m.tags, conflict, snapshot) for m in machines]
    return Plan(
        patches=tuple(p for plan in plans for p in plan.patches),
        events=tuple(n for plan in plans for n in plan.events),
    )


def machine_status_plan(
    machine: Machine, tags: ServiceTags, conflict: str, snapshot: Snapshot
) -> Plan:
    """The condition Served of a VirtualMachine: False with the faults of tags, name or address.

    `conflict` is the message of a taken name, or empty. A missing address counts only if the
    machine runs and names a Service. Without faults True, if it has the condition already and the
    Service, if it names one, exists; else, and for other kinds, an empty plan.
    """
    source = snapshot.get(snapshot.local, VirtualMachine, machine.name, machine.namespace)
    if machine.kind != VirtualMachine.kind or source is None:
        return Plan()
    current = source.status.conditions
    faults = [("InvalidTag", fault) for fault in tags.faults]
    if conflict:
        faults.append(("NameTaken", conflict))
    if tags.service and machine.running and not machine.addresses:
        faults.append(("NoAddress", NO_ADDRESS))
    if faults:
        message = "; ".join(text for _, text in faults)
        served = condition(SERVED_CONDITION, False, faults[0][0], message)
    elif find_condition(current, SERVED_CONDITION) is not None and _has_service(
        machine, tags, snapshot
    ):
        served = condition(SERVED_CONDITION, True, "Served")
    else:
        return Plan()
    return conditions_plan(source, snapshot.local, current, [served], snapshot)


def _has_service(machine: Machine, tags: ServiceTags, snapshot: Snapshot) -> bool:
    """Whether the Service in a machine's tags exists; True where they name none."""
    if not tags.service:
        return True
    return snapshot.get(snapshot.local, Service, tags.service, machine.namespace) is not None


def name_conflict_plan(service: Service | None, machine: str, snapshot: Snapshot) -> Plan:
    """The condition MachineNameFree of a Service: False if it is foreign and a machine wants it.

    `machine` is the name of that machine, for the message, or empty if none wants the name.
    Otherwise True, but only if the Service has the condition already; else, and for None, an empty
    plan.
    """
    if service is None:
        return Plan()
    key = Key("", service.metadata.name, service.metadata.namespace)
    if machine and name_conflict(key, snapshot):
        message = (
            f"machine {machine} asks to be a Service of this name: this one is left alone; rename "
            "it, or give the machine another tag"
        )
        is_free = condition(NAME_FREE_CONDITION, False, "NameTaken", message)
    elif find_condition(service.status.conditions, NAME_FREE_CONDITION) is not None:
        is_free = condition(NAME_FREE_CONDITION, True, "Free")
    else:
        return Plan()
    current = service.status.conditions
    return conditions_plan(service, snapshot.local, current, [is_free], snapshot)


def name_conflict(key: Key, snapshot: Snapshot) -> str:
    """The message that the Service of the key's name is foreign; empty if it is ours or missing.

    Foreign is one without the annotation `VM_SERVICE`, or with the write outcome `Foreign`.
    """
    ref = ClusterObjectRef(snapshot.local, ObjectRef(Service.kind, key.name, key.namespace))
    outcome = snapshot.fact(WriteOutcome, ref)
    service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
    is_foreign = service is not None and VM_SERVICE not in service.metadata.annotations
    if not is_foreign and (outcome is None or outcome.result != "Foreign"):
        return ""
    return f"Service {key.namespace}/{key.name} is somebody else's: it is left alone"
