"""What one cluster says of one export: the record that its slices on the broker carry."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec
from msgspec import Struct

from hanse.features.services.names import (
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


class Record(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One cluster's export of one service."""

    cluster: ClusterId
    namespace: str
    name: str
    exported_at: datetime
    type: ImportType
    ports: tuple[ImportedPort, ...] = ()
    ip_families: tuple[IPFamily, ...] = ()
    session_affinity: Affinity = "None"
    session_affinity_config: SessionAffinityConfig | None = None
    internal_traffic_policy: str = ""
    traffic_distribution: str = ""
    exported_labels: dict[str, str] = {}
    exported_annotations: dict[str, str] = {}
    to: tuple[ClusterId, ...] = ()
    """The only clusters that import it; none: all."""
    weight: int | None = None
    schema: int = SCHEMA

    @property
    def age(self) -> tuple[datetime, ClusterId]:
        """The order in which exports count: the oldest first, then by the cluster's name."""
        return (self.exported_at, self.cluster)

    def is_for(self, cluster: ClusterId) -> bool:
        """Whether a cluster imports this export; one's own is always seen."""
        return not self.to or cluster in self.to or cluster == self.cluster


def record_of(export: ServiceExport, service: Service, cluster: ClusterId) -> Record:
    """What a cluster says of its own export; the Service can be exported."""
    spec, marks = service.spec, export.metadata.annotations
    began = export.metadata.creation_timestamp
    assert began is not None, "an export that is seen was created some time"
    policy = spec.internal_traffic_policy
    return Record(
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
        exported_labels=export.spec.exported_labels,
        exported_annotations=export.spec.exported_annotations,
        to=clusters_in(marks.get(TO_CLUSTERS, "")),
        weight=weight_in(marks.get(WEIGHT, "")),
    )


def clusters_in(text: str) -> tuple[ClusterId, ...]:
    """The clusters that an annotation names."""
    return tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))


def weight_in(text: str) -> int | None:
    """The weight that an annotation gives; None where there is none or a bad one."""
    return int(text) if text.isdecimal() and int(text) <= 1000 else None


def written(record: Record) -> str:
    """The record as its annotation."""
    return msgspec.json.encode(record).decode()


def record_on(piece: EndpointSlice) -> Record | None:
    """The record that a slice carries, if it is one, can be read, and says whose slice it is."""
    told = piece.metadata.annotations.get(RECORD, "")
    if not told:
        return None
    try:
        record = _decoder.decode(told)
    except msgspec.DecodeError:
        return None
    labels = piece.metadata.labels
    whose = (record.cluster, record.namespace, record.name)
    marked = tuple(labels.get(n, "") for n in (SOURCE_CLUSTER, SERVICE_NAMESPACE, SERVICE_NAME))
    return record if whose == marked and record.schema <= SCHEMA else None


def records_in(slices: Iterable[EndpointSlice]) -> Iterator[Record]:
    """The records among a service's slices, oldest first."""
    found = {r.cluster: r for piece in slices if (r := record_on(piece)) is not None}
    return iter(sorted(found.values(), key=lambda record: record.age))


_decoder = msgspec.json.Decoder(Record)
