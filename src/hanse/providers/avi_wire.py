"""Converts objects between the Avi controller's JSON and our structs; pure."""

from typing import Any

import msgspec

from hanse.features.gslb.avi import NO_RESPONSE
from hanse.model.json_input import decode_json
from hanse.model.kinds.avi import (
    AviGslbService,
    AviHealthMonitor,
    AviMember,
    AviMonitorSpec,
    AviPool,
    AviServiceSpec,
)
from hanse.model.objects import Meta, Wire

OWN_FIELDS = frozenset(
    {
        "ttl",
        "down_response",
        "site_persistence_enabled",
        "application_persistence_profile_ref",
        "pki_profile_ref",
        "http_monitor",
        "https_monitor",
    }
)
"""Fields that we set or leave out: left out of an update, they are unset."""


def encode_service(service: AviGslbService) -> Wire:
    """The JSON of a GslbService; unset fields are left to the controller's defaults.

    Labels and annotations are in its description, references are by name.
    """
    spec = service.spec
    body: Wire = {
        "name": service.metadata.name,
        "domain_names": list(spec.domain_names),
        "groups": [_encode_pool(pool) for pool in spec.groups],
        "health_monitor_refs": [f"/api/healthmonitor?name={n}" for n in spec.health_monitors],
        "controller_health_status_enabled": True,
        "health_monitor_scope": "GSLB_SERVICE_HEALTH_MONITOR_ALL_MEMBERS",
        "created_by": spec.created_by,
        "description": encode_metadata(service.metadata),
    }
    if spec.ttl is not None:
        body["ttl"] = spec.ttl
    if spec.down_response:
        body["down_response"] = {
            "type": spec.down_response,
            **({"fallback_ip": _ip_field(spec.fallback_ip)} if spec.fallback_ip else {}),
        }
    if spec.site_persistence:
        body["site_persistence_enabled"] = True
        body["application_persistence_profile_ref"] = (
            f"/api/applicationpersistenceprofile?name={spec.site_persistence}"
        )
    if spec.pki_profile:
        body["pki_profile_ref"] = f"/api/pkiprofile?name={spec.pki_profile}"
    return body


def decode_service(wire: Wire) -> AviGslbService:
    """The GslbService in a controller's JSON; missing fields are empty, a missing TTL is None.

    The default down response of the controller is read as an empty one; references as names.
    """
    down = wire.get("down_response") or {}
    refs = wire.get("health_monitor_refs") or ()
    spec = AviServiceSpec(
        domain_names=tuple(wire.get("domain_names") or ()),
        groups=tuple(_decode_pool(pool) for pool in wire.get("groups") or ()),
        ttl=wire.get("ttl"),
        down_response=down.get("type", "").replace(NO_RESPONSE, ""),
        fallback_ip=(down.get("fallback_ip") or {}).get("addr", ""),
        health_monitors=tuple(_ref_name(ref) for ref in refs),
        created_by=wire.get("created_by", ""),
        site_persistence=_ref_name(wire.get("application_persistence_profile_ref") or ""),
        pki_profile=_ref_name(wire.get("pki_profile_ref") or ""),
    )
    return AviGslbService(metadata=_meta(wire), spec=spec)


def encode_monitor(monitor: AviHealthMonitor) -> Wire:
    """The JSON of a federated health monitor, with labels and annotations in its description."""
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
        "description": encode_metadata(monitor.metadata),
    }
    field = {"HEALTH_MONITOR_HTTP": "http_monitor", "HEALTH_MONITOR_HTTPS": "https_monitor"}
    if spec.type in field:
        body[field[spec.type]] = {
            "http_request": spec.request,
            "http_response_code": list(spec.codes),
            **(
                {"ssl_attributes": {"ssl_profile_ref": "/api/sslprofile?name=System-Standard"}}
                if spec.type == "HEALTH_MONITOR_HTTPS"
                else {}
            ),
        }
    if spec.type == "HEALTH_MONITOR_UDP":
        body["udp_monitor"] = {"udp_request": spec.request, "udp_response": spec.response}
    return body


