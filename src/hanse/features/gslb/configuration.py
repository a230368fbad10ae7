"""The policy and the host rules: what they say, and in one sentence each what is wrong."""

from collections.abc import Iterable
from ipaddress import ip_address

from msgspec import Struct

from hanse.features.gslb.monitors import monitor_errors, parse_monitor
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.globalservice import Monitor
from hanse.model.kinds.gslb import (
    NAMESPACE,
    DownResponse,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBConfig,
    GSLBHostRule,
    GSLBHostRuleSpec,
    PoolAlgorithm,
    TrafficOverride,
    TrafficSplit,
)
from hanse.model.snapshot import Index, Snapshot

RULES_BY_FQDN = Index(GSLBHostRule, "gslb-fqdn", lambda r: [r.spec.fqdn.lower().removesuffix(".")])


class InvalidConfiguration(Struct, frozen=True):
    """What is wrong; it names the field and the remedy."""

    error: str


class ValidConfiguration(Struct, frozen=True):
    """The one configuration: whose applications are load balanced."""

    object: GSLBConfig
    contexts: tuple[str, ...]


def read_configuration(snapshot: Snapshot) -> ValidConfiguration | InvalidConfiguration:
    """The configuration of this cluster."""
    several = list(snapshot.in_namespace(snapshot.local, GSLBConfig, NAMESPACE))
    match several:
        case []:
            return InvalidConfiguration(f"there is no GSLBConfig in {NAMESPACE}; create one")
        case [only]:
            contexts = tuple(m.cluster_context for m in only.spec.member_clusters)
            if twice := _twice(contexts):
                field = "spec.memberClusters"
                return InvalidConfiguration(
                    f"{field}: {twice} is named twice; name each cluster once"
                )
            return ValidConfiguration(only, contexts)
        case _:
            names = ", ".join(sorted(o.metadata.name for o in several))
            return InvalidConfiguration(
                f"more than one GSLBConfig in {NAMESPACE}: {names}; delete all but one"
            )


def list_deployment_policies(snapshot: Snapshot) -> list[GlobalDeploymentPolicy]:
    """All policies of this cluster, by name."""
    several = snapshot.in_namespace(snapshot.local, GlobalDeploymentPolicy, NAMESPACE)
    return sorted(several, key=lambda p: p.metadata.name)


def read_deployment_policy(
    snapshot: Snapshot, *, named_monitors: bool
) -> GlobalDeploymentPolicySpec | InvalidConfiguration | None:
    """The policy that holds; None where there is none."""
    several = list_deployment_policies(snapshot)
    if not several:
        return None
    if len(several) > 1:
        names = ", ".join(p.metadata.name for p in several)
        kind = GlobalDeploymentPolicy.kind.name
        return InvalidConfiguration(
            f"more than one {kind} in {NAMESPACE}: {names}; delete all but one"
        )
    config = read_configuration(snapshot)
    if isinstance(config, InvalidConfiguration):
        return config
    spec = several[0].spec
    error = policy_error(spec, config.contexts) or (
        _fault_in_monitors(spec.health_monitor_refs, spec.health_monitor_template, snapshot)
        if named_monitors
        else ""
    )
    return InvalidConfiguration(error) if error else spec


def policy_error(spec: GlobalDeploymentPolicySpec, contexts: Iterable[str]) -> str:
    """What is wrong with a policy; empty where nothing is."""
    known = frozenset(contexts)
    checks = (
        _fault_in_clusters("spec.matchClusters", [m.cluster for m in spec.match_clusters], known),
        _fault_in_split(spec.traffic_split, known),
        _fault_in_selectors(spec),
        _fault_in_ttl(spec.ttl),
        _fault_in_domain(spec.default_domain),
        _fault_in_algorithm(spec.pool_algorithm_settings),
        _fault_in_down_response(spec.down_response),
        _fault_in_sources(spec.health_monitor_refs, spec.health_monitor_template),
    )
    return next(filter(None, checks), "")


def rule_error(rule: GSLBHostRule, snapshot: Snapshot, *, named_monitors: bool) -> str:
    """What is wrong with a host rule; empty where nothing is."""
    config = read_configuration(snapshot)
    spec = rule.spec
    known = frozenset(config.contexts) if isinstance(config, ValidConfiguration) else None
    checks = (
        _fault_in_rival(rule, snapshot),
        _fault_in_overrides(spec.traffic_split, _with_sites(known, spec)),
        _fault_in_members(spec),
        _fault_in_public(spec, known),
        _fault_in_ttl(spec.ttl),
        _fault_in_algorithm(spec.pool_algorithm_settings),
        _fault_in_down_response(spec.down_response),
        _fault_in_sources(spec.health_monitor_refs, spec.health_monitor_template),
        _fault_in_monitors(spec.health_monitor_refs, spec.health_monitor_template, snapshot)
        if named_monitors
        else "",
    )
    return next(filter(None, checks), "")


