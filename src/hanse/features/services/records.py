"""The export record: one cluster's export of one service, kept as an annotation of its slices."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.names import (
    AFFINITY,
    EXPORTED_AT,
    PRIORITY,
    RECORD,
    RESERVED,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    TO_CLUSTERS,
    WEIGHT,
)
from hanse.model.affinity import parse_affinity
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import Affinity, IPFamily, Service, SessionAffinityConfig
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ImportType, ServiceExport
from hanse.model.label_syntax import is_label_key, is_label_value
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId, parse_time
from hanse.model.weights import MOST_PRIORITY, MOST_WEIGHT

SCHEMA = 1
"""Raised when older agents would misread a record; records of a newer schema are left alone."""

MOST_PORTS = 100
MOST_CHARACTERS = 64 * 1024
"""Of all exported annotations of one export; the limit of an object is four times as much."""


FIRST_PUBLICATIONS = timedelta(hours=1)
"""How long after its creation a broker's namespace takes the stated ages of exports as they are."""


class ExportRecord(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One cluster's export of one service."""

    cluster: ClusterId
    namespace: str
    name: str
    exported_at: Annotated[datetime, msgspec.Meta(tz=True)]
    type: ImportType
    ports: tuple[ImportedPort, ...] = ()
    ip_families: tuple[IPFamily, ...] = ()
    session_affinity: Affinity = "None"
    session_affinity_config: SessionAffinityConfig | None = None
    internal_traffic_policy: str = ""
    traffic_distribution: Annotated[str, msgspec.Meta(max_length=63)] = ""
    exported_labels: dict[str, str] = {}
    exported_annotations: dict[str, str] = {}
    to: tuple[ClusterId, ...] = ()
    """The only clusters that import it; empty: all do."""
    weight: Annotated[int, msgspec.Meta(ge=0, le=MOST_WEIGHT)] | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=MOST_PRIORITY)] | None = None
    affinity: Annotated[str, msgspec.Meta(max_length=16)] = ""
    """Whose endpoints clusters prefer; empty if the export does not say."""
    schema: int = 1
    """A record without the field has the first schema."""

    @property
    def identity(self) -> tuple[ClusterId, str, str]:
        """Cluster, namespace and name, which the labels of its slices have, too."""
        return (self.cluster, self.namespace, self.name)

    @property
    def age(self) -> tuple[datetime, ClusterId]:
        """The precedence of exports: oldest first, then by the cluster's name."""
        return (self.exported_at, self.cluster)

    def is_for(self, cluster: ClusterId) -> bool:
        """Whether a cluster imports this export; the exporting cluster always does."""
        return not self.to or cluster in self.to or cluster == self.cluster


class _ExportRecordVersion(Struct, frozen=True):
    """The only field of a record that every schema has."""

    schema: int = 1


class PublishedExports(Struct, frozen=True):
    """The records of one service on the broker."""

    records: tuple[ExportRecord, ...]
    """The readable ones, oldest first, one for each cluster; `exported_at` is `bounded_age`."""
    newer: frozenset[ClusterId] = frozenset()
    """Clusters whose record has a newer schema: treated like clusters out of reach."""


def build_record(export: ServiceExport, service: Service, cluster: ClusterId) -> ExportRecord:
    """The record of an export in its own cluster; the Service must be exportable.

    Invalid annotations are left out, as are labels and annotations that may not be exported;
    internal traffic policy `Cluster` becomes empty. `exported_at` is the creation time of the
    ServiceExport.
    """
    spec, annotations = service.spec, export.metadata.annotations
    created = export.metadata.creation_timestamp
    assert created is not None, "an export in the store has a creation timestamp"
    policy, affinity = spec.internal_traffic_policy, annotations.get(AFFINITY, "")
    return ExportRecord(
        cluster=cluster,
        namespace=export.metadata.namespace,
        name=export.metadata.name,
        exported_at=created,
        type="Headless" if service.headless else "ClusterSetIP",
        ports=tuple(
            ImportedPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
            for p in spec.ports
        ),
        ip_families=spec.ip_families,
        session_affinity=spec.session_affinity,
        session_affinity_config=spec.session_affinity_config,
        internal_traffic_policy="" if policy == "Cluster" else policy,
        traffic_distribution=spec.traffic_distribution,
        exported_labels=allowed_labels(export.spec.exported_labels),
        exported_annotations=allowed_annotations(export.spec.exported_annotations),
        to=parse_cluster_list(annotations.get(TO_CLUSTERS, "")),
        weight=parse_number(annotations.get(WEIGHT, ""), MOST_WEIGHT),
        priority=parse_number(annotations.get(PRIORITY, ""), MOST_PRIORITY),
        affinity=affinity if parse_affinity(affinity) is not None else "",
        schema=SCHEMA,
    )


def parse_cluster_list(text: str) -> tuple[ClusterId, ...]:
    """The clusters in a comma-separated annotation value: stripped, sorted, not empty, distinct."""
    if not text:
        return ()  # as of most exports of a large fleet
    return tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))


def encode_record(record: ExportRecord) -> str:
    """The record as the value of its annotation: JSON with sorted keys."""
    return msgspec.json.encode(record, order="sorted").decode()


def decode_record(endpoint_slice: EndpointSlice) -> ExportRecord | None:
    """The record in a slice's annotation; None if it is missing, invalid or has a newer schema.

    None, too, if its cluster, namespace or name differ from those in the slice's labels.
    """
    record = _decode(endpoint_slice.metadata.annotations.get(RECORD, ""))
    if not isinstance(record, ExportRecord):
        return None
    return record if record.identity == _labelled_identity(endpoint_slice) else None


