"""Merges the exports of one service into one import; the order of the records is irrelevant."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.records import ExportRecord
from hanse.model.affinity import ZONE_DISTRIBUTIONS
from hanse.model.kinds.core import Affinity, IPFamily, SessionAffinityConfig
from hanse.model.kinds.hanse import Profile
from hanse.model.kinds.multicluster import ImportedPort, ImportType
from hanse.model.objects import ClusterId
from hanse.model.ports import default_port_name


class ExportConflict(Struct, frozen=True, order=True):
    """A conflict of one export with others: reason and message of its condition."""

    reason: str
    message: str


class MergedImport(Struct, frozen=True):
    """The import that all exports make together, and the conflicts among them."""

    type: ImportType
    ports: tuple[ImportedPort, ...]
    ip_families: tuple[IPFamily, ...]
    session_affinity: Affinity
    session_affinity_config: SessionAffinityConfig | None
    internal_traffic_policy: str
    traffic_distribution: str
    affinity: str
    labels: dict[str, str]
    annotations: dict[str, str]
    clusters: tuple[ClusterId, ...]
    """The exporting clusters, oldest first, without the refused ones."""
    refused: frozenset[ClusterId]
    """Clusters whose type differs from the oldest export's, where the profile forbids it."""
    conflicts: Mapping[ClusterId, tuple[ExportConflict, ...]]

    @property
    def prefers_zones(self) -> bool:
        """Whether the traffic distribution prefers endpoints of the client's zone.

        `PreferSameNode` counts, too: other clusters do not have the node.
        """
        return self.traffic_distribution in ZONE_DISTRIBUTIONS


def merge_exports(records: Iterable[ExportRecord], profile: Profile) -> MergedImport | None:
    """The import that all records make together, with their conflicts; None without a record.

    Conflicting fields are the oldest export's; `lighthouse` refuses other types and intersects
    ports, `kep-1645` unites them. Families are those that all have, if any, else the oldest's.
    """
    ordered = sorted(records, key=lambda record: record.age)
    if not ordered:
        return None
    oldest = ordered[0]
    other_type = [r for r in ordered if r.type != oldest.type]
    refused = other_type if profile == "lighthouse" else []
    admitted = [r for r in ordered if r not in refused]
    conflicts: dict[ClusterId, list[ExportConflict]] = {r.cluster: [] for r in ordered}
    _add_type_conflicts(ordered, other_type, conflicts, profile)
    if any(_merged_fields(r) != _merged_fields(oldest) for r in admitted[1:]):
        _add_port_conflicts(admitted, conflicts, profile)
        _add_field_conflicts(admitted, conflicts)
    ports = _intersect_ports(admitted) if profile == "lighthouse" else _union_ports(admitted)
    return MergedImport(
        type=oldest.type,
        ports=ports,
        ip_families=_intersect_families(admitted),
        session_affinity=oldest.session_affinity,
        session_affinity_config=oldest.session_affinity_config,
        internal_traffic_policy=oldest.internal_traffic_policy,
        traffic_distribution=oldest.traffic_distribution,
        affinity=oldest.affinity,
        labels=oldest.exported_labels,
        annotations=oldest.exported_annotations,
        clusters=tuple(r.cluster for r in admitted),
        refused=frozenset(r.cluster for r in refused),
        conflicts={cluster: tuple(sorted(found)) for cluster, found in conflicts.items()},
    )


def disagreeing_clusters(
    records: Iterable[ExportRecord], profile: Profile, reason: str
) -> tuple[ClusterId, ...]:
    """The clusters, oldest first, whose exports have a conflict for this reason with older ones.

    Each is compared with those of the older exports that had no such conflict.
    """
    agreeing: list[ExportRecord] = []
    others: list[ClusterId] = []
    for record in sorted(records, key=lambda record: record.age):
        merged = merge_exports((*agreeing, record), profile)
        found = merged.conflicts.get(record.cluster, ()) if merged is not None else ()
        if any(one.reason == reason for one in found):
            others.append(record.cluster)
        else:
            agreeing.append(record)
    return tuple(others)


def _intersect_ports(records: Sequence[ExportRecord]) -> tuple[ImportedPort, ...]:
    """The ports that every cluster serves, as the oldest export has them.

    They are the same by name, protocol and number.
    """
    if len(records) == 1:
        return records[0].ports
    common = _identities(records[0]).intersection(*(_identities(r) for r in records[1:]))
    return tuple(port for port in records[0].ports if _identity(port) in common)


