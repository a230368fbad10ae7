"""Explains DNS answers: the records, the rule, and the excluded clusters."""

from collections.abc import Mapping, Sequence

import dns.exception
import dns.rdatatype
from msgspec import Struct
from msgspec.structs import replace

from hanse.dns.compiler import Compiler
from hanse.features.federated.zone import (
    HOST_TOPIC,
    FederatedZone,
    outside_rule,
    outside_service,
)
from hanse.features.gslb.zone import (
    GlobalZone,
    excluded_members,
    global_rrset,
    global_rule,
    global_service,
)
from hanse.features.services.backends import (
    LOCAL_PREFERRED,
    LOWER_PRIORITY,
    NO_WEIGHT,
    REMOTE_PREFERRED,
    ClusterBackends,
    ClusterSetRules,
    cluster_backends,
    clusterset_rules,
)
from hanse.features.services.zone import (
    SERVICE,
    ServiceZone,
    affinity_mode,
    has_cluster_names,
    select_backends,
)
from hanse.model.affinity import AffinityMode
from hanse.model.dns.names import InvalidName, is_subdomain, name_text, split_labels, wire_name
from hanse.model.dns.presentation import rdata_text, type_name
from hanse.model.dns.records import RecordType, RRset, parse_records, version_name
from hanse.model.dns.zones import View
from hanse.model.kinds.core import Service
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.naming import ZONE
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot, Watch
from hanse.model.weights import effective_weights


class ExplainedRecord(Struct, frozen=True, rename="camel"):
    """A record that may be answered, and in how many percent of the responses."""

    value: str
    percent: int = 100


class ExcludedCluster(Struct, frozen=True, rename="camel"):
    """A cluster that exports the service, and why it is in no response."""

    cluster: ClusterId
    why: str


class Explanation(Struct, frozen=True, rename="camel"):
    """The answer to a question, and its reasons."""

    code: str
    records: tuple[ExplainedRecord, ...]
    rule: str
    left_out: tuple[ExcludedCluster, ...] = ()


class InvalidQuestion(ValueError):
    """A name or a record type that cannot be asked for; the message says what to give instead."""


class ServiceQuestion(Struct, frozen=True):
    """The parts of a multi-cluster service name."""

    key: Key
    cluster: ClusterId = ""
    pod: str = ""
    port: str = ""


def full_name(name: str, zone: str) -> str:
    """The name with a final dot; two labels, as `web.shop`, are short for a service of the zone.

    Not so if they are in the zone or end in a dot. Raises `InvalidQuestion` for what is no name.
    """
    bare = name.removesuffix(".")
    inside = bare == zone or bare.endswith(f".{zone}")
    short = not inside and len(bare.split(".")) == 2 and not name.endswith(".")
    fqdn = f"{bare}.svc.{zone}." if short else f"{bare}."
    try:
        wire_name(zone)
        wire_name(fqdn)
    except InvalidName as error:
        raise InvalidQuestion(f"{error}; give a name such as web.shop.svc.{ZONE}") from None
    return fqdn


def record_type(text: str) -> int:
    """The number of a DNS record type by its name; raises `InvalidQuestion` for an unknown one."""
    try:
        return int(dns.rdatatype.from_text(text))
    except (dns.exception.DNSException, ValueError):
        raise InvalidQuestion(f"{text!r} is no record type; try A, AAAA, SRV or TXT") from None


def service_watches() -> tuple[Watch, ...]:
    """The watches that decide the answers about services, global hosts and federated Services."""
    view = View("")
    return (*ServiceZone(view).watches, *GlobalZone(view).watches, *FederatedZone.watches)