def has_newer_schema(endpoint_slice: EndpointSlice) -> bool:
    """Whether a slice carries a record of a newer schema than this agent knows."""
    return isinstance(
        _decode(endpoint_slice.metadata.annotations.get(RECORD, "")), _ExportRecordVersion
    )


@lru_cache(maxsize=8192)
def _decode(text: str) -> ExportRecord | _ExportRecordVersion | None:
    """A valid record, only the version of one with a newer schema, or None.

    Cached: several plans read the same record, and again whenever a slice beside it changes.
    """
    if not text:
        return None
    try:
        version = decode_json(text, _ExportRecordVersion)
        record = decode_json(text, ExportRecord) if version.schema <= SCHEMA else version
    except msgspec.DecodeError:
        return None
    return None if isinstance(record, ExportRecord) and not _is_valid(record) else record


def read_exports(
    slices: Iterable[EndpointSlice], broker_since: datetime | None
) -> PublishedExports:
    """The records in the slices of one service, oldest first, the same for any order of slices.

    One for each cluster: the valid one whose slice has the lowest name, with `bounded_age`. A
    record that differs from its slice's labels in cluster, namespace or name is invalid; a cluster
    with any record of a newer schema is only in `newer`. `broker_since` is when the broker's
    namespace was created, None if that is not known.
    """
    records: dict[ClusterId, ExportRecord] = {}
    published: dict[ClusterId, list[EndpointSlice]] = {}
    newer: set[ClusterId] = set()
    for endpoint_slice in sorted(slices, key=lambda s: s.metadata.name):
        identity = _labelled_identity(endpoint_slice)
        cluster = identity[0]
        published.setdefault(cluster, []).append(endpoint_slice)
        match _decode(endpoint_slice.metadata.annotations.get(RECORD, "")):
            case _ExportRecordVersion():
                newer.add(cluster)
            case ExportRecord() as record if record.identity == identity:
                records.setdefault(cluster, record)
            case _:
                continue
    known = [
        bounded_age(record, published[cluster], broker_since)
        for cluster, record in records.items()
        if cluster not in newer
    ]
    return PublishedExports(tuple(sorted(known, key=lambda r: r.age)), frozenset(newer))


def bounded_age(
    record: ExportRecord, slices: Sequence[EndpointSlice], broker_since: datetime | None
) -> ExportRecord:
    """The record with `exported_at` at least the earliest time that its slices prove.

    Unchanged if no slice proves a time. A cluster could state any time, and the oldest export wins
    conflicts; a slice proves when it was created on the broker, but see `_proven_time`.
    """
    proven = [t for s in slices if (t := _proven_time(s, broker_since)) is not None]
    if not proven or (since := min(proven)) <= record.exported_at:
        return record
    return replace(record, exported_at=since)


def _proven_time(endpoint_slice: EndpointSlice, broker_since: datetime | None) -> datetime | None:
    """The creation time of a slice; None if it was never stored.

    Of a slice created up to an hour after the broker's namespace, which may have been lost and made
    anew, the time in its annotation `exported-at`, if that is valid.
    """
    created = endpoint_slice.metadata.creation_timestamp
    if created is None or broker_since is None or created - broker_since > FIRST_PUBLICATIONS:
        return created
    return parse_time(endpoint_slice.metadata.annotations.get(EXPORTED_AT)) or created


def _labelled_identity(endpoint_slice: EndpointSlice) -> tuple[str, str, str]:
    """Cluster, namespace and name of the export, by the slice's labels; a missing one is empty."""
    labels = endpoint_slice.metadata.labels
    return (
        labels.get(SOURCE_CLUSTER, ""),
        labels.get(SERVICE_NAMESPACE, ""),
        labels.get(SERVICE_NAME, ""),
    )


def allowed_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The exported labels that an API server accepts and that are not reserved."""
    return {
        name: value
        for name, value in labels.items()
        if is_label_key(name) and is_label_value(value) and not name.startswith(RESERVED)
    }


def allowed_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """The exported annotations that are valid, not reserved, and fit, in order of names.

    All of them, also those left out, count for the limit of MOST_CHARACTERS.
    """
    allowed: dict[str, str] = {}
    room = MOST_CHARACTERS
    for name, value in sorted(annotations.items()):
        room -= len(name) + len(value.encode("utf-8", "surrogatepass"))
        if is_label_key(name) and not name.startswith(RESERVED) and room >= 0:
            allowed[name] = value
    return allowed


def _is_valid(record: ExportRecord) -> bool:
    """Whether an API server would accept an import of it; one it refuses would block all others.

    Checked are the cluster's id, the number, bounds and duplicates of ports (none only if
    headless), duplicate families, the affinity timeout, and exported labels and annotations.
    """
    ports = record.ports
    config = record.session_affinity_config
    timeout = config.client_ip.timeout_seconds if config and config.client_ip else 1
    return (
        _CLUSTER.fullmatch(record.cluster) is not None
        and len(ports) <= MOST_PORTS
        and (bool(ports) or record.type == "Headless")
        and all(
            1 <= p.port <= 65535 and len(p.name) <= 63 and len(p.app_protocol) <= 253 for p in ports
        )
        and len({p.name for p in ports}) == len(ports)
        and len({(p.protocol, p.port) for p in ports}) == len(ports)
        and len(set(record.ip_families)) == len(record.ip_families)
        and 1 <= timeout <= 86400
        and allowed_labels(record.exported_labels) == record.exported_labels
        and allowed_annotations(record.exported_annotations) == record.exported_annotations
    )


_CLUSTER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
