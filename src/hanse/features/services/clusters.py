"""What the feature knows of the fleet: its broker, its rules, and who is alive."""

from collections.abc import Iterable, Iterator

from hanse.features.services.names import DOMAIN, SERVICE_NAME, SERVICE_NAMESPACE, SOURCE_CLUSTER
from hanse.model.clusterset import is_alive, is_local_or_alive
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec, MemberSettings
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot


def _service_behind(endpoint_slice: EndpointSlice) -> Iterator[str]:
    labels = endpoint_slice.metadata.labels
    if KUBE_SERVICE in labels and labels.get(MANAGED_BY) != DOMAIN:
        yield f"{endpoint_slice.metadata.namespace}/{labels[KUBE_SERVICE]}"


def _service_imported(endpoint_slice: EndpointSlice) -> Iterator[str]:
    labels = endpoint_slice.metadata.labels
    if SERVICE_NAME in labels and labels.get(MANAGED_BY) == DOMAIN:
        yield f"{endpoint_slice.metadata.namespace}/{labels[SERVICE_NAME]}"


def _service_published(endpoint_slice: EndpointSlice) -> Iterator[str]:
    labels = endpoint_slice.metadata.labels
    if SERVICE_NAMESPACE in labels and SERVICE_NAME in labels:
        yield f"{labels[SERVICE_NAMESPACE]}/{labels[SERVICE_NAME]}"


BACKENDS = Index(EndpointSlice, "services-backends", _service_behind)
IMPORTED = Index(EndpointSlice, "services-imported", _service_imported)
PUBLISHED = Index(EndpointSlice, "services-published", _service_published)
BY_SOURCE = Index(
    EndpointSlice, "services-source", lambda s: [s.metadata.labels.get(SOURCE_CLUSTER, "")]
)
IN_NAMESPACE = Index(
    EndpointSlice, "services-namespace", lambda s: [s.metadata.labels.get(SERVICE_NAMESPACE, "")]
)


def rules_of(snapshot: Snapshot, broker: ClusterId) -> ClusterSetSpec:
    """The fleet's rules: of the ClusterSet on the broker, or the defaults."""
    found = sorted(snapshot.all(broker, ClusterSet), key=lambda c: c.metadata.name)
    return found[0].spec if found else ClusterSetSpec()


def joined_clusters(
    snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> frozenset[ClusterId] | None:
    """The clusters that have joined: each has a Lease on the broker; None where that is unknown."""
    if not snapshot.listed(broker, Lease):
        return None
    leases = snapshot.in_namespace(broker, Lease, broker_namespace)
    return frozenset(lease.metadata.name for lease in leases) | {snapshot.local}


def cluster_settings(cluster: ClusterId, rules: ClusterSetSpec) -> MemberSettings:
    """What the fleet's rules say of one cluster."""
    found = (settings for settings in rules.clusters if settings.id == cluster)
    return next(found, MemberSettings(id=cluster))


def list_published_slices(key: Key, snapshot: Snapshot, broker: ClusterId) -> list[EndpointSlice]:
    """Everything that clusters publish of one service."""
    return list(snapshot.by(broker, PUBLISHED, f"{key.namespace}/{key.name}"))


def source_cluster(endpoint_slice: EndpointSlice) -> ClusterId:
    """The cluster that a slice comes from."""
    return endpoint_slice.metadata.labels.get(SOURCE_CLUSTER, "")


def alive_for_all(
    slices: Iterable[EndpointSlice], snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> list[EndpointSlice]:
    """The slices of clusters that everybody takes for alive, so that all agents agree."""
    return [s for s in slices if is_alive(source_cluster(s), snapshot, broker, broker_namespace)]


def alive_for_us(
    slices: Iterable[EndpointSlice], snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> list[EndpointSlice]:
    """The slices of clusters that we take for alive: our own always is."""
    return [
        s
        for s in slices
        if is_local_or_alive(source_cluster(s), snapshot, broker, broker_namespace)
    ]
