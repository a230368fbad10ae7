"""Reads and validates GSLBConfig, GlobalDeploymentPolicy and GSLBHostRules."""

from collections.abc import Iterable
from ipaddress import ip_address

from msgspec import Struct

from hanse.features.gslb.monitors import monitors_error
from hanse.model.addresses import is_address, reached_addresses
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

NO_MEMBER = "is no member cluster of the GSLBConfig"
SEVERAL = "more than one"
"""How an error begins that is for too many of a kind."""
RULES_BY_FQDN = Index(GSLBHostRule, "gslb-fqdn", lambda r: [r.spec.fqdn.lower().removesuffix(".")])


class InvalidConfiguration(Struct, frozen=True):
    """Configuration that cannot be used; the error names the field and the remedy."""

    error: str


class ValidConfiguration(Struct, frozen=True):
    """The GSLBConfig, and the contexts of its member clusters."""

    object: GSLBConfig
    contexts: tuple[str, ...]


def read_configuration(snapshot: Snapshot) -> ValidConfiguration | InvalidConfiguration:
    """The only GSLBConfig in the local GSLB namespace, with the contexts of its member clusters.

    An error if there is none, there are several, or a context is named twice.
    """
    configs = list(snapshot.in_namespace(snapshot.local, GSLBConfig, NAMESPACE))
    match configs:
        case []:
            return InvalidConfiguration(f"there is no GSLBConfig in {NAMESPACE}; create one")
        case [only]:
            contexts = tuple(m.cluster_context for m in only.spec.member_clusters)
            if duplicate := _first_duplicate(contexts):
                field = "spec.memberClusters"
                return InvalidConfiguration(
                    f"{field}: {duplicate} is named twice; name each cluster once"
                )
            return ValidConfiguration(only, contexts)
        case _:
            names = ", ".join(sorted(o.metadata.name for o in configs))
            return InvalidConfiguration(
                f"{SEVERAL} GSLBConfig in {NAMESPACE}: {names}; delete all but one"
            )


def list_deployment_policies(snapshot: Snapshot) -> list[GlobalDeploymentPolicy]:
    """The GlobalDeploymentPolicies of this cluster in the GSLB namespace, by name."""
    policies = snapshot.in_namespace(snapshot.local, GlobalDeploymentPolicy, NAMESPACE)
    return sorted(policies, key=lambda p: p.metadata.name)


def read_deployment_policy(
    snapshot: Snapshot, *, named_monitors: bool
) -> GlobalDeploymentPolicySpec | InvalidConfiguration | None:
    """The spec of the only policy if it is valid, else the error; None if there is no policy.

    Several policies and an invalid GSLBConfig are errors. `named_monitors`: monitors' ConfigMaps
    are checked.
    """
    policies = list_deployment_policies(snapshot)
    if not policies:
        return None
    if len(policies) > 1:
        names = ", ".join(p.metadata.name for p in policies)
        kind = GlobalDeploymentPolicy.kind.name
        return InvalidConfiguration(
            f"more than one {kind} in {NAMESPACE}: {names}; delete all but one"
        )
    config = read_configuration(snapshot)
    if isinstance(config, InvalidConfiguration):
        return config
    spec = policies[0].spec
    error = policy_error(spec, config.contexts)
    if not error and named_monitors:
        error = monitors_error(spec, snapshot)
    return InvalidConfiguration(error) if error else spec


def policy_error(spec: GlobalDeploymentPolicySpec, contexts: Iterable[str]) -> str:
    """The first error of a policy, but for its monitors' ConfigMaps; empty if it is valid."""
    known = frozenset(contexts)
    checks = (
        _clusters_error("spec.matchClusters", [m.cluster for m in spec.match_clusters], known),
        _split_error(spec.traffic_split, known),
        _selectors_error(spec),
        _ttl_error(spec.ttl),
        _domain_error(spec.default_domain),
        _algorithm_error(spec.pool_algorithm_settings),
        _down_response_error(spec.down_response),
        _monitor_choice_error(spec.health_monitor_refs, spec.health_monitor_template),
    )
    return next(filter(None, checks), "")