_PortIdentity = tuple[str, str, int]


def _identity(port: ImportedPort) -> _PortIdentity:
    """Name, protocol and number: what makes two ports the same, whatever their appProtocol."""
    return (port.name, port.protocol, port.port)


def _identities(record: ExportRecord) -> set[_PortIdentity]:
    """The identities of all ports of a record."""
    return {_identity(port) for port in record.ports}


def _union_ports(records: Sequence[ExportRecord]) -> tuple[ImportedPort, ...]:
    """The ports of all clusters, oldest export first, with unique names and numbers.

    A port whose name, or protocol and number, an earlier one has is left out. Each of several ports
    gets a name, which a Service requires; a single one is as it is exported.
    """
    exported = [port for record in records for port in record.ports]
    ports = _distinct_ports(map(_with_name, exported))
    return ports if len(ports) > 1 else _distinct_ports(exported[:1])


def _with_name(port: ImportedPort) -> ImportedPort:
    """The port, with a default name such as `tcp-80` if it has none."""
    return port if port.name else replace(port, name=default_port_name(port.protocol, port.port))


def _distinct_ports(candidates: Iterable[ImportedPort]) -> tuple[ImportedPort, ...]:
    """The ports without those whose name, or protocol and number, an earlier one has."""
    ports: list[ImportedPort] = []
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for port in candidates:
        number = (port.protocol, port.port)
        if port.name not in names and number not in numbers:
            ports.append(port)
            names.add(port.name)
            numbers.add(number)
    return tuple(ports)


def _intersect_families(records: Sequence[ExportRecord]) -> tuple[IPFamily, ...]:
    """The IP families that every cluster has; if there are none, those of the oldest export."""
    common = set(records[0].ip_families).intersection(*(set(r.ip_families) for r in records[1:]))
    shared = tuple(f for f in records[0].ip_families if f in common)
    return shared or records[0].ip_families


def _add_type_conflicts(
    ordered: Sequence[ExportRecord],
    others: Sequence[ExportRecord],
    conflicts: dict[ClusterId, list[ExportConflict]],
    profile: Profile,
) -> None:
    """Add a TypeConflict to the refused exports under `lighthouse`, else to all exports.

    Nothing if there are no `others`, the exports of another type than the oldest.
    """
    if not others:
        return
    oldest = ordered[0]
    message = (
        f"the type is {_format_type(oldest.type)}, as in {oldest.cluster}, the oldest export; "
        f"{_format_clusters(others)} {'exports' if len(others) == 1 else 'export'} it as "
        f"{_format_type(others[0].type)}"
    )
    if profile == "lighthouse":
        for record in others:
            hint = "; it is not exported until the types agree"
            conflicts[record.cluster].append(ExportConflict("TypeConflict", message + hint))
    else:
        for record in ordered:
            conflicts[record.cluster].append(ExportConflict("TypeConflict", message))


def _add_port_conflicts(
    records: Sequence[ExportRecord],
    conflicts: dict[ClusterId, list[ExportConflict]],
    profile: Profile,
) -> None:
    """Add a PortConflict to all admitted exports, if their ports or app protocols differ."""
    messages = [*_port_message(records, profile), *_app_protocol_messages(records)]
    if messages:
        for record in records:
            conflicts[record.cluster].append(ExportConflict("PortConflict", "; ".join(messages)))


def _port_message(records: Sequence[ExportRecord], profile: Profile) -> Iterator[str]:
    """Which ports are imported, and who has which; nothing if all clusters have the same."""
    oldest = records[0]
    differing = [r for r in records if _identities(r) != _identities(oldest)]
    if not differing:
        return
    if profile == "kep-1645":
        used = "the ports of all are imported" + _format_dropped(records)
    elif _intersect_ports(records):
        used = "only ports common to all are imported"
    else:
        used = "no port is common to all, so none is imported"
    each = "; ".join(f"{r.cluster} has {_format_ports(r.ports)}" for r in (oldest, *differing))
    yield (
        f"{used}; {_format_clusters(differing)} "
        f"{'differs' if len(differing) == 1 else 'differ'} from {oldest.cluster}, the oldest "
        f"export: {each}"
    )


