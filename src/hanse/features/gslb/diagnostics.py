"""What a policy chooses and what is not balanced all the same, in one sentence each.

Also what cannot be written for a host that is: somebody else's object stands in its place, or a
cluster or a controller refuses it.
"""

from collections.abc import Iterator

from msgspec import Struct

from hanse.features.gslb.backends import (
    invalid_names,
    is_address,
    is_host_name,
    list_hosts,
    list_load_balancer_names,
    list_status_addresses,
    routable_addresses,
)
from hanse.features.gslb.hosts import cluster_of_context, is_selected, is_unobserved
from hanse.features.gslb.leadership import Leading
from hanse.features.gslb.mapping import mapping_error, uses_host_rules
from hanse.features.gslb.names import context_of
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.kinds.core import Service
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.gateways import Gateway, HTTPRoute, Route
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, GlobalDeploymentPolicySpec
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.questions import host_lookup
from hanse.model.snapshot import Index, Snapshot

MAX_WARNINGS = 100
"""How many faults are told of at once."""
_SUSPECT = "odd"
_TROUBLE = ("Foreign", "Refused", "Forbidden")
_WRITTEN = (GlobalService.kind, DNSEndpoint.kind, AviGslbService.kind, AviHealthMonitor.kind)


class Diagnostic(Struct, frozen=True):
    """An object that is chosen and not balanced, or not as its owner thinks."""

    place: ClusterObjectRef
    sentence: str


def is_suspect(obj: Object) -> bool:
    """Whether an object is worth a look: a bad name, or an address that is but a name."""
    if any(True for _ in invalid_names(obj)):
        return True
    match obj:
        case Service() | Ingress():
            return any(e.hostname and not e.ip for e in obj.status.load_balancer.ingress)
        case Route():
            return any(e.router_canonical_hostname for e in obj.status.ingress)
        case Gateway():
            return any(a.type == "Hostname" for a in obj.status.addresses)
        case _:
            return False


def _suspect_keys(obj: Object) -> tuple[str, ...]:
    return (_SUSPECT,) if is_suspect(obj) else ()


SUSPECT_SERVICES = Index(Service, "gslb-odd", _suspect_keys)
SUSPECT_INGRESSES = Index(Ingress, "gslb-odd", _suspect_keys)
SUSPECT_ROUTES = Index(Route, "gslb-odd", _suspect_keys)
SUSPECT_HTTPROUTES = Index(HTTPRoute, "gslb-odd", _suspect_keys)
SUSPECT_GATEWAYS = Index(Gateway, "gslb-odd", _suspect_keys)


def diagnose_objects(
    policy: GlobalDeploymentPolicySpec, leading: Leading, snapshot: Snapshot
) -> Iterator[Diagnostic]:
    """What is wrong with the objects that a policy chooses, cluster by cluster."""
    for match in policy.match_clusters:
        where = cluster_of_context(match.cluster, leading, snapshot)
        if is_unobserved(where, snapshot):
            continue
        chosen = [
            o for o in _suspect_objects(where, snapshot) if is_selected(o, policy, where, snapshot)
        ]
        chosen += snapshot.all(where, AkoHostRule) if uses_host_rules(snapshot) else ()
        for obj in sorted(chosen, key=lambda o: str(object_ref(o))):
            place = ClusterObjectRef(where, object_ref(obj))
            name = f"{obj.metadata.namespace}/{obj.metadata.name}"
            about = f"{match.cluster}: {type(obj).kind.name} {name}"
            yield from (
                Diagnostic(place, f"{about}: {told}") for told in _problems(obj, where, snapshot)
            )


def is_host_output(place: ClusterObjectRef) -> bool:
    """Whether something is what hosts are served by, and not what people configure."""
    return place.ref.kind in _WRITTEN and place.ref.namespace in ("", NAMESPACE)


def diagnose_writes(leading: Leading, snapshot: Snapshot) -> Iterator[Diagnostic]:
    """What was to be written for hosts and is not there, or not as it should be."""
    for outcome in sorted(snapshot.facts(WriteOutcome), key=lambda o: str(o.place)):
        place = outcome.place
        if outcome.result in _TROUBLE and is_host_output(place):
            where = leading.context if place.where == snapshot.local else context_of(place.where)
            remedy = "; delete it" if outcome.result == "Foreign" else ""
            yield Diagnostic(place, f"{where}: {outcome.message}{remedy}")


def _suspect_objects(where: ClusterId, snapshot: Snapshot) -> Iterator[Object]:
    yield from snapshot.by(where, SUSPECT_SERVICES, _SUSPECT)
    yield from snapshot.by(where, SUSPECT_INGRESSES, _SUSPECT)
    yield from snapshot.by(where, SUSPECT_ROUTES, _SUSPECT)
    if any(True for _ in snapshot.by(where, SUSPECT_GATEWAYS, _SUSPECT)):
        yield from snapshot.all(where, HTTPRoute)
    else:
        yield from snapshot.by(where, SUSPECT_HTTPROUTES, _SUSPECT)


def _problems(obj: Object, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    if isinstance(obj, AkoHostRule):
        yield from filter(None, [mapping_error(obj, where, snapshot)])
    for bad in invalid_names(obj):
        yield (
            f"{bad.field}: {bad.name[:100]!r} is no name of one host, so it is not balanced; "
            "write it as shop.example.org"
        )
    told = list(list_status_addresses(obj, "", where, snapshot))
    asked = set(list_load_balancer_names(told, "", snapshot)).difference(list_hosts(obj))
    for text in dict.fromkeys(told):
        name = text.lower().removesuffix(".")
        if name and not is_address(name) and (fault := _hostname_problem(name, asked, snapshot)):
            yield f"its load balancer has no address but the name {name}, and {fault}"


def _hostname_problem(name: str, asked: set[str], snapshot: Snapshot) -> str:
    """Why a load balancer's name brings no member; empty where it does, or is not known yet."""
    if not is_host_name(name):
        return "that is no name of a host; see to what set its status"
    if name not in asked:
        return "that is a global host itself; give it an address of its own"
    found = host_lookup(name, snapshot)
    if found.error:
        return "that cannot be looked up now, so what was known serves on; see to the agent's DNS"
    if found.addresses is not None and not routable_addresses(found.addresses):
        return "that has no address that clients can be sent to; see to its DNS records"
    return ""
