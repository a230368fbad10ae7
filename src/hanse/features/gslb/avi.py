"""The objects of global services at an Avi controller, and the access to the controller."""

import re
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from itertools import islice

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.configuration import (
    InvalidConfiguration,
    find_host_rule,
    read_configuration,
    read_deployment_policy,
)
from hanse.features.gslb.names import UUID, VS_UUIDS
from hanse.model.facts import ClusterState, Phase
from hanse.model.json_input import decode_json
from hanse.model.kinds.avi import (
    AviGslbService,
    AviHealthMonitor,
    AviMember,
    AviMonitorSpec,
    AviPool,
    AviServiceSpec,
)
from hanse.model.kinds.core import Secret
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, Monitor
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import Snapshot

NO_RESPONSE = "GSLB_SERVICE_DOWN_RESPONSE_NONE"
"""The controller's own default, which is not set."""
MAX_MONITORS = 6
"""The monitors of one GSLB service that a controller takes."""
MAX_PATH_NAME = 40
CONTROLLER = "avi"
"""The cluster id of the connection to the controller."""
REFUSED_USER = " refuses user "
"""What is said of a controller that does not accept its credentials."""


class AviAccess(Struct, frozen=True):
    """Address and credentials of the controller, from the configuration and its Secret."""

    address: str
    version: str
    tenant: str
    username: str
    password: str
    ca: str = ""

    def __repr__(self) -> str:
        """`AviAccess('<address>', <secret>)`, so that logs have no credentials."""
        return f"AviAccess({self.address!r}, <secret>)"


def configured_controller(snapshot: Snapshot) -> AviAccess | InvalidConfiguration:
    """Access to the leader controller of the GSLBConfig, or the error if it is not configured.

    There is an error without a valid GSLBConfig, without the controller's IP, or without the Secret
    here. Keys that the Secret lacks give empty texts; the default version is 22.1.3, the tenant
    admin.
    """
    config = read_configuration(snapshot)
    if isinstance(config, InvalidConfiguration):
        return config
    leader = config.object.spec.gslb_leader
    if not leader.controller_ip:
        return InvalidConfiguration(
            "spec.gslbLeader.controllerIP is empty; name the Avi controller that leads"
        )
    secret = snapshot.get(snapshot.local, Secret, leader.credentials, NAMESPACE)
    if secret is None:
        return InvalidConfiguration(
            f"spec.gslbLeader.credentials: there is no Secret {leader.credentials!r} in "
            f"{NAMESPACE}; create it with username and password"
        )
    fields = {name: value.decode("utf-8", "replace") for name, value in secret.data.items()}
    return AviAccess(
        leader.controller_ip,
        leader.controller_version or "22.1.3",
        leader.tenant or "admin",
        fields.get("username", ""),
        fields.get("password", ""),
        fields.get("certificateAuthorityData", ""),
    )


def configured_refresh_interval(snapshot: Snapshot) -> timedelta | None:
    """The interval between reads of the controller, from the GSLBConfig.

    None if it is not set, is 0, or the GSLBConfig is missing or invalid.
    """
    config = read_configuration(snapshot)
    if isinstance(config, InvalidConfiguration):
        return None
    seconds = config.object.spec.refresh_interval
    return timedelta(seconds=seconds) if seconds else None


def virtual_service_uuid(source: Object, host: str) -> str:
    """The UUID of a host's virtual service by AKO's annotation; empty if none can be read there."""
    try:
        by_host = decode_json(source.metadata.annotations.get(VS_UUIDS, "") or "{}")
    except msgspec.DecodeError:
        return ""
    found = by_host.get(host, "") if isinstance(by_host, dict) else ""
    return found if isinstance(found, str) else ""


def controller_error(snapshot: Snapshot) -> str:
    """Why the controller cannot be written to; empty if it can, or was not connected to yet.

    That is the error of its configuration, or the reason in the state of the connection, unless the
    connection is Synced or Leaving.
    """
    configured = configured_controller(snapshot)
    if isinstance(configured, InvalidConfiguration):
        return configured.error
    state = snapshot.fact(ClusterState, CONTROLLER)
    if state is None or state.phase in (Phase.SYNCED, Phase.LEAVING):
        return ""
    return state.reason


def avi_objects(service: GlobalService, snapshot: Snapshot) -> Iterator[tuple[int, Object]]:
    """Pairs of step and object at the controller: health monitors (0), then the GSLB service (1).

    Monitors are generated, up to MAX_MONITORS, unless the host's rule or else the policy has
    healthMonitorRefs. Profiles are the rule's (of persistence only if enabled), or else the
    policy's. Nothing without a valid GSLBConfig; an invalid policy counts as none.
    """
    config = read_configuration(snapshot)
    if isinstance(config, InvalidConfiguration):
        return
    created_by = f"amko-{config.object.metadata.annotations.get(UUID, '')}"
    host = service.spec.host
    policy = read_deployment_policy(snapshot, named_monitors=False)
    rule = find_host_rule(host, snapshot)
    spec = policy if policy is not None and not isinstance(policy, InvalidConfiguration) else None
    refs: tuple[str, ...] = ()
    if rule is not None and rule.spec.health_monitor_refs:
        refs = rule.spec.health_monitor_refs
    elif spec is not None:
        refs = spec.health_monitor_refs
    monitors: tuple[str, ...] = refs
    if not refs:
        generated = dict(islice(_monitors_by_name(service).items(), MAX_MONITORS))
        monitors = tuple(generated)
        for name, monitor in generated.items():
            meta = Meta(name=name)
            yield 0, AviHealthMonitor(metadata=meta, spec=_avi_monitor_spec(monitor, host))
    persistence = rule.spec.site_persistence if rule is not None else None
    profile = persistence.profile_ref if persistence is not None and persistence.enabled else ""
    desired = AviServiceSpec(
        domain_names=(host, *service.spec.aliases),
        groups=tuple(_avi_pools(service)),
        ttl=service.spec.ttl,
        down_response=(service.spec.when_down or "").replace(NO_RESPONSE, ""),
        fallback_ip=service.spec.fallback_ip,
        health_monitors=monitors,
        created_by=created_by,
        site_persistence=profile or (spec.site_persistence_ref if spec is not None else ""),
        pki_profile=(persistence.pki_profile_ref if persistence is not None else "")
        or (spec.pki_profile_ref if spec is not None else ""),
    )
    yield 1, AviGslbService(metadata=Meta(name=host), spec=desired)


