"""Objects of an Avi controller as it has them and as we have them; pure."""

from typing import Any

import msgspec

from hanse.model.kinds.avi import (
    AviGslbService,
    AviHealthMonitor,
    AviMember,
    AviMonitorSpec,
    AviPool,
    AviServiceSpec,
)
from hanse.model.objects import Meta, Wire

OK_CODES = ["HTTP_2XX", "HTTP_3XX"]


def service_to(service: AviGslbService) -> Wire:
    """A GslbService as the controller takes it; what is not said is left to its defaults."""
    spec = service.spec
    body: Wire = {
        "name": service.metadata.name,
        "domain_names": list(spec.domain_names),
        "groups": [_pool_to(pool) for pool in spec.groups],
        "health_monitor_refs": [f"/api/healthmonitor?name={n}" for n in spec.health_monitors],
        "controller_health_status_enabled": True,
        "health_monitor_scope": "GSLB_SERVICE_HEALTH_MONITOR_ALL_MEMBERS",
        "created_by": spec.created_by,
        "description": marks_to(service.metadata),
    }
    if spec.ttl is not None:
        body["ttl"] = spec.ttl
    if spec.down_response:
        body["down_response"] = {
            "type": spec.down_response,
            **({"fallback_ip": _ip(spec.fallback_ip)} if spec.fallback_ip else {}),
        }
    if spec.site_persistence:
        body["site_persistence_enabled"] = True
        body["application_persistence_profile_ref"] = (
            f"/api/applicationpersistenceprofile?name={spec.site_persistence}"
        )
    if spec.pki_profile:
        body["pki_profile_ref"] = f"/api/pkiprofile?name={spec.pki_profile}"
    return body


def service_from(told: Wire) -> AviGslbService:
    """A GslbService as the controller tells it."""
    down = told.get("down_response") or {}
    refs = told.get("health_monitor_refs") or ()
    spec = AviServiceSpec(
        domain_names=tuple(told.get("domain_names") or ()),
        groups=tuple(_pool_from(pool) for pool in told.get("groups") or ()),
        ttl=told.get("ttl"),
        down_response=down.get("type", ""),
        fallback_ip=(down.get("fallback_ip") or {}).get("addr", ""),
        health_monitors=tuple(_named(ref) for ref in refs),
        created_by=told.get("created_by", ""),
        site_persistence=_named(told.get("application_persistence_profile_ref") or ""),
        pki_profile=_named(told.get("pki_profile_ref") or ""),
    )
    return AviGslbService(metadata=_meta(told), spec=spec)


def monitor_to(monitor: AviHealthMonitor) -> Wire:
    """A health monitor as the controller takes it."""
    spec = monitor.spec
    body: Wire = {
        "name": monitor.metadata.name,
        "type": spec.type,
        "is_federated": True,
        "monitor_port": spec.port,
        "send_interval": spec.interval,
        "receive_timeout": spec.timeout,
        "successful_checks": spec.up,
        "failed_checks": spec.down,
        "description": marks_to(monitor.metadata),
    }
    field = {"HEALTH_MONITOR_HTTP": "http_monitor", "HEALTH_MONITOR_HTTPS": "https_monitor"}
    if spec.type in field:
        body[field[spec.type]] = {
            "http_request": spec.request,
            "http_response_code": OK_CODES,
            **(
                {"ssl_attributes": {"ssl_profile_ref": "/api/sslprofile?name=System-Standard"}}
                if spec.type == "HEALTH_MONITOR_HTTPS"
                else {}
            ),
        }
    return body


def monitor_from(told: Wire) -> AviHealthMonitor:
    """A health monitor as the controller tells it."""
    http = told.get("http_monitor") or told.get("https_monitor") or {}
    spec = AviMonitorSpec(
        type=told.get("type", ""),
        port=told.get("monitor_port", 0),
        interval=told.get("send_interval", 0),
        timeout=told.get("receive_timeout", 0),
        up=told.get("successful_checks", 0),
        down=told.get("failed_checks", 0),
        request=http.get("http_request", ""),
    )
    return AviHealthMonitor(metadata=_meta(told), spec=spec)


def marks_to(meta: Meta) -> str:
    """Whose an object is, in words that a controller keeps."""
    return msgspec.json.encode(
        {"labels": meta.labels, "annotations": meta.annotations}, order="sorted"
    ).decode()


def _meta(told: Wire) -> Meta:
    marks: dict[str, Any] = {}
    text = told.get("description") or ""
    if text.startswith("{"):
        try:
            marks = msgspec.json.decode(text)
        except msgspec.DecodeError:
            marks = {}
    return Meta(
        name=str(told.get("name", "")),
        uid=str(told.get("uuid", "")),
        labels=_strings(marks.get("labels")),
        annotations=_strings(marks.get("annotations")),
    )


def _strings(found: Any) -> dict[str, str]:
    return {str(n): str(v) for n, v in found.items()} if isinstance(found, dict) else {}


def _pool_to(pool: AviPool) -> Wire:
    body: Wire = {
        "name": pool.name,
        "priority": pool.priority,
        "algorithm": pool.algorithm,
        "members": [
            {
                "ip": _ip(member.ip),
                "ratio": member.ratio,
                "enabled": member.enabled,
                **({"cluster_uuid": member.cluster_uuid} if member.cluster_uuid else {}),
                **({"public_ip": {"ip": _ip(member.public_ip)}} if member.public_ip else {}),
            }
            for member in pool.members
        ],
    }
    if pool.consistent_hash_mask is not None:
        body["consistent_hash_mask"] = pool.consistent_hash_mask
    if pool.fallback_algorithm:
        body["fallback_algorithm"] = pool.fallback_algorithm
    return body


def _pool_from(told: Wire) -> AviPool:
    return AviPool(
        name=told.get("name", ""),
        priority=told.get("priority", 10),
        algorithm=told.get("algorithm", "GSLB_ALGORITHM_ROUND_ROBIN"),
        consistent_hash_mask=told.get("consistent_hash_mask"),
        fallback_algorithm=told.get("fallback_algorithm", ""),
        members=tuple(
            AviMember(
                ip=(member.get("ip") or {}).get("addr", ""),
                ratio=member.get("ratio", 1),
                cluster_uuid=member.get("cluster_uuid", ""),
                public_ip=((member.get("public_ip") or {}).get("ip") or {}).get("addr", ""),
                enabled=member.get("enabled", True),
            )
            for member in told.get("members") or ()
        ),
    )


def _ip(address: str) -> Wire:
    return {"addr": address, "type": "V6" if ":" in address else "V4"}


def _named(ref: str) -> str:
    """The name at the end of a reference: `…?name=x`, or as the controller tells it, `…#x`."""
    for mark in ("#", "name="):
        if mark in ref:
            return ref.rpartition(mark)[2]
    return ref.rpartition("/")[2]