def _format_dropped(records: Sequence[ExportRecord]) -> str:
    """A clause about ports that the union leaves out or renames; empty if there are none.

    Those are ports whose name or number an older export uses.
    """
    used = {(port.protocol, port.port): port.name for port in _union_ports(records)}
    dropped = [
        f"{_format_ports([port])} of {record.cluster}, whose "
        + (f"number is that of {used[number]}" if number in used else "name an older export uses")
        for record in records
        for port in record.ports
        if port.name and used.get(number := (port.protocol, port.port)) != port.name
    ]
    return f" but {' and '.join(dropped)}" if dropped else ""


def _app_protocol_messages(records: Sequence[ExportRecord]) -> Iterator[str]:
    """A message for each port for which clusters have different application protocols.

    It says whose is used: that of the oldest export that has the port.
    """
    first: dict[_PortIdentity, tuple[ClusterId, ImportedPort]] = {}
    differing: dict[_PortIdentity, list[ExportRecord]] = {}
    for record in records:
        for port in record.ports:
            _, used = first.setdefault(_identity(port), (record.cluster, port))
            if used.app_protocol != port.app_protocol:
                differing.setdefault(_identity(port), []).append(record)
    for identity, others in differing.items():
        cluster, port = first[identity]
        yield (
            f"port {_format_ports([port])} has appProtocol {port.app_protocol or 'unset'}, as in "
            f"{cluster}, the oldest export; {_format_clusters(others)} "
            f"{'has' if len(others) == 1 else 'have'} another"
        )


def _merged_fields(record: ExportRecord) -> tuple[object, ...]:
    """The fields that may conflict, but the type, as one value to compare with other records'."""
    return (
        record.ports,
        record.session_affinity,
        record.session_affinity_config,
        record.internal_traffic_policy,
        record.traffic_distribution,
        record.affinity,
        record.ip_families,
        record.exported_labels,
        record.exported_annotations,
    )


_FIELDS: tuple[tuple[str, str, Callable[[ExportRecord], Any]], ...] = (
    ("SessionAffinityConflict", "session affinity", lambda r: r.session_affinity),
    (
        "SessionAffinityConfigConflict",
        "session affinity config",
        lambda r: r.session_affinity_config,
    ),
    (
        "InternalTrafficPolicyConflict",
        "internal traffic policy",
        lambda r: r.internal_traffic_policy,
    ),
    ("TrafficDistributionConflict", "traffic distribution", lambda r: r.traffic_distribution),
    ("AffinityConflict", "affinity", lambda r: r.affinity),
    ("IPFamilyConflict", "IP families", lambda r: frozenset(r.ip_families)),
    ("LabelsConflict", "exported labels", lambda r: r.exported_labels),
    ("AnnotationsConflict", "exported annotations", lambda r: r.exported_annotations),
)


def _add_field_conflicts(
    records: Sequence[ExportRecord], conflicts: dict[ClusterId, list[ExportConflict]]
) -> None:
    """Add a conflict to all admitted exports for each field of `_FIELDS` that differs in any.

    These are session affinity, traffic policies, affinity, IP families in any order, and exported
    labels and annotations; the oldest export's are used.
    """
    oldest = records[0]
    for reason, field, value in _FIELDS:
        differing = [r for r in records if value(r) != value(oldest)]
        if differing:
            message = (
                f"the {field} of {oldest.cluster}, the oldest export, is used; "
                f"{_format_clusters(differing)} {'has' if len(differing) == 1 else 'have'} another"
            )
            for record in records:
                conflicts[record.cluster].append(ExportConflict(reason, message))


def _format_clusters(records: Sequence[ExportRecord]) -> str:
    """The clusters for a message: up to three by name, more as a count with examples."""
    names = [r.cluster for r in records]
    if len(names) <= 3:
        return " and ".join(names)
    return f"{len(names)} clusters ({', '.join(names[:3])}, …)"


def _format_type(type_: ImportType) -> str:
    """The type of the exported Service for a message: `Headless` or `ClusterIP`."""
    return "Headless" if type_ == "Headless" else "ClusterIP"


def _format_ports(ports: Sequence[ImportedPort]) -> str:
    """The ports as text: `name protocol/number, …`; `none` if there are none."""
    return ", ".join(f"{p.name or '-'} {p.protocol}/{p.port}" for p in ports) or "none"
