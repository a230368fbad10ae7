"""Services: defaulting, allocation on update, and validation."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from tinykube.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tinykube.object_meta import label_errors
from tinykube.resources import Object
from tinykube.service_allocator import needs_health_check
from tinykube.strategies.endpoints import PROTOCOLS, address_errors
from tinykube.strategy import Strategy
from tinykube.validation import (
    dns1035_label_problems,
    dns1123_label_problems,
    dns1123_subdomain_problems,
    qualified_name_problems,
)

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_EXPOSED = ("NodePort", "LoadBalancer")
_ADDRESSING = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def default_service(service: Object) -> None:
    """Default a Service in place, by its type.

    Type ClusterIP, affinity None, protocol TCP, targetPort as port; the traffic policies become
    Cluster (the external one only if exposed or with externalIPs, the internal one not for
    ExternalName). Of a LoadBalancer also allocateLoadBalancerNodePorts and ipMode. ClientIP
    affinity lasts 10800 s; an affinity config is removed if the affinity is None.
    """
    spec = service.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort", 0) in (0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind in _EXPOSED or spec.get("externalIPs"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        status = service.get("status") or {}
        for ingress in (status.get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def prepare_service(service: Object) -> None:
    """Set missing clusterIPs of a new Service from its clusterIP, in place; allocates nothing."""
    spec = dict(service["spec"])
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    service["spec"] = spec


def prepare_service_update(service: Object, old: Object) -> None:
    """Copy allocated addresses and ports that the update omits from the old Service, in place.

    Fields that only the old type has are removed if the update left them as they were; leaving
    LoadBalancer also clears status.loadBalancer. Nothing is allocated or released.
    """
    spec, before = dict(service["spec"]), old["spec"]
    if spec.get("ports"):
        spec["ports"] = [dict(port) for port in spec["ports"]]
    service["spec"] = spec
    _sync_cluster_ips(spec, before)
    was, now = before.get("type"), spec.get("type")
    if was != "ExternalName" and now == "ExternalName":
        _drop_unchanged(spec, before, (*_ADDRESSING, "internalTrafficPolicy"))
    elif "ExternalName" not in (was, now):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    _keep_node_ports(spec, before)
    if was == "LoadBalancer" != now:
        _drop_unchanged(spec, before, ("allocateLoadBalancerNodePorts", "loadBalancerClass"))
        service["status"] = {**service.get("status", {}), "loadBalancer": {}}
    if was in _EXPOSED and now not in _EXPOSED:
        _drop_unchanged(spec, before, ("externalTrafficPolicy",))
    if needs_health_check(before) and not needs_health_check(spec):
        _drop_unchanged(spec, before, ("healthCheckNodePort",))
    elif needs_health_check(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _drop_unchanged(spec: dict[str, Any], before: dict[str, Any], fields: tuple[str, ...]) -> None:
    """Remove those of the fields from `spec`, in place, that have the same value in `before`."""
    for field in fields:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _sync_cluster_ips(spec: dict[str, Any], before: dict[str, Any]) -> None:
    """Make clusterIPs agree, in place, with clusterIP.

    If clusterIP is unchanged, empty clusterIPs become the old ones. If it changed and clusterIPs
    did not, they become that address alone, or are removed if it is empty. Else both stay as sent.
    """
    same_list = spec.get("clusterIPs", []) == before.get("clusterIPs", [])
    if spec.get("clusterIP", "") == before.get("clusterIP", ""):
        if before.get("clusterIPs") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = before["clusterIPs"]
    elif same_list:
        spec.pop("clusterIPs", None)
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]


def _keep_node_ports(spec: dict[str, Any], before: dict[str, Any]) -> None:
    """Keep the node ports of the old spec `before` in `spec`, in place, if both types are exposed.

    Ports without one get that of the old port of the same name, unless `spec` uses it. If only the
    old type is exposed, all node ports are removed; but if one is not of the old spec, all stay,
    for validation to refuse. Exposed types are NodePort and LoadBalancer.
    """
    ports, old_ports = spec.get("ports") or [], before.get("ports") or []
    was, now = before.get("type") in _EXPOSED, spec.get("type") in _EXPOSED
    held = {port.get("name", ""): port.get("nodePort", 0) for port in old_ports}
    if was and now:
        used = {port.get("nodePort", 0) for port in ports} & set(held.values())
        for port in ports:
            known = held.get(port.get("name", ""), 0)
            if not port.get("nodePort") and known and known not in used:
                port["nodePort"] = known
    elif was and not now:
        sent = {port.get("nodePort", 0) for port in ports}
        if sent <= {0, *held.values()}:
            for port in ports:
                port.pop("nodePort", None)


def service_errors(service: Object) -> Iterator[FieldError]:
    """Validation errors of a Service; whether addresses and ports are free is not checked."""
    spec = service["spec"]
    kind = spec.get("type", "")
    ports = spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    yield from _type_errors(spec, kind)
    names: set[str] = set()
    for at, port in enumerate(ports):
        yield from _port_errors(port, f"spec.ports[{at}]", names, several=len(ports) > 1)
    yield from label_errors(spec.get("selector") or {}, "spec.selector")
    if not spec.get("sessionAffinity"):
        yield required("spec.sessionAffinity")
    elif spec["sessionAffinity"] not in ("ClientIP", "None"):
        yield unsupported("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    yield from _cluster_ip_errors(spec, kind)
    yield from _traffic_errors(spec, kind)
    if kind not in _EXPOSED:
        for at, port in enumerate(ports):
            if port.get("nodePort"):
                detail = f"may not be used when `type` is '{kind}'"
                yield forbidden(f"spec.ports[{at}].nodePort", detail)
    yield from _duplicate_port_errors(ports)


def _traffic_errors(spec: dict[str, Any], kind: str) -> Iterator[FieldError]:
    """Errors of addresses in externalIPs and of unknown traffic policies.

    loadBalancerSourceRanges and loadBalancerClass are refused unless the type (`kind`) is
    LoadBalancer, externalTrafficPolicy unless it is exposed or has externalIPs.
    """
    policies = ("Cluster", "Local")
    for at, address in enumerate(spec.get("externalIPs") or ()):
        yield from address_errors(address, f"spec.externalIPs[{at}]", "")
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        detail = "may only be used when `type` is 'LoadBalancer'"
        yield forbidden("spec.LoadBalancerSourceRanges", detail)
    internal, external = spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy")
    if internal and internal not in policies:
        yield unsupported("spec.internalTrafficPolicy", internal, policies)
    field = "spec.externalTrafficPolicy"
    if external and kind not in _EXPOSED and not spec.get("externalIPs"):
        yield invalid(field, external, "may only be set for externally-accessible services")
    elif external and external not in policies:
        yield unsupported(field, external, policies)
    if spec.get("loadBalancerClass") and kind != "LoadBalancer":
        detail = "may only be used when `type` is 'LoadBalancer'"
        yield forbidden("spec.loadBalancerClass", detail)


def _type_errors(spec: dict[str, Any], kind: str) -> Iterator[FieldError]:
    """Errors of the type (`kind`) and of what it excludes or requires.

    Exposed types may not be headless; ExternalName needs a valid externalName and may not have
    clusterIPs, ipFamilies or ipFamilyPolicy.
    """
    if not kind:
        yield required("spec.type")
    elif kind not in _TYPES:
        yield unsupported("spec.type", kind, _TYPES)
    if kind == "LoadBalancer" and spec.get("clusterIP") == "None":
        yield invalid(
            "spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services"
        )
    if kind == "NodePort" and spec.get("clusterIP") == "None":
        yield invalid(
            "spec.clusterIPs[0]", "None", "may not be set to 'None' for NodePort services"
        )
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                detail = "may not be set for ExternalName services"
                yield forbidden(f"spec.{field}", detail)
        name = (spec.get("externalName") or "").rstrip(".")
        if not name:
            yield required("spec.externalName")
        for problem in dns1123_subdomain_problems(name) if name else ():
            yield invalid("spec.externalName", name, problem)


def _port_errors(
    port: dict[str, Any], field: str, names: set[str], *, several: bool
) -> Iterator[FieldError]:
    """Errors of one port; its name is added to `names`, and required if there are several."""
    name = port.get("name", "")
    if several and not name:
        yield required(f"{field}.name")
    elif name:
        for problem in dns1123_label_problems(name):
            yield invalid(f"{field}.name", name, problem)
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
    number = port.get("port", 0)
    if not 1 <= number <= 65535:
        yield invalid(f"{field}.port", number, _PORT_RANGE)
    if port.get("protocol") not in PROTOCOLS:
        yield unsupported(f"{field}.protocol", port.get("protocol", ""), PROTOCOLS)
    yield from _target_port_errors(port.get("targetPort", 0), f"{field}.targetPort")
    if port.get("appProtocol"):
        for problem in qualified_name_problems(port["appProtocol"]):
            yield invalid(f"{field}.appProtocol", port["appProtocol"], problem)


def _target_port_errors(target: Any, field: str) -> Iterator[FieldError]:
    """Errors of a targetPort: a number from 1 to 65535 or a port name.

    A name has up to 15 of a-z, 0-9 and `-`, at least one of them a letter.
    """
    if isinstance(target, int):
        if not 1 <= target <= 65535:
            yield invalid(field, target, _PORT_RANGE)
        return
    if len(target) > 15:
        yield invalid(field, target, "must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]*", target):
        detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield invalid(field, target, detail)
    elif not any(letter.isalpha() for letter in target):
        yield invalid(field, target, "must contain at least one letter (a-z)")


def _cluster_ip_errors(spec: dict[str, Any], kind: str) -> Iterator[FieldError]:
    """Errors of clusterIP(s), families and policy; none for ExternalName.

    `kind` is the Service's type.
    """
    if kind == "ExternalName":
        return
    single, several = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    field = "spec.clusterIPs"
    if single and several and several[0] != single:
        yield invalid(field, several, "first value must match `clusterIP`")
    if not single and several:
        yield invalid(field, several, "must be empty when `clusterIP` is not specified")
    families = spec.get("ipFamilies") or []
    yield from _family_errors(families, spec.get("ipFamilyPolicy") or "")
    if "None" in several[:1] and len(several) > 1:
        yield invalid(field, several, "'None' must be the first and only value")
    if len(several) > 2:
        yield invalid(field, several, "may only hold up to 2 values")
    for at, address in enumerate(several):
        if address != "None":
            yield from _address_family_errors(address, at, families)


def _family_errors(families: list[str], policy: str) -> Iterator[FieldError]:
    """Errors of unknown or repeated families and of an unknown policy."""
    for at, family in enumerate(families):
        if family not in ("IPv4", "IPv6"):
            yield unsupported(f"spec.ipFamilies[{at}]", family, ("IPv4", "IPv6"))
        if family in families[:at]:
            yield duplicate(f"spec.ipFamilies[{at}]", family)
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    if policy and policy not in policies:
        yield unsupported("spec.ipFamilyPolicy", policy, policies)


def _address_family_errors(address: str, at: int, families: list[str]) -> Iterator[FieldError]:
    """An error if the address is invalid or not of the family at its index."""
    field = f"spec.clusterIPs[{at}]"
    try:
        family = f"IPv{ip_address(address).version}"
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid(field, address, detail)
        return
    if at < len(families) and families[at] != family:
        wanted = families[at]
        detail = f"expected an {wanted} value as indicated by `ipFamilies[{at}]`"
        yield invalid(field, address, detail)


def _duplicate_port_errors(ports: list[dict[str, Any]]) -> Iterator[FieldError]:
    """An error for every port that repeats protocol and number of an earlier one."""
    seen: set[tuple[str, int]] = set()
    for at, port in enumerate(ports):
        mark = (port.get("protocol", ""), port.get("port", 0))
        if mark in seen:
            told = {"Name": "", "Protocol": mark[0], "AppProtocol": None, "Port": mark[1]}
            yield duplicate(f"spec.ports[{at}]", {**told, "TargetPort": 0, "NodePort": 0})
        seen.add(mark)


def service_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Errors of a changed first or second cluster IP or IP family; adding or removing is no error.

    Also of a changed load-balancer class if both types are LoadBalancer. No errors if the type is
    or was ExternalName.
    """
    spec, before = new["spec"], old["spec"]
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return
    for field in ("clusterIPs", "ipFamilies"):
        given, held = spec.get(field) or [], before.get(field) or []
        if given and held and given[0] != held[0]:
            yield invalid(f"spec.{field}[0]", given, "may not change once set")
        elif len(given) > 1 and len(held) > 1 and given[1] != held[1]:
            yield invalid(f"spec.{field}[1]", given, "may not change once set")
    if spec.get("type") == "LoadBalancer" == before.get("type") and spec.get(
        "loadBalancerClass"
    ) != before.get("loadBalancerClass"):
        value = spec.get("loadBalancerClass")
        yield invalid("spec.loadBalancerClass", value, "may not change once set")


SERVICE_STRATEGY = Strategy(
    default=default_service,
    prepare_for_create=prepare_service,
    prepare_for_update=prepare_service_update,
    validate=service_errors,
    validate_update=service_update_errors,
    name_problems=dns1035_label_problems,
    allow_create_on_update=True,
    returns_deleted_object=True,
)
