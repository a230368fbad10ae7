"""Virtual machines as others describe them: nephe's for clouds, KubeVirt's for clusters."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value, wire_field


class CloudAddress(Value, frozen=True, kw_only=True):
    """An address of a cloud machine: InternalIP, ExternalIP or HostName."""

    address: str = ""
    address_type: str = ""


class CloudInterface(Value, frozen=True, kw_only=True):
    """A network interface of a cloud machine."""

    name: str = ""
    ips: tuple[CloudAddress, ...] = ()


class CloudMachineStatus(Value, frozen=True, kw_only=True):
    """What the cloud says about a machine."""

    tags: dict[str, str] = {}
    network_interfaces: tuple[CloudInterface, ...] = ()
    state: str = ""
    cloud_assigned_id: str = ""


class CloudMachine(Object, frozen=True, kw_only=True):
    """A machine in a cloud, kept by nephe."""

    kind: ClassVar[Kind] = Kind(
        "runtime.cloud.antrea.io", "v1alpha1", "VirtualMachine", "virtualmachines"
    )

    status: CloudMachineStatus = CloudMachineStatus()


class InstanceInterface(Value, frozen=True, kw_only=True):
    """A network interface of a machine in the cluster."""

    name: str = ""
    ip_address: str = wire_field("ipAddress", "")
    ip_addresses: tuple[str, ...] = wire_field("ipAddresses", ())


class VirtualMachineInstanceStatus(Value, frozen=True, kw_only=True):
    """Where a machine runs and how it is reached."""

    phase: str = ""
    interfaces: tuple[InstanceInterface, ...] = ()
    node_name: str = ""


class VirtualMachineInstance(Object, frozen=True, kw_only=True):
    """A running machine in the cluster, kept by KubeVirt."""

    kind: ClassVar[Kind] = Kind(
        "kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances"
    )

    status: VirtualMachineInstanceStatus = VirtualMachineInstanceStatus()