def find_host_rule(host: str, snapshot: Snapshot) -> GSLBHostRule | None:
    """The rule that has a say about a host: the oldest that names it."""
    return min(
        (
            r
            for r in snapshot.by(snapshot.local, RULES_BY_FQDN, host)
            if r.metadata.namespace == NAMESPACE
        ),
        key=_age,
        default=None,
    )


def list_referenced_monitors(snapshot: Snapshot) -> tuple[str, ...]:
    """Every monitor that the policy or a host rule of this cluster names."""
    specs: list[GlobalDeploymentPolicySpec | GSLBHostRuleSpec] = [
        p.spec for p in list_deployment_policies(snapshot)
    ]
    specs += [r.spec for r in snapshot.in_namespace(snapshot.local, GSLBHostRule, NAMESPACE)]
    names = [n for s in specs for n in (*s.health_monitor_refs, s.health_monitor_template)]
    return tuple(sorted({name for name in names if name}))


def read_monitors(refs: Iterable[str], template: str, snapshot: Snapshot) -> tuple[Monitor, ...]:
    """The monitors that ConfigMaps of these names describe; those that cannot be read are not."""
    names = [template] if template else list(refs)
    found = [_monitor_in(name, snapshot) for name in names]
    return tuple(m for m in found if isinstance(m, Monitor))


def _age(rule: GSLBHostRule) -> tuple[str, str]:
    made = rule.metadata.creation_timestamp
    return (made.isoformat() if made else "", rule.metadata.name)


def _fault_in_rival(rule: GSLBHostRule, snapshot: Snapshot) -> str:
    host = rule.spec.fqdn.lower().removesuffix(".")
    first = find_host_rule(host, snapshot)
    if first is None or first.metadata.name == rule.metadata.name:
        return ""
    other = first.metadata.name
    return f"spec.fqdn: {host} has rule {other} already; delete one of the two"


def _fault_in_clusters(field: str, named: list[str], known: frozenset[str]) -> str:
    if twice := _twice(named):
        return f"{field}: {twice} is named twice; name each cluster once"
    for at, name in enumerate(named):
        if name not in known:
            at_field = f"{field}[{at}].cluster"
            return f"{at_field}: {name} is no member cluster of the GSLBConfig; add it there"
    return ""


def _fault_in_split(split: tuple[TrafficSplit, ...], known: frozenset[str]) -> str:
    field = "spec.trafficSplit"
    if fault := _fault_in_clusters(field, [s.cluster for s in split], known):
        return fault
    return _fault_in_shares((s.weight, s.priority) for s in split)


def _fault_in_overrides(split: tuple[TrafficOverride, ...], known: frozenset[str] | None) -> str:
    named = [s.cluster for s in split]
    fault = _fault_in_clusters("spec.trafficSplit", named, known or frozenset(named))
    return fault or _fault_in_shares((s.weight, s.priority) for s in split)


def _with_sites(known: frozenset[str] | None, spec: GSLBHostRuleSpec) -> frozenset[str] | None:
    """Whom a rule may give a part of the traffic: member clusters, and third parties by site."""
    sites = {member.site for member in spec.third_party_members if member.site}
    return None if known is None else known | sites


def _fault_in_shares(shares: Iterable[tuple[int | None, int | None]]) -> str:
    for at, (weight, priority) in enumerate(shares):
        if weight is not None and not 1 <= weight <= 20:
            return f"spec.trafficSplit[{at}].weight: {weight} is not from 1 to 20"
        if priority is not None and not 0 <= priority <= 100:
            return f"spec.trafficSplit[{at}].priority: {priority} is not from 0 to 100"
    return ""


def _fault_in_selectors(spec: GlobalDeploymentPolicySpec) -> str:
    rules = spec.match_rules
    for field, selector in (
        ("appSelector", rules.app_selector),
        ("namespaceSelector", rules.namespace_selector),
    ):
        if selector is not None and not selector.label:
            return f"spec.matchRules.{field}.label: it has no labels; give at least one"
    return ""


def _fault_in_ttl(ttl: int | None) -> str:
    if ttl is not None and not 0 <= ttl <= 86400:
        return f"spec.ttl: {ttl} is not from 0 to 86400 seconds"
    return ""


