"""The group `kubeovn.io`: virtual networks of kube-ovn, where a cluster has it."""

from typing import ClassVar

from hanse.model.kinds.core import ObservedCondition
from hanse.model.objects import Kind, Object, Value

GROUP = "kubeovn.io"


class VpcSpec(Value, frozen=True, kw_only=True):
    """Whose pods are in a network."""

    namespaces: tuple[str, ...] = ()


class Vpc(Object, frozen=True, kw_only=True):
    """A virtual network."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "Vpc", "vpcs", namespaced=False)

    spec: VpcSpec = VpcSpec()


class OvnSubnetSpec(Value, frozen=True, kw_only=True):
    """A range of a virtual network."""

    vpc: str = ""
    cidr_block: str = ""
    gateway: str = ""
    exclude_ips: tuple[str, ...] = ()
    protocol: str = ""


class OvnSubnetStatus(Value, frozen=True, kw_only=True):
    """Whether a range can be used."""

    conditions: tuple[ObservedCondition, ...] | None = ()


class OvnSubnet(Object, frozen=True, kw_only=True):
    """A subnet of a virtual network."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "Subnet", "subnets", namespaced=False)
    allocated: ClassVar[frozenset[str]] = frozenset(
        {"spec.gateway", "spec.excludeIps", "spec.protocol"}
    )

    spec: OvnSubnetSpec = OvnSubnetSpec()
    status: OvnSubnetStatus = OvnSubnetStatus()


class SwitchPort(Value, frozen=True, kw_only=True):
    """One port of a rule."""

    port: int
    name: str = ""
    target_port: int = 0
    protocol: str = "TCP"


class SwitchLBRuleSpec(Value, frozen=True, kw_only=True):
    """An address, and the endpoints behind it."""

    vip: str
    namespace: str = ""
    endpoints: tuple[str, ...] = ()
    ports: tuple[SwitchPort, ...] = ()
    session_affinity: str = ""


class SwitchLBRule(Object, frozen=True, kw_only=True):
    """A Service address within a virtual network, without a proxy on the nodes."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "SwitchLBRule", "switch-lb-rules", namespaced=False)

    spec: SwitchLBRuleSpec
