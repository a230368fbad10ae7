"""The group `submariner.io`: global addresses, where Globalnet gives clusters of one range each.

That a cluster serves this kind means that Globalnet runs there, so nobody stands in for it.
"""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value, wire_field


class Named(Value, frozen=True, kw_only=True):
    """An object of the same namespace."""

    name: str = ""


class GlobalIngressIPSpec(Value, frozen=True, kw_only=True):
    """What a global address leads to: ClusterIPService, HeadlessServicePod, or endpoints."""

    target: str = ""
    service_ref: Named | None = None
    pod_ref: Named | None = None


class GlobalIngressIPStatus(Value, frozen=True, kw_only=True):
    """The address, once there is one."""

    allocated_ip: str = wire_field("allocatedIP", "")


class GlobalIngressIP(Object, frozen=True, kw_only=True):
    """An address by which the whole cluster set reaches a Service or a pod."""

    kind: ClassVar[Kind] = Kind("submariner.io", "v1", "GlobalIngressIP", "globalingressips")

    spec: GlobalIngressIPSpec = GlobalIngressIPSpec()
    status: GlobalIngressIPStatus = GlobalIngressIPStatus()
