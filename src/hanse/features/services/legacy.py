"""What Lighthouse agents publish: read like the slices of an upgraded cluster.

Up to 0.14 an agent publishes a ServiceImport `<service>-<namespace>-<cluster>` with the Service's
address, and a slice with its pods. Since 0.15 the slice has the Service's address, or the pods of a
headless Service, and there is one aggregated ServiceImport `<service>-<namespace>`.

An agent of Hanse takes over, or removes, what the Lighthouse agent of its cluster left behind. So
an object without our owner label was written by a Lighthouse agent that runs: it represents its
cluster, whatever an agent of Hanse published there before.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.clusters import (
    imported_slices,
    list_published_slices,
    source_cluster,
)
from hanse.features.services.names import (
    AGENT,
    DOMAIN,
    LIGHTHOUSE,
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
)
from hanse.features.services.records import (
    ExportRecord,
    decode_record,
    encode_record,
)
from hanse.features.services.slices import NOT_READY, READY, address_family
from hanse.model.addresses import is_address
from hanse.model.clusterset import MemberState, member_state
from hanse.model.facts import Answer, HolderState, LeaseLiveness
from hanse.model.kinds.discovery import (
    MANAGED_BY,
    AddressType,
    Endpoint,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.multicluster import ImportedPort, ImportType, ServiceImport
from hanse.model.naming import unique_name
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Key, Question, Read
from hanse.model.snapshot import Index, Snapshot
from hanse.model.weights import MOST_WEIGHT

LEGACY_CLUSTER = "lighthouse.submariner.io/sourceCluster"
LEGACY_NAME = "lighthouse.submariner.io/sourceName"
LEGACY_NAMESPACE = "lighthouse.submariner.io/sourceNamespace"
"""Labels of imports up to 0.14; the last is on slices of all versions, and on aggregates."""
IS_HEADLESS = "lighthouse.submariner.io/is-headless"
"""Label of slices since 0.15: `true` or `false`."""
LIGHTHOUSE_AGENT = "lighthouse-agent.submariner.io"
"""The manager of Lighthouse's slices."""
_WEIGHT = "lighthouse-lb-weight.submariner.io"
"""Prefix of annotations with the weight of a service in the cluster whose id follows."""
CONFIRMED_FOR = timedelta(hours=1)
"""How long a read of a slice tells that it is of an agent that returned."""


class LighthouseExport(Struct, frozen=True):
    """What the Lighthouse agent of one cluster publishes for one service."""

    service_import: ServiceImport | None
    slices: tuple[EndpointSlice, ...]


def is_of_lighthouse(obj: Object) -> bool:
    """Whether an object in the form of Lighthouse lacks our owner label: its agent wrote it."""
    return OWNER not in obj.metadata.labels


def legacy_import_key(legacy: ServiceImport) -> Key | None:
    """The key of the import that an object of Lighthouse up to 0.14 is about, by its three labels.

    None if one of them is missing or empty.
    """
    labels = legacy.metadata.labels
    if not all(labels.get(name) for name in (LEGACY_CLUSTER, LEGACY_NAME, LEGACY_NAMESPACE)):
        return None
    return Key("import", labels[LEGACY_NAME], labels[LEGACY_NAMESPACE])


def aggregate_key(aggregate: ServiceImport) -> Key | None:
    """The key of an aggregate of Lighthouse since 0.15, by its annotations; None for others."""
    annotations = aggregate.metadata.annotations
    name, namespace = annotations.get(SERVICE_NAME), annotations.get(LEGACY_NAMESPACE)
    return Key("aggregate", name, namespace) if name and namespace else None


def _legacy_service(legacy: ServiceImport) -> Iterator[str]:
    """Index values of an import up to 0.14: `namespace/name` of its service, and empty.

    None for other ServiceImports.
    """
    if (key := legacy_import_key(legacy)) is not None:
        yield f"{key.namespace}/{key.name}"
        yield ""


def _aggregated_service(aggregate: ServiceImport) -> Iterator[str]:
    """Index value of an aggregate since 0.15: `namespace/name` of its service; none for others."""
    if (key := aggregate_key(aggregate)) is not None:
        yield f"{key.namespace}/{key.name}"