def parse_service_name(name: bytes, view: View) -> ServiceQuestion | None:
    """Parse `[_PORT._PROTOCOL.][[POD.]CLUSTER.]SERVICE.NAMESPACE.svc.ZONE`; None for other names.

    The parts need not exist. The port is kept as `_PORT._PROTOCOL`.
    """
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
    """What a view answers to a question and why, computed from a snapshot; no query is sent.

    REFUSED for ANY and zone transfers, and outside its zones, unless it is the host of a
    GlobalService or federated Service; SERVFAIL for names of services until all is listed; NODATA
    for a name without the type, NXDOMAIN for no name; SILENCE where a global host drops queries.
    """
    wire = wire_name(name)
    global_host = global_service(name, snapshot)
    zone = ServiceZone(view)
    global_zones = [z for z in view.global_zones if is_subdomain(wire, wire_name(z))]
    outside = outside_service(name, snapshot)
    served = bool(global_zones) or is_subdomain(wire, zone.zones[0])
    if global_host is None and outside is None and not served:
        zones = " or ".join((view.zone, *view.global_zones))
        return Explanation("REFUSED", (), f"it is in no zone that is served here, such as {zones}")
    if rtype in (RecordType.ANY, RecordType.AXFR, RecordType.IXFR):
        return Explanation("REFUSED", (), "questions for everything are refused")
    if global_host is not None:
        return _explain_global(global_host, rtype, view, snapshot)
    if outside is not None:
        return _explain_outside(name, outside, rtype, view, snapshot)
    if global_zones:
        return _explain_unknown_host(name, global_zones[0], snapshot)
    compiler = Compiler(view, [zone])
    compiler.enqueue_all(snapshot)
    compiler.compile(snapshot)
    if not compiler.synced:
        return Explanation("SERVFAIL", (), "the cluster was not read in full yet")
    nodes = {node.name: node.rrsets for node in compiler.full_delta().nodes}
    known = wire in nodes
    found = next((a for a in nodes.get(wire, ()) if a.type == rtype), None)
    code = "NOERROR" if found else "NODATA" if known else "NXDOMAIN"
    question = parse_service_name(wire, view)
    rule, left_out = _reasons(question, code, view, snapshot, wire)
    if not found and question is not None:
        rule += _missing_part_clause(question, wire, rtype, nodes)
    return Explanation(code, explained_records(found) if found else (), rule, left_out)


def _missing_part_clause(
    question: ServiceQuestion, name: bytes, rtype: int, nodes: Mapping[bytes, Sequence[RRset]]
) -> str:
    """What an existing service lacks for an answer, as a clause: the type or the port.

    Empty if it is neither, as for a name that has no records for another reason.
    """
    if answers := nodes.get(name, ()):
        types = ", ".join(sorted(type_name(rrset.type) for rrset in answers))
        return f"; it has records of type {types} and none of {type_name(rtype)}"
    if question.port and name not in nodes and _without_port_labels(name) in nodes:
        return f"; nobody serves {question.port}"
    return ""


def _without_port_labels(name: bytes) -> bytes:
    """A name in wire format without its first two labels, those of port and protocol."""
    for _ in range(2):
        name = name[1 + name[0] :]
    return name


def _explain_global(
    service: GlobalService, rtype: int, view: View, snapshot: Snapshot
) -> Explanation:
    """Explain the answer of a global host: NOERROR, or NODATA without a record of the type.

    The code is SILENCE if queries are dropped.
    """
    found = global_rrset(service, rtype, view, snapshot)
    silent = found is not None and found.selection is not None and found.selection.silent
    code = "SILENCE" if silent else "NOERROR" if found is not None else "NODATA"
    left_out = tuple(
        ExcludedCluster(member, why) for member, why in excluded_members(service, snapshot)
    )
    records = explained_records(found) if found is not None else ()
    return Explanation(code, records, global_rule(service, snapshot), left_out)


def _explain_outside(
    name: str, service: Service, rtype: int, view: View, snapshot: Snapshot
) -> Explanation:
    """Explain the answer of an external host name of a federated Service.

    NOERROR, or NODATA without a record of the type.
    """
    host = name.lower().rstrip(".")
    build = FederatedZone(replace(view, global_zones=(host,))).records_for(snapshot)
    nodes = {node.name: node.rrsets for node in build(Key(HOST_TOPIC, host))}
    found = next((a for a in nodes.get(wire_name(host), ()) if a.type == rtype), None)
    records = explained_records(found) if found is not None else ()
    return Explanation("NOERROR" if found else "NODATA", records, outside_rule(service))


def _explain_unknown_host(name: str, zone: str, snapshot: Snapshot) -> Explanation:
    """Explain a name in a global zone that is no host: NXDOMAIN.

    NODATA if it is the zone itself, or GlobalServices have hosts below it.
    """
    host = name.lower().removesuffix(".")
    between = any(
        s.spec.host.endswith(f".{host}") for s in snapshot.all(snapshot.local, GlobalService)
    )
    if between or host == zone:
        return Explanation("NODATA", (), f"there is nothing but other names below {host}")
    return Explanation("NXDOMAIN", (), f"no GlobalService {host} in {snapshot.local}")


