"""Builders of machines of three kinds, and of snapshots."""

from collections.abc import Iterable
from typing import Any

from hanse.features.machines.feature import Machines
from hanse.model.facts import Fact, KindServed, Role
from hanse.model.kinds.antrea import ExternalEntity
from hanse.model.kinds.federation import (
    InterfaceAddress,
    MachineInterface,
    VirtualMachine,
    VirtualMachineSpec,
    VirtualMachineStatus,
)
from hanse.model.kinds.machines import (
    CloudAddress,
    CloudInterface,
    CloudMachine,
    CloudMachineStatus,
    InstanceInterface,
    VirtualMachineInstance,
    VirtualMachineInstanceStatus,
)
from hanse.model.objects import K, Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot
from tests.support.builders import cluster, snapshot, stored

HERE = "lubeck"
SHOP = "shop"
TAG = "svc.antreaplus.vmware.com"
PORTS = "ports.antreaplus.vmware.com"
FEATURE = Machines()
ENTITIES = KindServed(HERE, ExternalEntity.kind, served=True)


def virtual_machine(
    name: str = "db-1",
    internal: str = "10.7.0.1",
    external: str = "",
    *,
    tags: dict[str, str] | None = None,
    state: str = "",
    id_: str = "",
) -> VirtualMachine:
    ips = [InterfaceAddress(address=internal)] if internal else []
    if external:
        ips.append(InterfaceAddress(address=external, address_type="ExternalIP"))
    return stored(
        VirtualMachine(
            metadata=Meta(name=name, namespace=SHOP),
            spec=VirtualMachineSpec(
                id=id_,
                tags={TAG: "db"} if tags is None else tags,
                network_interfaces=(MachineInterface(name="eth0", ips=tuple(ips)),),
            ),
            status=VirtualMachineStatus(state=state),
        )
    )


def cloud_machine(
    name: str, address: str, tags: dict[str, str], state: str = "running"
) -> CloudMachine:
    interface = CloudInterface(
        name="eth0", ips=(CloudAddress(address=address, address_type="InternalIP"),)
    )
    return stored(
        CloudMachine(
            metadata=Meta(name=name, namespace=SHOP),
            status=CloudMachineStatus(tags=tags, network_interfaces=(interface,), state=state),
        )
    )


def virtual_machine_instance(
    name: str, address: str, phase: str = "Running", **meta: Any
) -> VirtualMachineInstance:
    interface = InstanceInterface(name="default", ip_address=address)
    return stored(
        VirtualMachineInstance(
            metadata=Meta(name=name, namespace=SHOP, **meta),
            status=VirtualMachineInstanceStatus(phase=phase, interfaces=(interface,)),
        )
    )


def observed(*objects: Object, facts: Iterable[Fact] = ()) -> Snapshot:
    return snapshot(FEATURE, HERE, [cluster(HERE, Role.LOCAL)], {HERE: objects}, facts)


def plan_for(view: Snapshot, name: str = "db", topic: str = "service") -> Plan:
    return FEATURE.plan(Key(topic, name, SHOP), view)


def desired(plan: Plan, kind: type[K]) -> list[K]:
    return [d.object for d in plan.desired if isinstance(d.object, kind)]