AGGREGATES = Index(ServiceImport, "services-lighthouse-aggregates", _aggregated_service)
"""Aggregates in the form of Lighthouse since 0.15, by service."""
LEGACY_IMPORTS = Index(ServiceImport, "services-lighthouse-imports", _legacy_service)
"""ServiceImports in the form of Lighthouse up to 0.14, by service; all under the empty value."""


def _slice_service(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index values of a Lighthouse slice: `namespace/name` of its service, and empty.

    None for others. The name is that in the label, without a suffix `-<namespace>-<cluster>`.
    """
    labels = endpoint_slice.metadata.labels
    if LEGACY_NAMESPACE in labels and SOURCE_CLUSTER in labels and SERVICE_NAME in labels:
        name, namespace = labels[SERVICE_NAME], labels[LEGACY_NAMESPACE]
        # early versions have the name of the import here
        yield f"{namespace}/{name.removesuffix(f'-{namespace}-{labels[SOURCE_CLUSTER]}')}"
        yield ""


LEGACY_SLICES = Index(EndpointSlice, "services-lighthouse-slices", _slice_service)
"""Slices in the form of Lighthouse, by service, and all of them under the empty value."""


def legacy_slice_keys(endpoint_slice: EndpointSlice) -> Iterator[Key]:
    """The key of the import that a Lighthouse slice belongs to; none for other slices."""
    for value in _slice_service(endpoint_slice):
        namespace, _, name = value.partition("/")
        if name:
            yield Key("import", name, namespace)


def lighthouse_exports(
    key: Key, snapshot: Snapshot, where: ClusterId
) -> dict[ClusterId, LighthouseExport]:
    """What Lighthouse agents publish for one service in cluster `where`, by their cluster, sorted.

    Of a cluster with a ServiceImport of Lighthouse all slices in its form count; of others only
    those that have the label is-headless and not our owner label. Slices are sorted by name.
    """
    service = f"{key.namespace}/{key.name}"
    imports = {
        _legacy_cluster(i): i
        for i in snapshot.by(where, LEGACY_IMPORTS, service)
        if is_of_lighthouse(i)
    }
    slices: dict[ClusterId, list[EndpointSlice]] = {cluster: [] for cluster in imports}
    for endpoint_slice in snapshot.by(where, LEGACY_SLICES, service):
        cluster = source_cluster(endpoint_slice)
        is_current = IS_HEADLESS in endpoint_slice.metadata.labels
        # beside an import of Lighthouse the slice counts, whichever agent wrote it a moment ago
        if cluster in imports or (is_current and is_of_lighthouse(endpoint_slice)):
            slices.setdefault(cluster, []).append(endpoint_slice)
    return {
        cluster: LighthouseExport(
            imports.get(cluster), tuple(sorted(found, key=lambda s: s.metadata.name))
        )
        for cluster, found in sorted(slices.items())
    }


def lighthouse_slices(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> dict[ClusterId, tuple[EndpointSlice, ...]]:
    """The slices of Lighthouse agents for one service, by cluster, translated to our form.

    The first of each cluster has its record. Left out are the local cluster, whose agent is that of
    Hanse now, and exports without a creation time or a valid record.
    """
    found: dict[ClusterId, tuple[EndpointSlice, ...]] = {}
    for cluster, export in lighthouse_exports(key, snapshot, broker).items():
        if cluster == snapshot.local:
            continue
        translated = _translate(key, cluster, export, snapshot)
        if translated is not None:
            found[cluster] = tuple(
                _slice(translated, number, part, broker_namespace)
                for number, part in enumerate(translated.parts)
            )
    return {
        cluster: slices for cluster, slices in found.items() if decode_record(slices[0]) is not None
    }


def lighthouse_clusters(imported: Iterable[EndpointSlice]) -> frozenset[ClusterId]:
    """The clusters whose imported slices come from a Lighthouse agent: they have no Lease."""
    return frozenset([source_cluster(s) for s in imported if AGENT in s.metadata.annotations])


class Unconfirmed(Struct, frozen=True):
    """Clusters whose published slices may be those of before a roll-back, and what tells."""

    clusters: frozenset[ClusterId] = frozenset()
    questions: tuple[Question, ...] = ()


def unconfirmed_clusters(
    slices: Sequence[EndpointSlice],
    standing: frozenset[ClusterId],
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> Unconfirmed:
    """Clusters whose Lease is ready, with a slice that no live read has confirmed since that began.

    Only clusters that are neither local nor in `standing`; the questions are live reads of all
    slices of ready ones, confirmed or not. Until confirmed, slices may be old ones of an agent of
    Hanse that Lighthouse had replaced.
    """
    clusters: set[ClusterId] = set()
    questions: list[Question] = []
    for endpoint_slice in slices:
        cluster = source_cluster(endpoint_slice)
        liveness = snapshot.fact(LeaseLiveness, (broker, broker_namespace, cluster))
        if cluster in (snapshot.local, *standing):
            continue
        if liveness is None or liveness.state is not HolderState.READY:
            continue
        place = ClusterObjectRef(broker, object_ref(endpoint_slice))
        read = Read(place, since=liveness.since.isoformat())
        questions.append(Question(read, CONFIRMED_FOR))
        if not _is_confirmed(endpoint_slice, snapshot.fact(Answer, read.id)):
            clusters.add(cluster)
    return Unconfirmed(frozenset(clusters), tuple(questions))


def _is_confirmed(endpoint_slice: EndpointSlice, answer: Answer | None) -> bool:
    """Whether a slice has the resourceVersion that was read live, or a higher one.

    False without an answer, and if the slice was not there; texts that are no numbers must be
    equal.
    """
    if answer is None or answer.value is None:
        return False
    read = str(answer.value["metadata"]["resourceVersion"])
    known = endpoint_slice.metadata.resource_version
    return read == known or (read.isdecimal() and known.isdecimal() and int(read) <= int(known))


def being_upgraded(
    key: Key,
    migrating: frozenset[ClusterId],
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> frozenset[ClusterId]:
    """Clusters of `migrating` that Hanse took over, and that are not ready or publish nothing yet.

    Taken over means that objects in the form of Lighthouse have our owner label. `migrating` are
    those of whose Lighthouse agent something is imported, which stays until then.
    """
    if not migrating:
        return frozenset()
    service = f"{key.namespace}/{key.name}"
    slices = snapshot.by(broker, LEGACY_SLICES, service)
    upgraded = {source_cluster(s) for s in slices if not is_of_lighthouse(s)}
    imports = snapshot.by(broker, LEGACY_IMPORTS, service)
    upgraded |= {_legacy_cluster(i) for i in imports if not is_of_lighthouse(i)}
    publishing = {source_cluster(s) for s in list_published_slices(key, snapshot, broker)}
    return frozenset(
        cluster
        for cluster in upgraded & migrating
        if cluster not in publishing
        or member_state(cluster, snapshot, broker, broker_namespace) is not MemberState.READY
    )


class _Part(Struct, frozen=True):
    """Endpoints of one address family."""

    family: AddressType
    endpoints: tuple[Endpoint, ...]
    ports: tuple[EndpointPort, ...]


class _Translated(Struct, frozen=True):
    record: ExportRecord
    parts: tuple[_Part, ...]


def _translate(
    key: Key, cluster: ClusterId, export: LighthouseExport, snapshot: Snapshot
) -> _Translated | None:
    """An export of a Lighthouse agent as our record and endpoints; None without a creation time.

    By its EndpointSlices that are labeled as headless or not, if any, else by its ServiceImport.
    The export is as old as the oldest of these objects; its weight is that for the local cluster.
    """
    current = [s for s in export.slices if IS_HEADLESS in s.metadata.labels]
    legacy = None if current else export.service_import
    objects: list[Object] = [legacy] if legacy is not None else [*current]
    created = [t for o in objects if (t := o.metadata.creation_timestamp) is not None]
    if not created:
        return None
    standing = [s for s in imported_slices(key, snapshot) if source_cluster(s) == cluster]
    parts = tuple(
        _legacy_parts(legacy, export.slices, standing) if legacy else map(_slice_part, current)
    )
    spec = legacy.spec if legacy is not None else None
    record = ExportRecord(
        cluster,
        key.namespace,
        key.name,
        min(created),
        spec.type if spec is not None else _import_type(current),
        ports=spec.ports if spec is not None else _ports(current),
        ip_families=tuple({"IPv6" if p.family == "IPv6" else "IPv4": None for p in parts}),
        session_affinity=spec.session_affinity if spec is not None else "None",
        session_affinity_config=spec.session_affinity_config if spec is not None else None,
        weight=_annotated_weight(objects, snapshot.local),
    )
    return _Translated(record, parts)


def _import_type(slices: Sequence[EndpointSlice]) -> ImportType:
    """`Headless` if the label of any slice says so, else `ClusterSetIP`."""
    is_headless = any(s.metadata.labels[IS_HEADLESS] == "true" for s in slices)
    return "Headless" if is_headless else "ClusterSetIP"


def _ports(slices: Sequence[EndpointSlice]) -> tuple[ImportedPort, ...]:
    """The ports of all slices that have a number, the first of each name, as import ports."""
    ports: dict[str, ImportedPort] = {}
    for port in (p for s in slices for p in s.ports or () if p.port):
        imported = ImportedPort(
            port=port.port or 0,
            name=port.name,
            protocol=port.protocol,
            app_protocol=port.app_protocol,
        )
        ports.setdefault(port.name, imported)
    return tuple(ports.values())


def _annotated_weight(objects: Sequence[Object], local: ClusterId) -> int | None:
    """The first valid weight for cluster `local` in the objects' annotations; None without any."""
    texts = (o.metadata.annotations.get(f"{_WEIGHT}/{local}", "") for o in objects)
    return next((w for t in texts if (w := parse_number(t, MOST_WEIGHT)) is not None), None)


def _slice_part(endpoint_slice: EndpointSlice) -> _Part:
    """The endpoints of a slice without node and target reference, and its ports."""
    endpoints = endpoint_slice.endpoints or ()
    return _Part(
        endpoint_slice.address_type,
        tuple(replace(e, node_name="", target_ref=None) for e in endpoints),
        endpoint_slice.ports or (),
    )


def _legacy_parts(
    legacy: ServiceImport, slices: Sequence[EndpointSlice], standing: Sequence[EndpointSlice]
) -> Iterator[_Part]:
    """The endpoints of a Lighthouse import: its pods if headless, else the first IP in its spec.

    The IP is ready if any pod in the slices is, and left out if the slices have no pods. Without
    slices the endpoints are those of `standing`, which are imported already; without these, too,
    the IP, not ready.
    """
    if not slices and standing:
        yield from map(_slice_part, sorted(standing, key=lambda s: s.metadata.name))
        return
    if legacy.spec.type == "Headless":
        yield from map(_slice_part, slices)
        if slices:
            return
    pods = [e for s in slices for e in s.endpoints or ()]
    conditions = READY if any(e.ready for e in pods) else NOT_READY
    addresses = [ip for ip in legacy.spec.ips if is_address(ip)][:1]
    family = address_family(addresses[0]) if addresses else "IPv4"
    known = () if slices and not pods else addresses
    endpoints = tuple(Endpoint(addresses=(ip,), conditions=conditions) for ip in known)
    ports = tuple(
        EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
        for p in legacy.spec.ports
    )
    yield _Part(family, endpoints, ports)


def _slice(
    translated: _Translated, number: int, part: _Part, broker_namespace: str
) -> EndpointSlice:
    """A part of an export as the slice that our agent would publish, annotated as Lighthouse's.

    The first, with number 0, has the record.
    """
    record = translated.record
    annotations = {AGENT: LIGHTHOUSE}
    if number == 0:
        annotations[RECORD] = encode_record(record)
    return EndpointSlice(
        metadata=Meta(
            name=unique_name(
                record.name, record.cluster, record.namespace, f"older agent {number or ''}".strip()
            ),
            namespace=broker_namespace,
            labels={
                SERVICE_NAME: record.name,
                SERVICE_NAMESPACE: record.namespace,
                SOURCE_CLUSTER: record.cluster,
                MANAGED_BY: DOMAIN,
            },
            annotations=annotations,
        ),
        address_type=part.family,
        endpoints=part.endpoints,
        ports=part.ports,
    )


def _legacy_cluster(legacy: ServiceImport) -> ClusterId:
    """The cluster in the label of an import of Lighthouse up to 0.14."""
    return legacy.metadata.labels[LEGACY_CLUSTER]