def _fault_in_domain(domain: str) -> str:
    labels = domain.split(".") if domain else []
    if all(0 < len(label) <= 63 and label.isascii() for label in labels) and len(domain) <= 200:
        return ""
    return f"spec.defaultDomain: {domain!r} is no domain; write it as example.org"


def _fault_in_algorithm(settings: PoolAlgorithm | None) -> str:
    if settings is None:
        return ""
    field = "spec.poolAlgorithmSettings"
    if settings.lb_algorithm == "GSLB_ALGORITHM_CONSISTENT_HASH" and settings.hash_mask is None:
        return f"{field}.hashMask: it is needed for a consistent hash; give 1 to 31"
    fallback = settings.geo_fallback
    masks = [("hashMask", settings.hash_mask)]
    if fallback is not None:
        masks.append(("geoFallback.hashMask", fallback.hash_mask))
        hashes = fallback.lb_algorithm == "GSLB_ALGORITHM_CONSISTENT_HASH"
        if hashes and fallback.hash_mask is None:
            return f"{field}.geoFallback.hashMask: it is needed for a consistent hash; give 1 to 31"
    for name, mask in masks:
        if mask is not None and not 1 <= mask <= 31:
            return f"{field}.{name}: {mask} is not from 1 to 31"
    return ""


def _fault_in_down_response(response: DownResponse | None) -> str:
    if response is None:
        return ""
    needs = response.type == "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP"
    if needs and not _is_address(response.fallback_ip):
        return "spec.downResponse.fallbackIP: it is needed for this type; give an IP address"
    if needs and (fault := _fault_in_address("spec.downResponse.fallbackIP", response.fallback_ip)):
        return fault
    if response.fallback_ip and not needs:
        return f"spec.downResponse.fallbackIP: it has no meaning with {response.type}; leave it out"
    return ""


def _fault_in_sources(refs: tuple[str, ...], template: str) -> str:
    if refs and template:
        return "spec.healthMonitorTemplate: give either healthMonitorRefs or healthMonitorTemplate"
    return ""


def _fault_in_members(spec: GSLBHostRuleSpec) -> str:
    for at, member in enumerate(spec.third_party_members):
        field = f"spec.thirdPartyMembers[{at}]"
        told = [("vip", member.vip)]
        told += [("publicIP", member.public_ip)] if member.public_ip else []
        for name, address in told:
            if fault := _fault_in_address(f"{field}.{name}", address):
                return fault
    if twice := _twice([m.vip for m in spec.third_party_members]):
        return f"spec.thirdPartyMembers: {twice} is named twice; name each address once"
    return ""


def _fault_in_public(spec: GSLBHostRuleSpec, known: frozenset[str] | None) -> str:
    named = [p.cluster for p in spec.public_ip]
    if fault := _fault_in_clusters("spec.publicIP", named, known or frozenset(named)):
        return fault
    for at, public in enumerate(spec.public_ip):
        if fault := _fault_in_address(f"spec.publicIP[{at}].ip", public.ip):
            return fault
    return ""


def _fault_in_monitors(refs: tuple[str, ...], template: str, snapshot: Snapshot) -> str:
    fields = [("spec.healthMonitorTemplate", template)] if template else []
    fields += [(f"spec.healthMonitorRefs[{at}]", name) for at, name in enumerate(refs)]
    for field, name in fields:
        found = _monitor_in(name, snapshot)
        if isinstance(found, InvalidConfiguration):
            return f"{field}: {found.error}"
    return ""


def _monitor_in(name: str, snapshot: Snapshot) -> Monitor | InvalidConfiguration:
    """The monitor that a ConfigMap describes, each field under its own name."""
    told = snapshot.get(snapshot.local, ConfigMap, name, NAMESPACE)
    if told is None:
        return InvalidConfiguration(f"there is no ConfigMap {name} in {NAMESPACE}; create it")
    fault = next(monitor_errors(told.data), "")
    return (
        InvalidConfiguration(f"ConfigMap {name} describes no monitor: {fault}")
        if fault
        else parse_monitor(told.data)
    )


def _twice(named: Iterable[str]) -> str:
    met: set[str] = set()
    for name in named:
        if name in met:
            return name
        met.add(name)
    return ""


def _fault_in_address(field: str, text: str) -> str:
    """Whether clients can be sent to an address; loopback is for those who try things out."""
    if not _is_address(text):
        return f"{field}: {text!r} is no IP address"
    ip = ip_address(text)
    if ip.is_unspecified or ip.is_multicast or ip.is_link_local:
        return f"{field}: {text} is no address that clients can be sent to; give another"
    return ""


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
