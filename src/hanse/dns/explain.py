"""Why a name is answered as it is: which rule, from whom, and who is left out for what reason."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hanse.dns.compiler import Compiler
from hanse.features.gslb.zone import global_answer, global_rule, global_service, left_out_of
from hanse.features.services.backends import (
    LOCAL_IS_READY,
    LOWER_PRIORITY,
    NO_WEIGHT,
    ClusterBackends,
    ClusterSetRules,
    cluster_backends,
    clusterset_rules,
)
from hanse.features.services.zone import SERVICE, ServiceZone, has_cluster_names, select_backends
from hanse.model.dns.names import is_subdomain, name_text, split_labels, wire_name
from hanse.model.dns.presentation import rdata_text, type_name
from hanse.model.dns.records import RecordType, RRset, parse_records, version_name
from hanse.model.dns.zones import View
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


class ExplainedRecord(Struct, frozen=True, rename="camel"):
    """A record that may be told, and in how many of a hundred answers."""

    value: str
    percent: int = 100


class ExcludedCluster(Struct, frozen=True, rename="camel"):
    """A cluster that offers the service, and why nothing of it is told."""

    cluster: ClusterId
    why: str


class Explanation(Struct, frozen=True, rename="camel"):
    """What is answered to a question, and why."""

    code: str
    records: tuple[ExplainedRecord, ...]
    rule: str
    left_out: tuple[ExcludedCluster, ...] = ()


class ServiceQuestion(Struct, frozen=True):
    """A name taken apart as services name things."""

    key: Key
    cluster: ClusterId = ""
    pod: str = ""
    port: str = ""


def parse_service_name(name: bytes, view: View) -> ServiceQuestion | None:
    """What service a name is about; None where it is about none."""
    zone = wire_name(view.zone)
    if not is_subdomain(name, zone):
        return None
    labels = [label.decode("ascii", "replace") for label in split_labels(name)]
    labels = labels[: len(labels) - len(list(split_labels(zone)))]
    if len(labels) < 3 or labels[-1] != "svc":
        return None
    *front, service, namespace, _ = labels
    port = ""
    if len(front) >= 2 and front[0].startswith("_") and front[1].startswith("_"):
        port, front = f"{front[0]}.{front[1]}", front[2:]
    key = Key(SERVICE, service, namespace)
    match front:
        case []:
            return ServiceQuestion(key, port=port)
        case [cluster]:
            return ServiceQuestion(key, cluster, port=port)
        case [pod, cluster]:
            return ServiceQuestion(key, cluster, pod, port)
        case _:
            return None


def explain(name: str, rtype: int, view: View, snapshot: Snapshot) -> Explanation:
    """What a view answers to a question and why; the answers are those of the server itself."""
    wire = wire_name(name)
    everywhere = global_service(name, snapshot)
    zone = ServiceZone(view)
    inside = [z for z in view.global_zones if is_subdomain(wire, wire_name(z))]
    if everywhere is None and not inside and not is_subdomain(wire, zone.zones[0]):
        zones = " or ".join((view.zone, *view.global_zones))
        return Explanation("REFUSED", (), f"it is in no zone that is served here, such as {zones}")
    if rtype in (RecordType.ANY, RecordType.AXFR, RecordType.IXFR):
        return Explanation("REFUSED", (), "questions for everything are refused")
    if everywhere is not None:
        return _explain_global(everywhere, rtype, view, snapshot)
    if inside:
        return _explain_no_host(name, inside[0], snapshot)
    compiler = Compiler(view, [zone])
    compiler.enqueue_all(snapshot)
    compiler.compile(snapshot)
    if not compiler.synced:
        return Explanation("SERVFAIL", (), "the cluster was not read in full yet")
    nodes = {named.name: named.rrsets for named in compiler.full_delta().nodes}
    known = wire in nodes
    found = next((a for a in nodes.get(wire, ()) if a.type == rtype), None)
    code = "NOERROR" if found else "NODATA" if known else "NXDOMAIN"
    about = parse_service_name(wire, view)
    rule, left_out = _why(about, code, view, snapshot, wire)
    if not found and about is not None:
        rule += _what_lacks(about, wire, rtype, nodes)
    return Explanation(code, explained_records(found) if found else (), rule, left_out)


def _what_lacks(
    about: ServiceQuestion, name: bytes, rtype: int, nodes: Mapping[bytes, Sequence[RRset]]
) -> str:
    """What a name that somebody could answer for does not have."""
    if answers := nodes.get(name, ()):
        types = ", ".join(sorted(type_name(answer.type) for answer in answers))
        return f"; it has records of type {types} and none of {type_name(rtype)}"
    if about.port and name not in nodes and _below_two(name) in nodes:
        return f"; nobody serves {about.port}"
    return ""


def _below_two(name: bytes) -> bytes:
    """A name without its first two labels, a port and its protocol."""
    for _ in range(2):
        name = name[1 + name[0] :]
    return name


def _explain_global(
    service: GlobalService, rtype: int, view: View, snapshot: Snapshot
) -> Explanation:
    found = global_answer(service, rtype, view, snapshot)
    silent = found is not None and found.selection is not None and found.selection.silent
    code = "SILENCE" if silent else "NOERROR" if found is not None else "NODATA"
    left_out = tuple(ExcludedCluster(who, why) for who, why in left_out_of(service, snapshot))
    records = explained_records(found) if found is not None else ()
    return Explanation(code, records, global_rule(service, snapshot), left_out)


def _explain_no_host(name: str, zone: str, snapshot: Snapshot) -> Explanation:
    """A name in a zone of global hosts that is none; names between it and hosts have no records."""
    host = name.lower().removesuffix(".")
    between = any(
        s.spec.host.endswith(f".{host}") for s in snapshot.all(snapshot.local, GlobalService)
    )
    if between or host == zone:
        return Explanation("NODATA", (), f"there is nothing but other names below {host}")
    return Explanation("NXDOMAIN", (), f"no GlobalService {host} in {snapshot.local}")


def explained_records(answer: RRset) -> tuple[ExplainedRecord, ...]:
    """What an answer may tell, and how often."""
    whole = sum(variant.weight for variant in answer.variants)
    return tuple(
        ExplainedRecord(value, round(100 * variant.weight / whole))
        for variant in answer.variants
        for value in _values(variant.body)
    )


def _values(body: bytes) -> list[str]:
    """The contents of whole records, as zone files have them."""
    return [rdata_text(record.type, record.rdata) for record in parse_records(body)]


Why = tuple[str, tuple[ExcludedCluster, ...]]


def _why(
    about: ServiceQuestion | None, code: str, view: View, snapshot: Snapshot, name: bytes
) -> Why:
    if about is None:
        if name == version_name(wire_name(view.zone)):
            return "the version of the names themselves", ()
        exists = "names stand below it" if code != "NXDOMAIN" else "it is the name of nothing"
        return f"{name_text(name)} names no service; {exists}", ()
    key = about.key
    told = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
    if told is None:
        return f"no ServiceImport {key.namespace}/{key.name} in {snapshot.local}", ()
    rules = clusterset_rules(view, snapshot)
    backends = cluster_backends(key, told, rules, snapshot)
    left_out = _left_out(about, told, rules, backends, view)
    return _rule(about, told, rules, backends, view), left_out


def _rule(
    about: ServiceQuestion,
    told: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> str:
    if about.cluster and not about.pod and not has_cluster_names(view, rules):
        return f"{rules.profile}: no name is of a single cluster"
    if about.cluster:
        if about.cluster not in {backend.cluster for backend in backends}:
            return f"{about.cluster} does not export the service"
        if about.pod:
            there = about.pod in {
                spot.label for o in backends if o.cluster == about.cluster for spot in o.addresses
            }
            lacks = "" if there else "; there is none that is ready"
            return f"pod {about.pod} of {about.cluster} is asked for{lacks}"
        return f"{about.cluster} alone is asked for"
    if told.spec.type == "Headless":
        return "headless: every ready pod of every cluster"
    if rules.profile == "kep-1645":
        return "kep-1645: the addresses of the ServiceImport"
    several = select_backends(backends, view)
    match [backend.cluster for backend in several]:
        case []:
            return "no cluster has anything ready"
        case [only] if only == view.local and view.local_first:
            return f"local first: {only} is ready"
        case [only]:
            return f"only {only} can answer"
        case names:
            return f"in turn by weight: {', '.join(names)}"


def _left_out(
    about: ServiceQuestion,
    told: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> tuple[ExcludedCluster, ...]:
    if about.cluster:
        return tuple(
            ExcludedCluster(o.cluster, o.excluded)
            for o in backends
            if o.cluster == about.cluster and o.excluded
        )
    shared_out = told.spec.type != "Headless" and rules.profile == "lighthouse"
    taken = {
        backend.cluster for backend in (select_backends(backends, view) if shared_out else backends)
    }
    return tuple(
        ExcludedCluster(backend.cluster, backend.excluded or _passed_over(backend, taken, view))
        for backend in backends
        if backend.excluded or backend.cluster not in taken
    )


def _passed_over(backend: ClusterBackends, taken: set[ClusterId], view: View) -> str:
    if not backend.share.weight:
        return NO_WEIGHT
    return LOCAL_IS_READY if view.local in taken and view.local_first else LOWER_PRIORITY
