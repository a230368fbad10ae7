"""What an Avi controller holds, as far as we write it: global services and their monitors."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value

GROUP = "avi"


class AviMember(Value, frozen=True, kw_only=True):
    """One address of a pool."""

    ip: str
    ratio: int = 1
    cluster_uuid: str = ""
    vs_uuid: str = ""
    public_ip: str = ""
    enabled: bool = True


class AviPool(Value, frozen=True, kw_only=True):
    """The members of one priority."""

    name: str
    priority: int = 10
    algorithm: str = "GSLB_ALGORITHM_ROUND_ROBIN"
    consistent_hash_mask: int | None = None
    fallback_algorithm: str = ""
    members: tuple[AviMember, ...] = ()


class AviServiceSpec(Value, frozen=True, kw_only=True):
    """What is answered for the names of a service."""

    domain_names: tuple[str, ...] = ()
    groups: tuple[AviPool, ...] = ()
    ttl: int | None = None
    down_response: str = ""
    fallback_ip: str = ""
    health_monitors: tuple[str, ...] = ()
    """By name; a controller refers to them by URL."""
    created_by: str = ""
    site_persistence: str = ""
    pki_profile: str = ""


class AviGslbService(Object, frozen=True, kw_only=True):
    """A GslbService of the controller; what it says of its owner is kept in a description."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "GslbService", "gslbservice", namespaced=False)
    has_status_subresource: ClassVar[bool] = False

    spec: AviServiceSpec = AviServiceSpec()


class AviMonitorSpec(Value, frozen=True, kw_only=True):
    """How members are watched."""

    type: str = "HEALTH_MONITOR_TCP"
    port: int = 0
    interval: int = 10
    timeout: int = 4
    up: int = 3
    down: int = 3
    request: str = ""
    response: str = ""
    codes: tuple[str, ...] = ()


class AviHealthMonitor(Object, frozen=True, kw_only=True):
    """A federated health monitor of the controller."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "HealthMonitor", "healthmonitor", namespaced=False)
    has_status_subresource: ClassVar[bool] = False

    spec: AviMonitorSpec = AviMonitorSpec()
