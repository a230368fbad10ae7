"""Why a name of a federated StatefulSet is answered as it is."""

from msgspec import Struct

from hanse.dns.compiler import Compiler
from hanse.dns.explain import ExcludedCluster, Explanation, explained_records
from hanse.features.services.backends import LEASE_EXPIRED
from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone import BY_SERVICE, StatefulSetZone
from hanse.model.dns.names import is_subdomain, split_labels, wire_name
from hanse.model.dns.records import RecordType
from hanse.model.facts import LeaseLiveness, Role
from hanse.model.kinds.stateful import StatefulSetShares, newer_schema_message
from hanse.model.snapshot import Snapshot


class ReplicaQuestion(Struct, frozen=True):
    """A name taken apart as sets name things."""

    namespace: str
    wide: bool
    """Whether the federation was asked, and not a cluster."""
    names: tuple[str, ...]
    """What stands before the namespace: a service or a set, and perhaps a replica or a port."""


def parse_replica_name(name: str, options: StatefulSetOptions) -> ReplicaQuestion | None:
    """What a name is about; None where it is not one of sets at all."""
    wire, zone = wire_name(name), wire_name(options.zone)
    if not is_subdomain(wire, zone):
        return None
    labels = [label.decode("ascii", "replace") for label in split_labels(wire)]
    *front, last = labels[: len(labels) - len(list(split_labels(zone)))] or [""]
    if last != "svc" or len(front) < 2:
        return None
    wide = front[-1] == options.federation.lower() and len(front) > 2
    *names, namespace = front[:-1] if wide else front
    return ReplicaQuestion(namespace, wide, tuple(names))


def explain_replica(
    name: str, rtype: int, options: StatefulSetOptions, zone: StatefulSetZone, snapshot: Snapshot
) -> Explanation:
    """What a view answers to a question about replicas, and why; as the server itself does."""
    if rtype in (RecordType.ANY, RecordType.AXFR, RecordType.IXFR):
        return Explanation("REFUSED", (), "questions for everything are refused")
    compiler = Compiler(zone.view, [zone])
    compiler.enqueue_all(snapshot)
    compiler.compile(snapshot)
    nodes = {node.name: node.rrsets for node in compiler.full_delta().nodes}
    wire = wire_name(name)
    found = next((a for a in nodes.get(wire, ()) if a.type == rtype), None)
    code = "NOERROR" if found else "NODATA" if wire in nodes else "NXDOMAIN"
    about = parse_replica_name(name, options)
    record = _record(about, snapshot) if about is not None else None
    if record is not None and record.spec.newer:
        return Explanation("SERVFAIL", (), _why_unread(record))
    rule, left_out = _why(about, record, snapshot)
    return Explanation(code, explained_records(found) if found else (), rule, left_out)


def _why_unread(record: StatefulSetShares) -> str:
    meta = record.metadata
    reason = newer_schema_message(record.spec.schema)
    return (
        f"StatefulSetShares {meta.namespace}/{meta.name}: {reason}; name "
        "servers as old as this one go on with what they had told before"
    )


def _why(
    about: ReplicaQuestion | None, record: StatefulSetShares | None, snapshot: Snapshot
) -> tuple[str, tuple[ExcludedCluster, ...]]:
    if about is None or record is None:
        return "no federated StatefulSet is named so", ()
    if not about.wide:
        return f"{snapshot.local} answers with its own ready replicas", ()
    if not record.spec.load_balanced:
        return f"no load balancers are wanted: {snapshot.local}'s own ready replicas", ()
    return "each replica by its load balancer, in clusters that are alive", _left_out(
        record, snapshot
    )


def _record(about: ReplicaQuestion, snapshot: Snapshot) -> StatefulSetShares | None:
    """The set that a name is about: by its Service, by its own name, or by a replica's."""
    for broker in snapshot.clusters(Role.BROKER):
        for name in reversed(about.names):
            for record in snapshot.by(broker, BY_SERVICE, f"{about.namespace}/{name}"):
                return record
            for record in snapshot.in_namespace(broker, StatefulSetShares, about.namespace):
                own = record.metadata.name
                if name == own or name.startswith(f"{own}-"):
                    return record
    return None


def _left_out(record: StatefulSetShares, snapshot: Snapshot) -> tuple[ExcludedCluster, ...]:
    meta = record.metadata
    silent = {p.lease for p in snapshot.facts(LeaseLiveness) if not p.alive}
    told: list[ExcludedCluster] = []
    for broker in snapshot.clusters(Role.BROKER):
        parts = {
            p.spec.cluster: p.spec
            for p in snapshot.by(broker, PARTS_BY_SET, f"{meta.namespace}/{meta.name}")
        }
        for share in record.spec.shares:
            part = parts.get(share.name)
            without = [r.name for r in part.replicas if not r.addresses] if part else []
            if part is not None and part.newer:
                told.append(
                    ExcludedCluster(share.name, f"its report: {newer_schema_message(part.schema)}")
                )
            elif share.name in silent:
                told.append(ExcludedCluster(share.name, LEASE_EXPIRED))
            elif part is None or len(part.replicas) < share.replicas:
                told.append(ExcludedCluster(share.name, "not all of its replicas exist yet"))
            elif without:
                pending = ", ".join(without)
                told.append(ExcludedCluster(share.name, f"no address yet: {pending}"))
    return tuple(told)