def rule_error(rule: GSLBHostRule, snapshot: Snapshot, *, named_monitors: bool) -> str:
    """The first error of a host rule, else empty; an older rule for the same host is one.

    Clusters are checked only with a valid GSLBConfig; sites of third parties may get shares, too.
    `named_monitors`: monitors' ConfigMaps are checked.
    """
    config = read_configuration(snapshot)
    spec = rule.spec
    known = frozenset(config.contexts) if isinstance(config, ValidConfiguration) else None
    checks = (
        _duplicate_rule_error(rule, snapshot),
        _overrides_error(spec.traffic_split, _with_sites(known, spec)),
        _third_parties_error(spec),
        _public_ips_error(spec, known),
        _ttl_error(spec.ttl),
        _algorithm_error(spec.pool_algorithm_settings),
        _down_response_error(spec.down_response),
        _monitor_choice_error(spec.health_monitor_refs, spec.health_monitor_template),
        monitors_error(spec, snapshot) if named_monitors else "",
    )
    return next(filter(None, checks), "")


def find_host_rule(host: str, snapshot: Snapshot) -> GSLBHostRule | None:
    """The oldest GSLBHostRule here whose fqdn is the host, valid or not; else None."""
    return min(
        (
            r
            for r in snapshot.by(snapshot.local, RULES_BY_FQDN, host)
            if r.metadata.namespace == NAMESPACE
        ),
        key=_creation_order,
        default=None,
    )


def _creation_order(rule: GSLBHostRule) -> tuple[str, str]:
    """The sort key of host rules: the oldest first, then by name."""
    created = rule.metadata.creation_timestamp
    return (created.isoformat() if created else "", rule.metadata.name)


def _duplicate_rule_error(rule: GSLBHostRule, snapshot: Snapshot) -> str:
    """The error if another, older rule is effective for the same host; else empty."""
    host = rule.spec.fqdn.lower().removesuffix(".")
    first = find_host_rule(host, snapshot)
    if first is None or first.metadata.name == rule.metadata.name:
        return ""
    other = first.metadata.name
    return f"spec.fqdn: {host} has rule {other} already; delete one of the two"


def _clusters_error(field: str, named: list[str], known: frozenset[str] | None) -> str:
    """The error if a cluster is named twice or is not in `known`; else empty.

    If `known` is None, only the former is checked.
    """
    if duplicate := _first_duplicate(named):
        return f"{field}: {duplicate} is named twice; name each cluster once"
    return _unknown_cluster_error(field, named, known)


def _unknown_cluster_error(field: str, named: list[str], known: frozenset[str] | None) -> str:
    """The error of the first cluster that is not in `known`; empty if none, or `known` is None."""
    for index, name in enumerate(named):
        if known is not None and name not in known:
            at_field = f"{field}[{index}].cluster"
            return f"{at_field}: {name} {NO_MEMBER}; add it there"
    return ""


def _split_error(split: tuple[TrafficSplit, ...], known: frozenset[str]) -> str:
    """The first error of a policy's traffic split: of its clusters, weights or priorities; else "".

    A cluster must be in `known` and be named once.
    """
    field = "spec.trafficSplit"
    if error := _clusters_error(field, [s.cluster for s in split], known):
        return error
    return _shares_error((s.weight, s.priority) for s in split)


def _overrides_error(split: tuple[TrafficOverride, ...], known: frozenset[str] | None) -> str:
    """The first error of a rule's traffic split: of its clusters, weights or priorities; else "".

    A cluster must be in `known`, unless that is None, and be named once.
    """
    named = [s.cluster for s in split]
    error = _clusters_error("spec.trafficSplit", named, known)
    return error or _shares_error((s.weight, s.priority) for s in split)


def _with_sites(known: frozenset[str] | None, spec: GSLBHostRuleSpec) -> frozenset[str] | None:
    """The clusters that a rule may share to: `known` and third parties' sites; None stays None."""
    sites = {member.site for member in spec.third_party_members if member.site}
    return None if known is None else known | sites


def _shares_error(shares: Iterable[tuple[int | None, int | None]]) -> str:
    """The error of the first weight not from 1 to 20 or priority not from 0 to 100; else empty.

    None is valid for both.
    """
    for index, (weight, priority) in enumerate(shares):
        if weight is not None and not 1 <= weight <= 20:
            return f"spec.trafficSplit[{index}].weight: {weight} is not from 1 to 20"
        if priority is not None and not 0 <= priority <= 100:
            return f"spec.trafficSplit[{index}].priority: {priority} is not from 0 to 100"
    return ""