def excess_monitors_message(service: GlobalService) -> str:
    """The message if a host's paths need more than MAX_MONITORS generated monitors; else empty.

    It does not consider whether a rule or policy names monitors instead.
    """
    number = len(_monitors_by_name(service))
    if number <= MAX_MONITORS:
        return ""
    return (
        f"host {service.spec.host} needs {number} health monitors for its paths, and a controller "
        f"takes {MAX_MONITORS}: the last {number - MAX_MONITORS} are not watched; name monitors in "
        "healthMonitorRefs of a GSLBHostRule"
    )


def _avi_pools(service: GlobalService) -> Iterator[AviPool]:
    """A pool per priority, the highest first; members that are not ready are disabled.

    A fallback algorithm is set only for GEO and TOPOLOGY. A member's virtual service is left out
    without the UUID of its controller, which may also be set alone.
    """
    spec = service.spec
    by_priority: dict[int, list[GlobalMember]] = {}
    for member in spec.members:
        by_priority.setdefault(member.priority, []).append(member)
    is_geographic = spec.algorithm in ("GSLB_ALGORITHM_GEO", "GSLB_ALGORITHM_TOPOLOGY")
    for priority in sorted(by_priority, reverse=True):
        yield AviPool(
            name=f"amko-gs-group-{priority}",
            priority=priority,
            algorithm=spec.algorithm,
            consistent_hash_mask=spec.hash_mask,
            fallback_algorithm=spec.fallback if is_geographic else "",
            members=tuple(
                AviMember(
                    ip=member.address,
                    ratio=member.weight,
                    cluster_uuid=member.controller_uuid,
                    vs_uuid=member.vs_uuid if member.controller_uuid else "",
                    public_ip=member.public_ip,
                    enabled=member.ready,
                )
                for member in by_priority[priority]
            ),
        )


def _monitors_by_name(service: GlobalService) -> dict[str, Monitor]:
    """The monitors of a service by generated name: those of members, then those of their paths.

    Of monitors with the same name the first counts; members that are judged by readiness alone
    (`control_plane_only`) are left out.
    """
    probed = [member for member in service.spec.members if not member.control_plane_only]
    primary = [monitor for member in probed for monitor in member.monitors]
    others = [path.monitor for member in probed for path in member.paths]
    found: dict[str, Monitor] = {}
    for monitor in (*primary, *others):
        if monitor is not None:
            found.setdefault(_monitor_name(service.spec.host, monitor), monitor)
    return found


def _monitor_name(host: str, monitor: Monitor) -> str:
    """The name of a generated monitor: `amko--<host>--<type>-<port>`.

    A path other than the root adds `-<readable path>-<hash>`, the readable part cut to
    MAX_PATH_NAME.
    """
    name = f"amko--{host}--{monitor.type.lower()}-{monitor.port}"
    if monitor.path in ("", "/"):
        return name
    readable = re.sub(r"[^A-Za-z0-9]+", "-", monitor.path).strip("-")[:MAX_PATH_NAME]
    digest = sha256(monitor.path.encode()).hexdigest()[:8]
    return f"{name}-{readable}-{digest}"


def _avi_monitor_spec(monitor: Monitor, host: str) -> AviMonitorSpec:
    """The health monitor at the controller: HTTP, HTTPS and UDP stay, all other types become TCP.

    HTTP and HTTPS ask for HEAD / of the host and accept 2xx and 3xx unless the monitor says
    otherwise; single status codes are widened to their classes.
    """
    spec = AviMonitorSpec(
        port=monitor.port,
        interval=monitor.interval,
        timeout=monitor.timeout,
        up=monitor.up,
        down=monitor.down,
    )
    if monitor.type == "UDP":
        texts = {"request": monitor.request, "response": monitor.response}
        return replace(spec, type="HEALTH_MONITOR_UDP", **texts)
    if monitor.type not in ("HTTP", "HTTPS"):
        return spec
    lines = (
        f"{monitor.method or 'HEAD'} {monitor.path or '/'} HTTP/1.1",
        f"Host: {host}",
        *monitor.headers.splitlines(),
    )
    classes = dict.fromkeys(f"HTTP_{c[0]}XX" for c in (monitor.codes or "2xx,3xx").split(","))
    return replace(
        spec,
        type=f"HEALTH_MONITOR_{monitor.type}",
        request="".join(f"{line}\r\n" for line in lines),
        codes=tuple(classes),
    )
