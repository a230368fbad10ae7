"""Plans the aggregate of one service on the broker, and the fields that all imports of it have."""

from collections.abc import Iterator, Sequence

from hanse.features.services.clusters import (
    awaited_clusters,
    broker_since,
    drop_foreign_namespaces,
    exporting_clusters,
    judge_slices,
    list_published_slices,
)
from hanse.features.services.lighthouse import lighthouse_aggregate, lighthouse_version
from hanse.features.services.merge import MergedImport, merge_exports
from hanse.features.services.names import SERVICE_NAME, SERVICE_NAMESPACE
from hanse.features.services.records import read_exports
from hanse.model.clusterset import broker_cluster, clusterset_spec, common_state
from hanse.model.conditions import Condition
from hanse.model.kinds.core import IPFamily
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.naming import unique_name
from hanse.model.objects import ClusterId, Meta
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key, Plan, Shared
from hanse.model.snapshot import Snapshot


def plan_aggregate(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The plan of one service's ServiceImport on the broker; every agent computes the same.

    The current one, if any, is kept while a record has a newer schema or the state of an exporter
    that publishes nothing is unknown; exporters write before others, the oldest first. For agents
    of Lighthouse 0.15 a second ServiceImport in their form is planned, unless a foreign one has its
    name. Empty without a broker or exports.
    """
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    name = unique_name(key.name, key.namespace)
    current = snapshot.get(broker, ServiceImport, name, broker_namespace)
    place = (exporting_clusters(current), snapshot, broker, broker_namespace)
    published = list_published_slices(key, snapshot, broker)
    rules = clusterset_spec(snapshot, broker)
    counted = judge_slices(published, *place, judge=common_state).counted
    since = broker_since(snapshot, broker, broker_namespace)
    exports = read_exports(drop_foreign_namespaces(counted, rules), since)
    sources = frozenset({broker})
    if exports.newer or awaited_clusters(published, frozenset(), *place):
        if current is None:
            return Plan()
        return Plan((Desired(current, broker, sources=sources, ownership=Shared()),))
    merged = merge_exports(exports.records, rules.profile)
    if merged is None:
        return Plan()
    order = merged.clusters
    rank = order.index(snapshot.local) if snapshot.local in order else len(order)
    own_labels = {SERVICE_NAME: key.name, SERVICE_NAMESPACE: key.namespace}
    aggregate = ServiceImport(
        metadata=Meta(
            name=name,
            namespace=broker_namespace,
            labels={**merged.labels, **own_labels},
            annotations=merged.annotations,
        ),
        spec=import_spec(merged, merged.ip_families),
        status=import_status(order),
    )
    objects = [aggregate]
    if lighthouse_version(rules, snapshot, broker) == "0.15":
        theirs = lighthouse_aggregate(key, merged, broker_namespace)
        found = snapshot.get(broker, ServiceImport, theirs.metadata.name, broker_namespace)
        objects += [theirs] if found is None or OWNER in found.metadata.labels else []
    return Plan(tuple(Desired(o, broker, sources=sources, ownership=Shared(rank)) for o in objects))


def keys_of_aggregates(snapshot: Snapshot, exporter: ClusterId = "") -> Iterator[Key]:
    """The keys of imports on the broker that name `exporter` in their status; of all, if empty.

    Only of those with our labels of name and namespace; none without a broker.
    """
    broker = broker_cluster(snapshot)
    for aggregate in snapshot.all(broker, ServiceImport) if broker is not None else ():
        labels = aggregate.metadata.labels
        name, namespace = labels.get(SERVICE_NAME, ""), labels.get(SERVICE_NAMESPACE, "")
        if name and namespace and (not exporter or exporter in exporting_clusters(aggregate)):
            yield Key("aggregate", name, namespace)


def import_spec(
    merged: MergedImport, families: tuple[IPFamily, ...], ips: tuple[str, ...] = ()
) -> ServiceImportSpec:
    """The spec of a ServiceImport with these families and addresses.

    An internal traffic policy other than `Local` is left empty, as earlier versions do.
    """
    return ServiceImportSpec(
        type=merged.type,
        ports=merged.ports,
        ips=ips,
        ip_families=families,
        session_affinity=merged.session_affinity,
        session_affinity_config=merged.session_affinity_config,
        internal_traffic_policy="Local" if merged.internal_traffic_policy == "Local" else "",
        traffic_distribution=merged.traffic_distribution,
    )


def import_status(
    clusters: Sequence[ClusterId], conditions: tuple[Condition, ...] = ()
) -> ServiceImportStatus:
    """The status with these clusters, sorted, and conditions."""
    exporting = tuple(ExportingCluster(cluster=c) for c in sorted(clusters))
    return ServiceImportStatus(clusters=exporting, conditions=conditions)