def explained_records(rrset: RRset) -> tuple[ExplainedRecord, ...]:
    """The records of an RRset's variants, each with the percentage of responses that have it.

    Percentages are rounded; a record in several variants is there for each of them.
    """
    weights = effective_weights([variant.weight for variant in rrset.variants])
    total = sum(weights)
    return tuple(
        ExplainedRecord(value, round(100 * weight / total))
        for variant, weight in zip(rrset.variants, weights, strict=True)
        for value in _values(variant.body)
    )


def _values(body: bytes) -> list[str]:
    """The records of a variant in presentation format."""
    return [rdata_text(record.type, record.rdata) for record in parse_records(body)]


Reasons = tuple[str, tuple[ExcludedCluster, ...]]
"""The rule of an answer, and the excluded clusters."""


def _reasons(
    question: ServiceQuestion | None, code: str, view: View, snapshot: Snapshot, name: bytes
) -> Reasons:
    """The rule of the answer to a service name in words, and the clusters that it leaves out.

    For a name of no service, or of one without ServiceImport, what the name is, and no clusters.
    """
    if question is None:
        if name == version_name(wire_name(view.zone)):
            return "the version of the names themselves", ()
        exists = "names stand below it" if code != "NXDOMAIN" else "it is the name of nothing"
        return f"{name_text(name)} names no service; {exists}", ()
    key = question.key
    service_import = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
    if service_import is None:
        return f"no ServiceImport {key.namespace}/{key.name} in {snapshot.local}", ()
    rules = clusterset_rules(view, snapshot)
    backends = cluster_backends(key, service_import, rules, snapshot)
    excluded = _excluded_clusters(question, service_import, rules, backends, view)
    return _rule(question, service_import, rules, backends, view), excluded


def _rule(
    question: ServiceQuestion,
    service_import: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> str:
    """Which rule selects the records, in words: the cluster or pod asked for, type, affinity.

    Or why there is no record.
    """
    if question.cluster and not question.pod and not has_cluster_names(view, rules):
        return f"{rules.profile}: no name is of a single cluster"
    if question.cluster:
        if question.cluster not in {backend.cluster for backend in backends}:
            return f"{question.cluster} does not export the service"
        if question.pod:
            is_ready = question.pod in {
                a.label for b in backends if b.cluster == question.cluster for a in b.addresses
            }
            lacks = "" if is_ready else "; there is none that is ready"
            return f"pod {question.pod} of {question.cluster} is asked for{lacks}"
        return f"{question.cluster} alone is asked for"
    if service_import.spec.type == "Headless":
        return "headless: every ready pod of every cluster"
    if rules.profile == "kep-1645":
        return "kep-1645: the addresses of the ServiceImport"
    affinity = affinity_mode(service_import, view)
    several = select_backends(backends, view, affinity)
    match [backend.cluster for backend in several]:
        case []:
            return "no cluster has anything ready"
        case [only] if only == view.local and affinity == "local":
            return f"local first: {only} is ready"
        case [only]:
            return f"only {only} can answer"
        case names:
            return f"in turn by weight: {', '.join(names)}"


def _excluded_clusters(
    question: ServiceQuestion,
    service_import: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> tuple[ExcludedCluster, ...]:
    """The exporting clusters that are in no response, each with the reason.

    For the name of a cluster or pod, at most that cluster, and only with a reason of its own, not
    one of affinity, weight or priority.
    """
    if question.cluster:
        return tuple(
            ExcludedCluster(backend.cluster, backend.excluded)
            for backend in backends
            if backend.cluster == question.cluster and backend.excluded
        )
    shared_out = service_import.spec.type != "Headless" and rules.profile == "lighthouse"
    affinity = affinity_mode(service_import, view)
    selected = {
        backend.cluster
        for backend in (select_backends(backends, view, affinity) if shared_out else backends)
    }
    return tuple(
        ExcludedCluster(
            backend.cluster,
            backend.excluded or _not_selected_reason(backend, selected, view, affinity),
        )
        for backend in backends
        if backend.excluded or backend.cluster not in selected
    )


def _not_selected_reason(
    backend: ClusterBackends, selected: set[ClusterId], view: View, affinity: AffinityMode
) -> str:
    """Why a ready cluster was not selected: no weight, a preferred side, or a lower priority."""
    if not backend.weighting.weight:
        return NO_WEIGHT
    if affinity == "remote" and backend.cluster == view.local:
        return REMOTE_PREFERRED
    return LOCAL_PREFERRED if affinity == "local" and view.local in selected else LOWER_PRIORITY