def _selectors_error(spec: GlobalDeploymentPolicySpec) -> str:
    """The error of an app or namespace selector without labels; "" if valid or missing."""
    rules = spec.match_rules
    for field, selector in (
        ("appSelector", rules.app_selector),
        ("namespaceSelector", rules.namespace_selector),
    ):
        if selector is not None and not selector.label:
            return f"spec.matchRules.{field}.label: it has no labels; give at least one"
    return ""


def _ttl_error(ttl: int | None) -> str:
    """The error of a TTL that is not from 0 to 86400 seconds; empty if it is, or is None."""
    if ttl is not None and not 0 <= ttl <= 86400:
        return f"spec.ttl: {ttl} is not from 0 to 86400 seconds"
    return ""


def _domain_error(domain: str) -> str:
    """The error of a default domain with bad labels or over 200 characters; empty is allowed.

    Labels must have 1 to 63 ASCII characters, so a final dot is an error.
    """
    labels = domain.split(".") if domain else []
    if all(0 < len(label) <= 63 and label.isascii() for label in labels) and len(domain) <= 200:
        return ""
    return f"spec.defaultDomain: {domain!r} is no domain; write it as example.org"


def _algorithm_error(settings: PoolAlgorithm | None) -> str:
    """The error of a hash mask: missing for a consistent hash, or not from 1 to 31; else "".

    That is the algorithm's own mask, and that of its geoFallback.
    """
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


def _down_response_error(response: DownResponse | None) -> str:
    """The error of a fallback IP: missing or unusable for its type, given for another; else ""."""
    if response is None:
        return ""
    needs_address = response.type == "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP"
    if needs_address and not is_address(response.fallback_ip):
        return "spec.downResponse.fallbackIP: it is needed for this type; give an IP address"
    if needs_address and (
        error := _address_error("spec.downResponse.fallbackIP", response.fallback_ip)
    ):
        return error
    if response.fallback_ip and not needs_address:
        return f"spec.downResponse.fallbackIP: it has no meaning with {response.type}; leave it out"
    return ""


def _monitor_choice_error(refs: tuple[str, ...], template: str) -> str:
    """The error if both healthMonitorRefs and healthMonitorTemplate are given; else empty."""
    if refs and template:
        return "spec.healthMonitorTemplate: give either healthMonitorRefs or healthMonitorTemplate"
    return ""


def _third_parties_error(spec: GSLBHostRuleSpec) -> str:
    """The first error of third parties: an unusable VIP or public IP, or two same VIPs; else ""."""
    for index, member in enumerate(spec.third_party_members):
        field = f"spec.thirdPartyMembers[{index}]"
        addresses = [("vip", member.vip)]
        addresses += [("publicIP", member.public_ip)] if member.public_ip else []
        for name, address in addresses:
            if error := _address_error(f"{field}.{name}", address):
                return error
    if duplicate := _first_duplicate([m.vip for m in spec.third_party_members]):
        return f"spec.thirdPartyMembers: {duplicate} is named twice; name each address once"
    return ""


def _public_ips_error(spec: GSLBHostRuleSpec, known: frozenset[str] | None) -> str:
    """The first error of public IPs: an unknown cluster, a bad address, or two of a family.

    Two of a family count within one cluster. Empty if there is no error; if `known` is None, any
    cluster may be named.
    """
    field = "spec.publicIP"
    if error := _unknown_cluster_error(field, [p.cluster for p in spec.public_ip], known):
        return error
    for index, public in enumerate(spec.public_ip):
        if error := _address_error(f"{field}[{index}].ip", public.ip):
            return error
    families = [f"{p.cluster} with IPv{ip_address(p.ip).version}" for p in spec.public_ip]
    if duplicate := _first_duplicate(families):
        return f"{field}: {duplicate} is named twice; give one address of each family"
    return ""


def _first_duplicate(named: Iterable[str]) -> str:
    """The first name that occurs a second time; empty if there is none."""
    seen: set[str] = set()
    for name in named:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _address_error(field: str, text: str) -> str:
    """The error of a text that is no IP address, or one that no client can be sent to; else empty.

    Clients cannot be sent to unspecified, multicast and link-local addresses, nor to IPv6 addresses
    that stand for such; loopback is allowed.
    """
    if not is_address(text):
        return f"{field}: {text!r} is no IP address"
    reached = reached_addresses(ip_address(text))
    if any(ip.is_unspecified or ip.is_multicast or ip.is_link_local for ip in reached):
        return f"{field}: {text} is no address that clients can be sent to; give another"
    return ""
