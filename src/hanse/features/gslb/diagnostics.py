"""Why objects that a policy selects are not balanced, in one sentence each.

Also what cannot be written for a host: an object of the same name is not ours, or a cluster or a
controller refuses the write.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from hanse.features.gslb.aliases import alias_conflict, aliased_hosts, rule_aliases
from hanse.features.gslb.avi import excess_monitors_message
from hanse.features.gslb.backends import (
    SOURCE_KINDS,
    InvalidHostName,
    hosts_of,
    invalid_names,
    is_host_name,
    list_hosts,
    list_load_balancer_names,
    list_status_addresses,
    routable_addresses,
)
from hanse.features.gslb.configuration import find_host_rule
from hanse.features.gslb.hosts import cluster_of_context, is_unobserved
from hanse.features.gslb.leadership import Leading
from hanse.features.gslb.mapping import mapping_error, uses_host_rules
from hanse.features.gslb.names import context_of
from hanse.features.gslb.notes import is_in_zones, outside_message
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.routes import covers, inherited_hosts, inherits_hosts
from hanse.features.gslb.selectors import is_selected
from hanse.model.addresses import is_address
from hanse.model.facts import Role, WriteOutcome
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.kinds.core import Service
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.gateways import GATEWAY_ROUTES, Gateway, GatewayRoute, Route
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, GlobalDeploymentPolicySpec
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, ObjectRef, object_ref
from hanse.model.questions import host_lookup
from hanse.model.snapshot import Index, Snapshot

MAX_WARNINGS = 100
"""The number of warnings in a status."""
_SUSPECT = "suspect"
_CONTESTED = "contested"
CONTESTED_SERVICES = Index(
    GlobalService, "gslb-contested", lambda s: [_CONTESTED] if s.status.refused else []
)
_CROWDED = "crowded"
CROWDED_SERVICES = Index(
    GlobalService, "gslb-crowded", lambda s: [_CROWDED] if excess_monitors_message(s) else []
)
_SOURCES_BY_NAME = {kind.kind.name: kind.kind for kind in SOURCE_KINDS}
_HOST_OUTPUTS = (GlobalService.kind, DNSEndpoint.kind, AviGslbService.kind, AviHealthMonitor.kind)


class Diagnostic(Struct, frozen=True):
    """A message about an object that is selected and not balanced, or not written."""

    ref: ClusterObjectRef
    message: str


def is_suspect(obj: Object) -> bool:
    """Whether an object may have a problem: an invalid host name, or a load balancer by name.

    Also a route that inherits host names.
    """
    if any(True for _ in invalid_names(obj)):
        return True
    match obj:
        case Service() | Ingress():
            return any(e.hostname and not e.ip for e in obj.status.load_balancer.ingress)
        case Route():
            return any(e.router_canonical_hostname for e in obj.status.ingress)
        case GatewayRoute():
            return inherits_hosts(obj)
        case Gateway():
            return any(a.type == "Hostname" for a in obj.status.addresses)
        case _:
            return False


def _suspect_keys(obj: Object) -> tuple[str, ...]:
    """Index values: one constant for an object that may have a problem; else none."""
    return (_SUSPECT,) if is_suspect(obj) else ()


SUSPECT_SOURCES: dict[type[Object], Index[Any]] = {
    kind: Index(kind, "gslb-suspect", _suspect_keys) for kind in SOURCE_KINDS
}
SUSPECT_GATEWAYS = Index(Gateway, "gslb-suspect", _suspect_keys)


def diagnose_objects(
    policy: GlobalDeploymentPolicySpec, leading: Leading, snapshot: Snapshot
) -> Iterator[Diagnostic]:
    """A diagnostic for each problem of selected objects and of all HostRules in matched clusters.

    In order of the policy's clusters, then of objects; objects that are not suspect and unobserved
    clusters are skipped. A message begins with `<cluster>: <Kind> <namespace>/<name>: `.
    """
    for match in policy.match_clusters:
        where = cluster_of_context(match.cluster, leading, snapshot)
        if is_unobserved(where, snapshot):
            continue
        selected = [
            o for o in _suspect_objects(where, snapshot) if is_selected(o, policy, where, snapshot)
        ]
        selected += snapshot.all(where, AkoHostRule)
        for obj in sorted(selected, key=lambda o: str(object_ref(o))):
            ref = ClusterObjectRef(where, object_ref(obj))
            name = f"{obj.metadata.namespace}/{obj.metadata.name}"
            subject = f"{match.cluster}: {type(obj).kind.name} {name}"
            yield from (
                Diagnostic(ref, f"{subject}: {problem}")
                for problem in _problems(obj, where, snapshot)
            )


def diagnose_zones(zones: tuple[str, ...], snapshot: Snapshot) -> Iterator[Diagnostic]:
    """A diagnostic for each GlobalService whose host is in none of the zones.

    None without zones.
    """
    for service in snapshot.all(snapshot.local, GlobalService) if zones else ():
        if not is_in_zones(service.spec.host, zones):
            ref = ClusterObjectRef(snapshot.local, object_ref(service))
            yield Diagnostic(ref, outside_message(service.spec.host, zones))


def contested_hosts(snapshot: Snapshot) -> Iterator[str]:
    """The hosts of GlobalServices whose status has refused objects."""
    for service in snapshot.by(snapshot.local, CONTESTED_SERVICES, _CONTESTED):
        yield service.spec.host


def diagnose_owners(leading: Leading, snapshot: Snapshot) -> Iterator[Diagnostic]:
    """A diagnostic for each object in `status.refused` of GlobalServices.

    Its message says that the host belongs to other namespaces, those in the service's `owners`.
    """
    for service in snapshot.by(snapshot.local, CONTESTED_SERVICES, _CONTESTED):
        owners = ", ".join(service.spec.owners)
        for claim in service.status.refused:
            context, _, text = claim.partition(": ")
            kind, _, place = text.partition(" ")
            namespace, _, name = place.partition("/")
            ref = ObjectRef(_SOURCES_BY_NAME[kind], name, namespace)
            where = cluster_of_context(context, leading, snapshot)
            yield Diagnostic(
                ClusterObjectRef(where, ref),
                f"{claim}: host {service.spec.host} belongs to namespace {owners}, so it is not "
                "balanced; name its namespaces in spec.owners of a GSLBHostRule",
            )


def diagnose_monitors(
    policy: GlobalDeploymentPolicySpec, options: GslbOptions, snapshot: Snapshot
) -> Iterator[Diagnostic]:
    """A diagnostic for each host that needs more monitors for its paths than a controller takes.

    By name. Only with provider avi, and if neither the policy nor the host's rule has
    healthMonitorRefs.
    """
    if "avi" not in options.providers or policy.health_monitor_refs:
        return
    crowded = snapshot.by(snapshot.local, CROWDED_SERVICES, _CROWDED)
    for service in sorted(crowded, key=lambda s: s.metadata.name):
        rule = find_host_rule(service.spec.host, snapshot)
        if rule is None or not rule.spec.health_monitor_refs:
            ref = ClusterObjectRef(snapshot.local, object_ref(service))
            yield Diagnostic(ref, excess_monitors_message(service))


def is_host_output(target: ClusterObjectRef) -> bool:
    """Whether an object is a GlobalService, DNSEndpoint or Avi object that hosts are written as.

    It must be in the GSLB namespace or have no namespace.
    """
    return target.ref.kind in _HOST_OUTPUTS and target.ref.namespace in ("", NAMESPACE)


def diagnose_writes(leading: Leading, snapshot: Snapshot) -> Iterator[Diagnostic]:
    """A diagnostic for each failed write of a GlobalService, DNSEndpoint or Avi object, by object.

    Only of writes that were refused or forbidden, or whose object is not ours: people must mend
    these. Other failures are retried and left out.
    """
    for outcome in sorted(snapshot.facts(WriteOutcome), key=lambda o: str(o.target)):
        ref = outcome.target
        if outcome.is_final and is_host_output(ref):
            where = leading.context if ref.where == snapshot.local else context_of(ref.where)
            remedy = "; delete it" if outcome.result == "Foreign" else ""
            yield Diagnostic(ref, f"{where}: {outcome.message}{remedy}")


def _suspect_objects(where: ClusterId, snapshot: Snapshot) -> Iterator[Object]:
    """The objects of a cluster that may have a problem.

    All Gateway API routes count if any Gateway there has a host name as its address.
    """
    by_name = any(True for _ in snapshot.by(where, SUSPECT_GATEWAYS, _SUSPECT))
    for kind, index in SUSPECT_SOURCES.items():
        if by_name and kind in GATEWAY_ROUTES:
            yield from snapshot.all(where, kind)
        else:
            yield from snapshot.by(where, index, _SUSPECT)


def _problems(obj: Object, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """What keeps an object from being balanced: its mapping, aliases, names, or load balancer.

    The mapping of a HostRule counts only while HostRules give the global names.
    """
    if isinstance(obj, AkoHostRule):
        if uses_host_rules(snapshot):
            yield from filter(None, [mapping_error(obj, where, snapshot)])
        yield from _alias_problems(obj, where, snapshot)
    yield from _unnamed_problems(obj, where, snapshot)
    for bad in _unusable_names(obj, where, snapshot):
        yield (
            f"{bad.field}: {bad.name[:100]!r} is no name of one host, so it is not balanced; "
            "write it as shop.example.org"
        )
    addresses = list(list_status_addresses(obj, "", where, snapshot))
    names = set(list_load_balancer_names(addresses, "", snapshot)).difference(list_hosts(obj))
    for text in dict.fromkeys(addresses):
        name = text.lower().removesuffix(".")
        if name and not is_address(name) and (problem := _hostname_problem(name, names, snapshot)):
            yield f"its load balancer has no address but the name {name}, and {problem}"


def _alias_problems(rule: AkoHostRule, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """A message for each alias of a rule that is a host itself or an alias of another host.

    Only if the rule's own host has a GlobalService here.
    """
    for host in aliased_hosts(rule, where, snapshot):
        service = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
        places = (snapshot.local, *snapshot.clusters(Role.SITE))
        for alias in rule_aliases(rule) if service is not None else ():
            if problem := alias_conflict(alias, host, places, snapshot):
                yield f"spec.virtualhost.aliases: {alias} is no alias of {host}: {problem}"


def _unusable_names(obj: Object, where: ClusterId, snapshot: Snapshot) -> Iterator[InvalidHostName]:
    """The invalid host names of an object, without wildcards that cover an inherited name."""
    inherited = inherited_hosts(obj, where, snapshot) if isinstance(obj, GatewayRoute) else []
    for bad in invalid_names(obj):
        if not (bad.name.startswith("*.") and any(covers(bad.name, host) for host in inherited)):
            yield bad


def _unnamed_problems(obj: Object, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """A message if a Gateway API route has no host name, neither its own nor a listener's."""
    named = not isinstance(obj, GatewayRoute) or obj.spec.hostnames
    if not named and not any(True for _ in hosts_of(obj, where, snapshot)):
        yield (
            "neither spec.hostnames nor a listener that it is attached to has the name of one "
            "host, so it is not balanced; name one"
        )


def _hostname_problem(name: str, names: set[str], snapshot: Snapshot) -> str:
    """Why a load balancer's name gives no member; empty if it does, or is not looked up yet.

    The reasons: it is no host name; it is a global host, since `names` (those that are looked up)
    lack it; its last lookup failed; it has no routable address.
    """
    if not is_host_name(name):
        return "that is no name of a host; see to what set its status"
    if name not in names:
        return "that is a global host itself; give it an address of its own"
    found = host_lookup(name, snapshot)
    if found.error:
        return "that cannot be looked up now, so what was known serves on; see to the agent's DNS"
    if found.addresses is not None and not routable_addresses(found.addresses):
        return "that has no address that clients can be sent to; see to its DNS records"
    return ""
