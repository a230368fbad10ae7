"""What one cluster says of one export: the record that its slices on the broker carry."""

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Struct

from hanse.features.services.labels import allowed_annotations, allowed_labels
from hanse.features.services.names import (
    PRIORITY,
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    TO_CLUSTERS,
    WEIGHT,
)
from hanse.model.kinds.core import Affinity, IPFamily, Service, SessionAffinityConfig
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ImportType, ServiceExport
from hanse.model.objects import ClusterId

SCHEMA = 1
"""Raised when older agents would misread a record; a newer one than ours is left alone."""

MOST_PORTS = 100
MOST_WEIGHT = 1000
MOST_PRIORITY = 100


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
    """The only clusters that import it; none: all."""
    weight: Annotated[int, msgspec.Meta(ge=0, le=MOST_WEIGHT)] | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=MOST_PRIORITY)] | None = None
    schema: int = 1
    """Unstated is the first, whatever the newest is."""

    @property
    def age(self) -> tuple[datetime, ClusterId]:
        """The order in which exports count: the oldest first, then by the cluster's name."""
        return (self.exported_at, self.cluster)

    def is_for(self, cluster: ClusterId) -> bool:
        """Whether a cluster imports this export; one's own is always seen."""
        return not self.to or cluster in self.to or cluster == self.cluster


class _Version(Struct, frozen=True):
    """The one thing of a record that every version says alike."""

    schema: int = 1


class PublishedExports(Struct, frozen=True):
    """All that clusters say of one service on the broker."""

    records: tuple[ExportRecord, ...]
    """What can be read, oldest first, one for each cluster."""
    newer: frozenset[ClusterId] = frozenset()
    """Whose record is of a later version than ours: to us they are clusters that we cannot see."""


def build_record(export: ServiceExport, service: Service, cluster: ClusterId) -> ExportRecord:
    """What a cluster says of its own export; the Service can be exported."""
    spec, marks = service.spec, export.metadata.annotations
    began = export.metadata.creation_timestamp
    assert began is not None, "an export that is seen was created some time"
    policy = spec.internal_traffic_policy
    return ExportRecord(
        cluster=cluster,
        namespace=export.metadata.namespace,
        name=export.metadata.name,
        exported_at=began,
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
        to=parse_cluster_list(marks.get(TO_CLUSTERS, "")),
        weight=parse_number(marks.get(WEIGHT, ""), MOST_WEIGHT),
        priority=parse_number(marks.get(PRIORITY, ""), MOST_PRIORITY),
        schema=SCHEMA,
    )


def parse_cluster_list(text: str) -> tuple[ClusterId, ...]:
    """The clusters that an annotation names."""
    return tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))


def parse_number(text: str, most: int) -> int | None:
    """The number that an annotation gives; None where there is none or a bad one."""
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if plain and int(text) <= most else None


def written(record: ExportRecord) -> str:
    """The record as its annotation."""
    return msgspec.json.encode(record, order="sorted").decode()


def decode_record(endpoint_slice: EndpointSlice) -> ExportRecord | None:
    """The record that a slice carries, if it is one, can be read, and says whose slice it is."""
    record = _read(endpoint_slice.metadata.annotations.get(RECORD, ""))
    if not isinstance(record, ExportRecord):
        return None
    whose = (record.cluster, record.namespace, record.name)
    return record if whose == _marked(endpoint_slice) else None


def has_newer_schema(endpoint_slice: EndpointSlice) -> bool:
    """Whether a slice carries a record of a later version than we know."""
    return isinstance(_read(endpoint_slice.metadata.annotations.get(RECORD, "")), _Version)


@lru_cache(maxsize=8192)
def _read(told: str) -> ExportRecord | _Version | None:
    """What an annotation says: a sound record, only the version of a later one, or nothing.

    One record is read by several plans, and again whenever a slice beside it changes.
    """
    if not told:
        return None
    try:
        version = _versions.decode(told)
        record = _decoder.decode(told) if version.schema <= SCHEMA else version
    except msgspec.DecodeError:
        return None
    return None if isinstance(record, ExportRecord) and not _is_sound(record) else record


def read_exports(slices: Iterable[EndpointSlice]) -> PublishedExports:
    """All that is said of one service, whatever the order of its slices."""
    records: dict[ClusterId, ExportRecord] = {}
    newer: set[ClusterId] = set()
    for endpoint_slice in sorted(slices, key=lambda s: s.metadata.name):
        if has_newer_schema(endpoint_slice):
            newer.add(_marked(endpoint_slice)[0])
        elif (record := decode_record(endpoint_slice)) is not None:
            records.setdefault(record.cluster, record)
    known = [r for r in records.values() if r.cluster not in newer]
    return PublishedExports(tuple(sorted(known, key=lambda r: r.age)), frozenset(newer))


def _marked(endpoint_slice: EndpointSlice) -> tuple[str, str, str]:
    labels = endpoint_slice.metadata.labels
    return (
        labels.get(SOURCE_CLUSTER, ""),
        labels.get(SERVICE_NAMESPACE, ""),
        labels.get(SERVICE_NAME, ""),
    )


def _is_sound(record: ExportRecord) -> bool:
    """Whether an import can be made of it: what no API server took would hold up all others."""
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
_decoder = msgspec.json.Decoder(ExportRecord)
_versions = msgspec.json.Decoder(_Version)
