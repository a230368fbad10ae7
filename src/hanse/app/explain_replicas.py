"""Explains answers about replicas of federated StatefulSets."""

from msgspec import Struct

from hanse.app.explain import ExcludedCluster, Explanation, explained_records
from hanse.dns.compiler import Compiler
from hanse.features.services.backends import LEASE_EXPIRED
from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.named_sets import SHARES_BY_SERVICE
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone import StatefulSetZone
from hanse.model.dns.names import is_subdomain, split_labels, wire_name
from hanse.model.dns.records import RecordType
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.stateful import StatefulSetShares, newer_schema_message
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot


class ReplicaQuestion(Struct, frozen=True):
    """The parts of the name of a set, replica or port."""

    namespace: str
    is_federation_name: bool
    """Whether it is a federation name instead of a cluster name."""
    names: tuple[str, ...]
    """The labels before the namespace: a service or set, and perhaps a replica or port."""


def parse_replica_name(name: str, options: StatefulSetOptions) -> ReplicaQuestion | None:
    """Parse `NAMES.NAMESPACE[.FEDERATION].svc.ZONE`, with one name or more; None for others."""
    wire, zone = wire_name(name), wire_name(options.zone)
    if not is_subdomain(wire, zone):
        return None
    labels = [label.decode("ascii", "replace") for label in split_labels(wire)]
    *front, last = labels[: len(labels) - len(list(split_labels(zone)))] or [""]
    if last != "svc" or len(front) < 2:
        return None
    is_federation_name = front[-1] == options.federation.lower() and len(front) > 2
    *names, namespace = front[:-1] if is_federation_name else front
    return ReplicaQuestion(namespace, is_federation_name, tuple(names))


def replica_zone(cluster: ClusterId, options: StatefulSetOptions) -> StatefulSetZone:
    """The zone source of replica names, as they are served to the clients of a cluster."""
    return StatefulSetZone(View(cluster, local=cluster), BROKER_NAMESPACE, options)


def explain_replica(
    name: str, rtype: int, options: StatefulSetOptions, zone: StatefulSetZone, snapshot: Snapshot
) -> Explanation:
    """What a zone answers to a question about replicas, and why; no query is sent.

    REFUSED for ANY and zone transfers, SERVFAIL for a set whose shares were written by a newer
    agent; else NOERROR, NODATA without the type, or NXDOMAIN, also outside the zone.
    """
    if rtype in (RecordType.ANY, RecordType.AXFR, RecordType.IXFR):
        return Explanation("REFUSED", (), "questions for everything are refused")
    compiler = Compiler(zone.view, [zone])
    compiler.enqueue_all(snapshot)
    compiler.compile(snapshot)
    nodes = {node.name: node.rrsets for node in compiler.full_delta().nodes}
    wire = wire_name(name)
    found = next((a for a in nodes.get(wire, ()) if a.type == rtype), None)
    code = "NOERROR" if found else "NODATA" if wire in nodes else "NXDOMAIN"
    question = parse_replica_name(name, options)
    shares = _find_shares(question, snapshot) if question is not None else None
    if shares is not None and shares.spec.has_newer_schema:
        return Explanation("SERVFAIL", (), _newer_schema_reason(shares))
    rule, left_out = _reasons(question, shares, zone, snapshot)
    return Explanation(code, explained_records(found) if found else (), rule, left_out)


def _newer_schema_reason(shares: StatefulSetShares) -> str:
    """The sentence why names of a set are not answered: a newer agent wrote its shares."""
    meta = shares.metadata
    reason = newer_schema_message(shares.spec.schema)
    return (
        f"StatefulSetShares {meta.namespace}/{meta.name}: {reason}; name "
        "servers as old as this one go on with what they had told before"
    )


def _reasons(
    question: ReplicaQuestion | None,
    shares: StatefulSetShares | None,
    zone: StatefulSetZone,
    snapshot: Snapshot,
) -> tuple[str, tuple[ExcludedCluster, ...]]:
    """The rule for a name of a set in words, and the excluded clusters.

    Clusters are named only for a federation's name of a set with load balancers.
    """
    if question is None or shares is None:
        return "no federated StatefulSet is named so", ()
    if not question.is_federation_name:
        return f"{snapshot.local} answers with its own ready replicas", ()
    if not shares.spec.load_balanced:
        return f"no load balancers are wanted: {snapshot.local}'s own ready replicas", ()
    return "each replica by its load balancer, in clusters that are alive", _excluded_clusters(
        shares, zone, snapshot
    )


def _find_shares(question: ReplicaQuestion, snapshot: Snapshot) -> StatefulSetShares | None:
    """The set that a name belongs to, by its Service, its own name or a replica's; None if none.

    Labels are tried from the last to the first, a Service before a set; of several sets whose names
    a label begins with, the longest.
    """
    for broker in snapshot.clusters(Role.BROKER):
        for name in reversed(question.names):
            for shares in snapshot.by(broker, SHARES_BY_SERVICE, f"{question.namespace}/{name}"):
                return shares
            sets = snapshot.in_namespace(broker, StatefulSetShares, question.namespace)
            named = [one for one in sets if f"{name}-".startswith(f"{one.metadata.name}-")]
            if named:  # store-eu-west-0 is of store-eu, if there is one, and not of store
                return max(named, key=lambda one: len(one.metadata.name))
    return None


def _excluded_clusters(
    shares: StatefulSetShares, zone: StatefulSetZone, snapshot: Snapshot
) -> tuple[ExcludedCluster, ...]:
    """The clusters with missing replicas, each with why: its report, its Lease, no address.

    Of several reasons the first in the order: newer schema, Lease, too few replicas, no address. A
    cluster with all replicas and addresses is not there.
    """
    meta = shares.metadata
    brokers = snapshot.clusters(Role.BROKER)
    expired = zone.expired_clusters(snapshot, brokers)
    excluded: list[ExcludedCluster] = []
    for broker in brokers:
        parts = {
            p.spec.cluster: p.spec
            for p in snapshot.by(broker, PARTS_BY_SET, f"{meta.namespace}/{meta.name}")
        }
        for share in shares.spec.shares:
            part = parts.get(share.name)
            without = [r.name for r in part.replicas if not r.addresses] if part else []
            if part is not None and part.has_newer_schema:
                excluded.append(
                    ExcludedCluster(share.name, f"its report: {newer_schema_message(part.schema)}")
                )
            elif share.name in expired:
                excluded.append(ExcludedCluster(share.name, LEASE_EXPIRED))
            elif part is None or len(part.replicas) < share.replicas:
                excluded.append(ExcludedCluster(share.name, "not all of its replicas exist yet"))
            elif without:
                pending = ", ".join(without)
                excluded.append(ExcludedCluster(share.name, f"no address yet: {pending}"))
    return tuple(excluded)