def decode_monitor(wire: Wire) -> AviHealthMonitor:
    """The health monitor in a controller's JSON; missing fields are empty or 0."""
    http = wire.get("http_monitor") or wire.get("https_monitor") or {}
    udp = wire.get("udp_monitor") or {}
    spec = AviMonitorSpec(
        type=wire.get("type", ""),
        port=wire.get("monitor_port", 0),
        interval=wire.get("send_interval", 0),
        timeout=wire.get("receive_timeout", 0),
        up=wire.get("successful_checks", 0),
        down=wire.get("failed_checks", 0),
        request=http.get("http_request", "") or udp.get("udp_request", ""),
        response=udp.get("udp_response", ""),
        codes=tuple(http.get("http_response_code") or ()),
    )
    return AviHealthMonitor(metadata=_meta(wire), spec=spec)


def encode_metadata(meta: Meta) -> str:
    """Labels and annotations as JSON text, which is kept as the description of an object."""
    return msgspec.json.encode(
        {"labels": meta.labels, "annotations": meta.annotations}, order="sorted"
    ).decode()


def _meta(wire: Wire) -> Meta:
    """Name, uid, and the labels and annotations in the description if it is JSON, else none."""
    kept: dict[str, Any] = {}
    text = wire.get("description") or ""
    if text.startswith("{"):
        try:
            kept = decode_json(text)
        except msgspec.DecodeError:
            kept = {}
    return Meta(
        name=str(wire.get("name", "")),
        uid=str(wire.get("uuid", "")),
        labels=_string_map(kept.get("labels")),
        annotations=_string_map(kept.get("annotations")),
    )


def _string_map(found: Any) -> dict[str, str]:
    """A map with text keys and values; empty for anything that is no map."""
    return {str(n): str(v) for n, v in found.items()} if isinstance(found, dict) else {}


def _encode_pool(pool: AviPool) -> Wire:
    """The wire data of a GSLB pool; fields that are not set are left out."""
    body: Wire = {
        "name": pool.name,
        "priority": pool.priority,
        "algorithm": pool.algorithm,
        "members": [
            {
                "ip": _ip_field(member.ip),
                "ratio": member.ratio,
                "enabled": member.enabled,
                **({"cluster_uuid": member.cluster_uuid} if member.cluster_uuid else {}),
                **({"vs_uuid": member.vs_uuid} if member.vs_uuid else {}),
                **({"public_ip": {"ip": _ip_field(member.public_ip)}} if member.public_ip else {}),
            }
            for member in pool.members
        ],
    }
    if pool.consistent_hash_mask is not None:
        body["consistent_hash_mask"] = pool.consistent_hash_mask
    if pool.fallback_algorithm:
        body["fallback_algorithm"] = pool.fallback_algorithm
    return body


def _decode_pool(wire: Wire) -> AviPool:
    """The GSLB pool in a controller's JSON; missing fields have the controller's defaults."""
    return AviPool(
        name=wire.get("name", ""),
        priority=wire.get("priority", 10),
        algorithm=wire.get("algorithm", "GSLB_ALGORITHM_ROUND_ROBIN"),
        consistent_hash_mask=wire.get("consistent_hash_mask"),
        fallback_algorithm=wire.get("fallback_algorithm", ""),
        members=tuple(
            AviMember(
                ip=(member.get("ip") or {}).get("addr", ""),
                ratio=member.get("ratio", 1),
                cluster_uuid=member.get("cluster_uuid", ""),
                vs_uuid=member.get("vs_uuid", ""),
                public_ip=((member.get("public_ip") or {}).get("ip") or {}).get("addr", ""),
                enabled=member.get("enabled", True),
            )
            for member in wire.get("members") or ()
        ),
    )


def _ip_field(address: str) -> Wire:
    """An address as the controller has it, with type V4 or V6."""
    return {"addr": address, "type": "V6" if ":" in address else "V4"}


def _ref_name(ref: str) -> str:
    """The name in a reference: after `?name=` or, in answers, `#`; else its last path segment."""
    for separator in ("#", "name="):
        if separator in ref:
            return ref.rpartition(separator)[2]
    return ref.rpartition("/")[2]
