"""The record of a member Service, which its leader writes for the leaders of other members.

Records are ConfigMaps with a label by which they are watched: leaders have a right to ConfigMaps
by design, and no CRD has to be installed first.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Struct

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.names import RECORD, RECORD_NAMESPACE
from hanse.model.internal_addresses import InternalAddress
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import ConfigMap, Protocol
from hanse.model.kinds.discovery import AddressType, EndpointPort
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import is_service_name, unique_name
from hanse.model.objects import ClusterId, Meta
from hanse.model.snapshot import Index
from hanse.model.weights import MOST_PRIORITY, MOST_WEIGHT, Weighting

SCHEMA = 1
MOST_PORTS = 100
MEMBER = "member.json"
Identity = tuple[ClusterId, str, str, str]
"""Cluster, kind, namespace and name of a member Service."""


Weight = Annotated[int, msgspec.Meta(ge=0, le=MOST_WEIGHT)]
Priority = Annotated[int, msgspec.Meta(ge=0, le=MOST_PRIORITY)]


class MemberPort(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One port of a member Service."""

    port: int
    name: str = ""
    protocol: Protocol = "TCP"
    app_protocol: str = ""


class Backends(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Addresses of one family that serve the same ports, by their state."""

    slot: str
    """Where they were read; unique in the record."""
    family: AddressType
    ports: tuple[EndpointPort, ...] = ()
    """Named as the member Service's own ports."""
    ready: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    draining: tuple[str, ...] = ()
    """Terminating, and still serving."""
    zones: dict[str, str] = {}
    """The zone of each address, where its Service prefers endpoints that are close."""
    internal: tuple[InternalAddress, ...] = ()
    """The addresses that some clusters use instead: they are on the network of the machine."""


class Origin(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A member Service without its endpoints, as the merge needs it."""

    cluster: ClusterId
    kind: Literal["Service", "NativeService"]
    namespace: str
    name: str
    since: datetime
    ports: tuple[MemberPort, ...] = ()
    health: str = ""
    affinity: str = ""
    publish_from: str = ""
    """The settings in its annotations; empty if it has none."""
    weight: Weight | None = None
    priority: Priority | None = None
    """Its own share of the traffic; None if it says nothing."""

    @property
    def weighting(self) -> Weighting:
        """Its weight and priority, the default for each that it does not set."""
        return _weighting(self.weight, self.priority)

    @property
    def age(self) -> tuple[datetime, ClusterId, str, str, str]:
        """Sort key: the first to join takes precedence, then by cluster and name."""
        return (self.since, self.cluster, self.namespace, self.name, self.kind)

    @property
    def identity(self) -> Identity:
        """Cluster, kind, namespace and name of the member Service."""
        return (self.cluster, self.kind, self.namespace, self.name)

    def __str__(self) -> str:
        """The member Service for messages: `KIND NAMESPACE/NAME of CLUSTER`."""
        return f"{self.kind} {self.namespace}/{self.name} of {self.cluster}"


class MemberRecord(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One member Service of one federated Service, as the leader of its cluster records it."""

    cluster: ClusterId
    kind: Literal["Service", "NativeService"]
    namespace: str
    name: str
    of_namespace: str
    of_name: str
    ports: tuple[MemberPort, ...] = ()
    backends: tuple[Backends, ...] = ()
    hostname: str = ""
    """The host name in its annotations for ExternalDNS."""
    health: str = ""
    affinity: str = ""
    publish_from: str = ""
    """The settings in its annotations; empty if it has none."""
    weight: Weight | None = None
    priority: Priority | None = None
    """Its own share of the traffic; None if it says nothing."""
    traffic_distribution: Annotated[str, msgspec.Meta(max_length=63)] = ""
    """Whose endpoints clients prefer, as its Service says."""
    sources: tuple[str, ...] = ()
    """The addresses that its backends send from, for policies; empty: those of its backends."""
    schema: int = 1

    @property
    def federated(self) -> FederatedName:
        return FederatedName(self.of_namespace, self.of_name)

    def origin(self, since: datetime) -> Origin:
        """The record without its endpoints, with the time of joining."""
        return Origin(
            self.cluster,
            self.kind,
            self.namespace,
            self.name,
            since,
            self.ports,
            self.health,
            self.affinity,
            self.publish_from,
            self.weight,
            self.priority,
        )

    @property
    def weighting(self) -> Weighting:
        """Its weight and priority, the default for each that it does not set."""
        return _weighting(self.weight, self.priority)

    @property
    def is_ready(self) -> bool:
        """Whether it has a ready address."""
        return any(backends.ready for backends in self.backends)


class StoredRecord(Struct, frozen=True):
    """A record in a member, and when it was created."""

    record: MemberRecord
    since: datetime

    @property
    def origin(self) -> Origin:
        """The record without its endpoints; it joined when the record was created."""
        return self.record.origin(self.since)


def _weighting(weight: int | None, priority: int | None) -> Weighting:
    """The given weight and priority; the default for each that is None."""
    default = Weighting()
    return Weighting(
        default.weight if weight is None else weight,
        default.priority if priority is None else priority,
    )


def record_name(federated: FederatedName, member: MemberRecord | Origin) -> str:
    """The name of the ConfigMap with the record of a member Service of a federated one."""
    return unique_name(
        "fed", federated.name, member.name, federated.namespace, member.namespace, member.kind
    )


def record_configmap(record: MemberRecord) -> ConfigMap:
    """The ConfigMap in namespace SYSTEM that has a record, labelled with its federated Service."""
    federated = record.federated
    name = record_name(federated, record)
    labels = {RECORD: federated.name, RECORD_NAMESPACE: federated.namespace}
    text = msgspec.json.encode(record, order="deterministic").decode()
    return ConfigMap(metadata=Meta(name=name, namespace=SYSTEM, labels=labels), data={MEMBER: text})


def read_record(configmap: ConfigMap, where: ClusterId) -> StoredRecord | None:
    """The record in a ConfigMap of a member; None if it is invalid or has a newer schema.

    None, too, if it names another cluster, or another federated Service than the labels. Without a
    creation time it counts as the newest.
    """
    labels = configmap.metadata.labels
    record = _decode(configmap.data.get(MEMBER, ""))
    if record is None or record.cluster != where:
        return None
    if (labels.get(RECORD), labels.get(RECORD_NAMESPACE)) != (record.of_name, record.of_namespace):
        return None
    return StoredRecord(
        record, configmap.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    )


def has_newer_schema(configmap: ConfigMap) -> bool:
    """Whether a record has a newer schema than this agent reads; False if it cannot be decoded."""
    try:
        return decode_json(configmap.data.get(MEMBER, ""), _MemberRecordVersion).schema > SCHEMA
    except msgspec.DecodeError:
        return False


def _record_service(configmap: ConfigMap) -> Iterator[str]:
    """Index value: `namespace/name` of the record's federated Service; none without its label."""
    labels = configmap.metadata.labels
    if RECORD in labels:
        yield f"{labels.get(RECORD_NAMESPACE, '')}/{labels[RECORD]}"


BY_SERVICE = Index(ConfigMap, "federated-records", _record_service)
"""Records by federated Service."""
BY_NAMESPACE = Index(
    ConfigMap, "federated-namespaces", lambda c: [c.metadata.labels.get(RECORD_NAMESPACE, "")]
)


class _MemberRecordVersion(Struct, frozen=True):
    schema: int = 1


@lru_cache(maxsize=8192)
def _decode(text: str) -> MemberRecord | None:
    """The valid record in a text; None if it is empty, invalid, or of a newer schema.

    Cached: every led member's plan reads the same records.
    """
    if not text:
        return None
    try:
        if decode_json(text, _MemberRecordVersion).schema > SCHEMA:
            return None
        record = decode_json(text, MemberRecord)
    except msgspec.DecodeError:
        return None
    return record if _is_valid(record) else None


def _is_valid(record: MemberRecord) -> bool:
    """Whether a Service made from a record would be valid: its name, and its ports.

    Up to MOST_PORTS ports, with numbers from 1 to 65535 and names of up to 63 characters; the ports
    of its backends have such numbers, too.
    """
    numbers = [p.port for backends in record.backends for p in backends.ports if p.port is not None]
    return (
        is_service_name(record.of_name)
        and len(record.ports) <= MOST_PORTS
        and all(len(p.name) <= 63 for p in record.ports)
        and all(1 <= number <= 65535 for number in (*numbers, *(p.port for p in record.ports)))
    )
