"""Look-ups about clusters: the slices they publish, who has joined or is alive, and their settings.

The settings include the namespaces and address ranges that a cluster may publish.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.names import DOMAIN, SERVICE_NAME, SERVICE_NAMESPACE, SOURCE_CLUSTER
from hanse.model.clusterset import (
    MemberState,
    common_state,
    is_rejoining,
    joined_clusters,
    member_state,
    watch_lags_lease,
)
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, Endpoint, EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec, MemberSettings
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId
from hanse.model.own_addresses import is_within
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot
from hanse.model.summaries import first_of


def _backed_service(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index value: `namespace/name` of the Service that a slice belongs to, by its label.

    None without the label, and for slices written by Hanse.
    """
    labels = endpoint_slice.metadata.labels
    if KUBE_SERVICE in labels and labels.get(MANAGED_BY) != DOMAIN:
        yield f"{endpoint_slice.metadata.namespace}/{labels[KUBE_SERVICE]}"


def _imported_service(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index value: `namespace/name` of the ServiceImport of a slice written by Hanse; else none."""
    labels = endpoint_slice.metadata.labels
    if SERVICE_NAME in labels and labels.get(MANAGED_BY) == DOMAIN:
        yield f"{endpoint_slice.metadata.namespace}/{labels[SERVICE_NAME]}"


def _imported_from(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index values: empty, for all imported slices, and the cluster that the slice is of.

    None for slices that are not imported ones.
    """
    if any(_imported_service(endpoint_slice)):
        yield from ("", source_cluster(endpoint_slice))


def _published_service(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index value: `namespace/name` of the service that a slice on the broker is published for.

    None without the labels of both.
    """
    labels = endpoint_slice.metadata.labels
    if SERVICE_NAMESPACE in labels and SERVICE_NAME in labels:
        yield f"{labels[SERVICE_NAMESPACE]}/{labels[SERVICE_NAME]}"


BACKENDS = Index(EndpointSlice, "services-backends", _backed_service)
"""Slices of the cluster's own Services, by Service; imported slices are not among them."""
IMPORTED = Index(EndpointSlice, "services-imported", _imported_service)
"""Imported slices in this cluster, by ServiceImport."""
IMPORTED_FROM = Index(EndpointSlice, "services-imported-from", _imported_from)
"""Imported slices in this cluster, by the cluster that published them; empty for all."""
PUBLISHED = Index(EndpointSlice, "services-published", _published_service)
"""Slices on the broker, by the service that they are published for."""
BY_SOURCE = Index(
    EndpointSlice, "services-source", lambda s: [s.metadata.labels.get(SOURCE_CLUSTER, "")]
)
IN_NAMESPACE = Index(
    EndpointSlice, "services-namespace", lambda s: [s.metadata.labels.get(SERVICE_NAMESPACE, "")]
)


def list_published_slices(key: Key, snapshot: Snapshot, broker: ClusterId) -> list[EndpointSlice]:
    """The slices of all clusters, ready or not, on the broker for one service, as last observed.

    They stay while the broker is unreachable.
    """
    return list(snapshot.by(broker, PUBLISHED, f"{key.namespace}/{key.name}"))


def broker_since(snapshot: Snapshot, broker: ClusterId, broker_namespace: str) -> datetime | None:
    """When the broker's namespace was created; None if it is missing or not read."""
    found = snapshot.get(broker, Namespace, broker_namespace)
    return found.metadata.creation_timestamp if found is not None else None


def source_cluster(endpoint_slice: EndpointSlice) -> ClusterId:
    """The cluster in a slice's label `source-cluster`; empty without it."""
    return endpoint_slice.metadata.labels.get(SOURCE_CLUSTER, "")


class JudgedSlices(Struct, frozen=True):
    """Published slices by what their clusters are: those that count, and those of silent ones."""

    counted: list[EndpointSlice]
    """Of clusters that are ready, and of `standing` ones whose state is unknown."""
    silent: list[EndpointSlice]
    """Of the other clusters that have not left."""


def judge_slices(
    slices: Iterable[EndpointSlice],
    standing: frozenset[ClusterId],
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
    *,
    judge: Callable[[ClusterId, Snapshot, ClusterId, str], MemberState] = member_state,
) -> JudgedSlices:
    """The slices that count, and the silent ones, by the states of their clusters.

    Those of READY clusters count, and those of UNKNOWN ones in `standing`, which the import names
    already; those of GONE clusters are in neither list, all others are silent. `judge` tells the
    state of a cluster; by default the local one is always READY.
    """
    states: dict[ClusterId, MemberState] = {}
    found = JudgedSlices([], [])
    for endpoint_slice in slices:
        cluster = source_cluster(endpoint_slice)
        if cluster not in states:
            states[cluster] = judge(cluster, snapshot, broker, broker_namespace)
        state = states[cluster]
        if state is MemberState.READY or (state is MemberState.UNKNOWN and cluster in standing):
            found.counted.append(endpoint_slice)
        elif state is not MemberState.GONE:
            found.silent.append(endpoint_slice)
    return found


def awaited_clusters(
    slices: Iterable[EndpointSlice],
    imported: frozenset[ClusterId],
    standing: frozenset[ClusterId],
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> frozenset[ClusterId]:
    """The `standing` clusters, which the import names, that publish nothing and may still do so.

    Their state is unknown since the broker or they returned, or they are ready so recently that
    their slices may not have been seen. One that is no member and of which nothing is `imported` is
    not awaited, nor one that has joined anew: what it had published before is gone for good.
    """
    place = (snapshot, broker, broker_namespace)
    missing = standing - {source_cluster(s) for s in slices}
    if not missing:
        return frozenset()
    missing &= imported | joined_clusters(*place)
    return frozenset(cluster for cluster in missing if _may_publish_yet(cluster, *place))


def _may_publish_yet(
    cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> bool:
    """Whether slices of a cluster, of which none is seen, may exist or be published again.

    True for an UNKNOWN cluster, unless it has joined anew, and for a READY one, but the local,
    whose Lease is so new that the watch of slices may be behind; else False.
    """
    place = (snapshot, broker, broker_namespace)
    match common_state(cluster, *place):
        case MemberState.UNKNOWN:
            return not is_rejoining(cluster, *place)
        case MemberState.READY:
            return cluster != snapshot.local and watch_lags_lease(cluster, EndpointSlice, *place)
        case _:
            return False


def lost_clusters(
    key: Key,
    slices: Iterable[EndpointSlice],
    exporters: frozenset[ClusterId],
    rules: ClusterSetSpec,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> frozenset[ClusterId]:
    """The exporters that have no slice among `slices`, and whose state is silent or unknown.

    The broker has lost what they published, and they have not left; without those that may not
    publish services of the namespace.
    """
    return frozenset(
        cluster
        for cluster in exporters - {source_cluster(s) for s in slices}
        if may_publish(cluster, key.namespace, rules)
        and member_state(cluster, snapshot, broker, broker_namespace)
        in (MemberState.SILENT, MemberState.UNKNOWN)
    )


def exporting_clusters(service_import: ServiceImport | None) -> frozenset[ClusterId]:
    """The clusters in an import's status; none for None."""
    named = service_import.status.clusters if service_import is not None else ()
    return frozenset(exporting.cluster for exporting in named)


def imported_slices(key: Key, snapshot: Snapshot) -> list[EndpointSlice]:
    """The slices of one service that this cluster has imported."""
    return list(snapshot.by(snapshot.local, IMPORTED, f"{key.namespace}/{key.name}"))


def cluster_settings(cluster: ClusterId, rules: ClusterSetSpec) -> MemberSettings:
    """The settings that the ClusterSet has for one cluster, or the defaults."""
    found = (settings for settings in rules.clusters if settings.id == cluster)
    return next(found, MemberSettings(id=cluster))


def may_publish(cluster: ClusterId, namespace: str, rules: ClusterSetSpec) -> bool:
    """Whether a cluster may publish services of a namespace, by spec.clusters[].namespaces.

    A cluster without settings, or with no namespaces in them, may publish all.
    """
    allowed = cluster_settings(cluster, rules).namespaces
    return not allowed or namespace in allowed


def drop_foreign_namespaces(
    slices: Iterable[EndpointSlice], rules: ClusterSetSpec
) -> list[EndpointSlice]:
    """The slices without those of namespaces that their cluster may not publish.

    The broker's admission policy refuses new ones; those from before a change stand there.
    """
    if not rules.clusters:
        return list(slices)
    return [
        s
        for s in slices
        if may_publish(source_cluster(s), s.metadata.labels.get(SERVICE_NAMESPACE, ""), rules)
    ]


def is_address_allowed(endpoint: Endpoint, ranges: Sequence[str]) -> bool:
    """Whether all addresses of an endpoint are within the ranges; without ranges all are."""
    return not ranges or all(is_within(address, ranges) for address in endpoint.addresses)


def drop_disallowed(endpoint_slice: EndpointSlice, ranges: Sequence[str]) -> EndpointSlice:
    """The slice less its endpoints with an address outside of the ranges, if ranges are given."""
    if not ranges:
        return endpoint_slice
    allowed = tuple(e for e in endpoint_slice.endpoints or () if is_address_allowed(e, ranges))
    return replace(endpoint_slice, endpoints=allowed)


def addresses_of_disallowed_endpoints(
    slices: Sequence[EndpointSlice], ranges: Sequence[str]
) -> tuple[str, ...]:
    """All addresses of endpoints of which any is outside of their cluster's ranges, sorted.

    Empty if there are no ranges.
    """
    endpoints = (e for s in slices for e in s.endpoints or () if not is_address_allowed(e, ranges))
    return tuple(sorted({address for e in endpoints for address in e.addresses}))


def disallowed_message(addresses: Sequence[str], ranges: Sequence[str]) -> str:
    """The condition message for addresses outside of ranges: the first 3 of them, and 8 ranges."""
    return (
        f"{first_of(addresses)}: outside of {', '.join(ranges[:8])}; it is left out of "
        "imports until the ClusterSet allows it"
    )
