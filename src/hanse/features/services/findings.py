"""What is wrong with one multi-cluster service."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from shlex import quote
from types import MappingProxyType
from typing import Protocol

from msgspec.structs import replace

from hanse.features.services.clusters import PUBLISHED
from hanse.features.services.exported import (
    CONFLICT,
    ClusterServices,
    ExportedService,
    bad_conditions,
)
from hanse.features.services.merge import disagreeing_clusters
from hanse.features.services.names import TO_CLUSTERS
from hanse.features.services.records import PublishedExports, parse_cluster_list, read_exports
from hanse.features.services.status import (
    ADDRESSES_ALLOWED,
    IMPORTED_HERE,
    NOT_JOINED,
    SETTINGS_VALID,
    excluded_metadata,
    faulty_annotations,
    joined_clusters_in,
)
from hanse.model.agent_report import CUT_OFF
from hanse.model.clusterset import clusterset_spec
from hanse.model.conditions import Condition
from hanse.model.facts import Role
from hanse.model.findings import (
    Finding,
    Ref,
    Remedy,
    Severity,
    cluster_ref,
    remedy,
    subject_of,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import ClusterId
from hanse.model.ownership import OWNER
from hanse.model.pauses import fleet_pauses
from hanse.model.refused_writes import write_causes
from hanse.model.remedies import (
    delete_obstacle_commands,
    erase_ranges_commands,
    join_broker_command,
    start_pods_commands,
)

UNSEEN_AFTER = timedelta(seconds=15)
"""How old an export may get before it is a finding that no agent has looked at it."""

_CODES: Mapping[str, tuple[str, Severity]] = {
    "Valid": ("ExportInvalid", Severity.DEGRADED),
    "Ready": ("ExportFailed", Severity.DEGRADED),
    SETTINGS_VALID: ("SettingIgnored", Severity.RISK),
    ADDRESSES_ALLOWED: ("AddressesRefused", Severity.DEGRADED),
    IMPORTED_HERE: ("ImportBlocked", Severity.DEGRADED),
}
"""By the type of a condition of an export: the code and severity of its finding."""


class EndpointCounts(Protocol):
    """How many endpoints a cluster has, and how many are ready."""

    @property
    def ready(self) -> int: ...

    @property
    def all(self) -> int: ...


def endpoint_findings(
    service: ExportedService,
    counts: Mapping[ClusterId, EndpointCounts],
    snapshot: MultiClusterSnapshot,
    unknown: Sequence[ClusterId] = (),
    refused: Mapping[ClusterId, Ref] = MappingProxyType({}),
) -> Iterator[Finding]:
    """NoEndpoints if no exporter has a ready endpoint, else EndpointsLost for some exporters.

    `counts` has the endpoints of each exporter; while some are `unknown` it is never NoEndpoints.
    One EndpointsLost each for unreachable or silent clusters, whatever they have, those without
    whose addresses are `refused`, and, as a note, others without. Nothing if all exporters are well
    and have ready endpoints, or there are none.
    """
    ready = {cluster: one.ready for cluster, one in counts.items()}
    lost = [cluster for cluster in ready if snapshot.fault_of(cluster) is not None]
    empty = [cluster for cluster, count in ready.items() if not count and cluster not in lost]
    if not ready or not (lost or empty):
        return
    subject = Ref("Service", service.name, service.namespace)
    name = f"{service.namespace}/{service.name}"
    causes = tuple(cluster_ref(cluster) for cluster in lost)
    denied = [cluster for cluster in empty if cluster in refused]
    denials = tuple(refused[cluster] for cluster in denied)
    startable = [cluster for cluster in empty if cluster not in refused]
    if not sum(ready.values()) and not unknown:
        where = ", ".join((*empty, *(f"{cluster} (lost)" for cluster in lost)))
        yield Finding(
            code="NoEndpoints",
            severity=Severity.OUTAGE,
            subject=subject,
            summary=f"{name} has no ready endpoint in any cluster: {where}",
            remedy=_start_pods_remedy(service, startable, counts, snapshot),
            caused_by=(*causes, *denials),
        )
        return
    doubt = f"; {', '.join(unknown)} is not known" if unknown else ""
    for clusters, caused in ((lost, causes), (denied, denials), (startable, ())):
        if clusters:
            yield Finding(
                code="EndpointsLost",
                severity=Severity.DEGRADED if caused else Severity.NOTE,
                subject=subject,
                summary=f"{name} is served by {len(ready) - len(lost) - len(empty)} of "
                f"{len(ready) + len(unknown)} clusters, not by {', '.join(clusters)}{doubt}",
                remedy=_start_pods_remedy(service, [] if caused else clusters, counts, snapshot),
                caused_by=caused,
            )


def _start_pods_remedy(
    service: ExportedService,
    clusters: Sequence[ClusterId],
    counts: Mapping[ClusterId, EndpointCounts],
    snapshot: MultiClusterSnapshot,
) -> Remedy:
    """The remedy: commands that start pods where there are none, or restart unready ones.

    There are none for a Service that is not known or has no selector; the advice is always given.
    """
    commands = [
        command
        for one in clusters
        for command in start_pods_commands(
            one, service.namespace, service.name, snapshot, unready=bool(counts[one].all)
        )
    ]
    return remedy(
        *commands,
        advice=f"{'if there is no such workload, ' if commands else ''}start pods that the "
        f"selector of Service {service.name} selects and that become ready, or withdraw the export",
    )


def refused_exports(clusters: Sequence[ClusterServices]) -> dict[ClusterId, Ref]:
    """By cluster, the export with a bad condition AddressesAllowed; others drop its addresses."""
    return {
        one.cluster: subject_of(export, one.cluster)
        for one in clusters
        for export in one.exports
        if any(bad.type == ADDRESSES_ALLOWED for bad in bad_conditions(export))
    }


def condition_findings(
    service: ExportedService, clusters: Sequence[ClusterServices], snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """A finding for each bad condition of exports; the same one in several clusters is one finding.

    The same has the same type, reason and message; that a cluster has not joined a broker is a
    finding of each cluster. Ready is left out if Valid or Conflict explains it, or the agent is cut
    off from the broker, which is a finding of its cluster. An export that has no conditions after
    UNSEEN_AFTER is ExportUnseen.
    """
    exports = {one.cluster: export for one in clusters for export in one.exports}
    groups: dict[tuple[str, str, str, str], list[tuple[ClusterId, Condition]]] = {}
    for cluster, export in sorted(exports.items()):
        if not export.status.conditions:
            yield from _unseen_finding(cluster, export, snapshot)
        bad = bad_conditions(export)
        explained = any(one.type in ("Valid", CONFLICT) for one in bad)
        for one in bad:
            if not (one.type == "Ready" and (explained or one.reason in CUT_OFF)):
                alone = cluster if one.message == NOT_JOINED else ""
                same = (one.type, one.reason, one.message, alone)
                groups.setdefault(same, []).append((cluster, one))
    for reports in groups.values():
        if reports[0][1].type == CONFLICT:
            yield _conflict_finding(service, reports, snapshot)
        else:
            yield _condition_finding(service, exports, reports, snapshot)


def published_records(
    namespace: str, name: str, snapshot: MultiClusterSnapshot
) -> PublishedExports:
    """The records of a service on all brokers, by its published slices, as `read_exports` has them.

    Their ages are bounded with the newest creation of the brokers' namespaces.
    """
    key = f"{namespace}/{name}"
    slices: list[EndpointSlice] = []
    since: list[datetime] = []
    for broker in snapshot.clusters_with_role(Role.BROKER):
        found = list(snapshot.by(broker, PUBLISHED, key))
        slices += found
        spaces = (snapshot.get(broker, Namespace, s.metadata.namespace) for s in found[:1])
        since += [t for s in spaces if s and (t := s.metadata.creation_timestamp) is not None]
    return read_exports(slices, max(since, default=None))


def _conflict_finding(
    service: ExportedService,
    reports: Sequence[tuple[ClusterId, Condition]],
    snapshot: MultiClusterSnapshot,
) -> Finding:
    """The finding of a condition Conflict, with its first reason as the code.

    Its subject is the newest export that differs from the older ones; the remedy withdraws those
    that differ. It is an outage if it is imported without any port, degraded for a type that is
    refused, else a risk.
    """
    (reporter, bad), reporters = reports[0], [cluster for cluster, _ in reports]
    code = bad.reason.split(",")[0]
    reads = snapshot.for_cluster(reporter)
    brokers = snapshot.clusters_with_role(Role.BROKER)
    rules = clusterset_spec(reads, brokers[0]) if reads and brokers else ClusterSetSpec()
    published = published_records(service.namespace, service.name, snapshot).records
    differing = disagreeing_clusters(published, rules.profile, code) or (reporters[-1],)
    refused = code == "TypeConflict" and rules.profile == "lighthouse"
    nothing_left = bool(service.importers) and not service.ports
    name = f"{service.namespace}/{service.name}"
    return Finding(
        code=code,
        severity=Severity.OUTAGE
        if nothing_left
        else Severity.DEGRADED
        if refused
        else Severity.RISK,
        subject=Ref("ServiceExport", service.name, service.namespace, differing[-1]),
        summary=f"the export of {name} in {', '.join(differing)}: {bad.message}",
        remedy=remedy(
            *(
                snapshot.kubectl(c, f"delete serviceexport {service.name}", service.namespace)
                for c in differing
            ),
            advice=f"or give Service {service.name} of {', '.join(differing)} what the older "
            "exports have",
        ),
        since=bad.last_transition_time,
    )


def _unseen_finding(
    cluster: ClusterId, export: ServiceExport, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """ExportUnseen, for an export that the caller found without conditions.

    Nothing while it is younger than UNSEEN_AFTER.
    """
    made = export.metadata.creation_timestamp
    if made is not None and snapshot.now - made < UNSEEN_AFTER:
        return
    yield Finding(
        code="ExportUnseen",
        severity=Severity.DEGRADED,
        subject=subject_of(export, cluster),
        summary=f"no agent has looked at the export of {export.namespace}/{export.name} "
        f"in {cluster}",
        remedy=remedy(advice=f"start the agent of {cluster}, or give it the feature services"),
        since=made,
        caused_by=(cluster_ref(cluster), *fleet_pauses(snapshot)),
    )


def _condition_finding(
    service: ExportedService,
    exports: Mapping[ClusterId, ServiceExport],
    reports: Sequence[tuple[ClusterId, Condition]],
    snapshot: MultiClusterSnapshot,
) -> Finding:
    """The finding of one bad condition that several clusters may report; not for Conflict.

    The code is that of the condition's type, or ExportPending for the reason Pending; the subject
    is the first cluster's export. The remedy mends it in all of them.
    """
    (first, bad), clusters = reports[0], [cluster for cluster, _ in reports]
    code, severity = _CODES.get(bad.type, ("", Severity.DEGRADED))
    if bad.reason == "Pending":
        code, severity = "ExportPending", Severity.RISK
    unwritten = code in ("ExportPending", "ExportFailed")
    brokers = snapshot.clusters_with_role(Role.BROKER)
    others = f" (in {', '.join(clusters)})" if len(clusters) > 1 else f" in {first}"
    remedies = [_condition_remedy(one, c, exports[c], snapshot) for c, one in reports]
    commands = (command for one in remedies for command in one.commands)
    return Finding(
        code=code,
        severity=severity,
        subject=subject_of(exports[first], first),
        summary=f"the export of {service.namespace}/{service.name}{others}: {bad.message}",
        remedy=replace(remedies[0], commands=tuple(dict.fromkeys(commands))),
        since=bad.last_transition_time,
        caused_by=(
            *map(cluster_ref, (first, *brokers)),
            *fleet_pauses(snapshot),
            *(subject_of(one, broker) for broker, one in snapshot.membership_records(first)),
            *(one for where in brokers for one in write_causes(where, bad.message, snapshot)),
        )
        if unwritten
        else write_causes(first, bad.message, snapshot)
        if code == "ImportBlocked"
        else (),
    )


def _condition_remedy(
    bad: Condition, cluster: ClusterId, export: ServiceExport, snapshot: MultiClusterSnapshot
) -> Remedy:
    """Commands or advice that end a bad condition of an export, by the condition's type.

    Commands withdraw an invalid export, erase ignored settings, delete what blocks an import, allow
    addresses, or join a broker; for the rest there is advice to mend what the message names.
    """

    def kubectl(arguments: str) -> str:
        """The text of a kubectl command in the cluster and namespace of the export."""
        return snapshot.kubectl(cluster, arguments, export.namespace)

    withdraw = kubectl(f"delete serviceexport {export.name}")
    match bad.type:
        case "Valid":
            advice = f"or create a Service {export.name} that can be exported"
            return remedy(withdraw, advice=advice)
        case "SettingsValid":
            commands = tuple(map(kubectl, _erase_settings(bad.message, export)))
            advice = "or give it a value that is allowed" if commands else "name joined clusters"
            return remedy(*commands, advice=advice)
        case "ImportedHere":
            return remedy(
                *delete_obstacle_commands(cluster, bad.message, snapshot),
                advice=f"mend what the message names; the agent of {cluster} tries again by itself",
            )
        case "AddressesAllowed":
            brokers = snapshot.clusters_with_role(Role.BROKER)
            allow = (
                c for broker in brokers for c in erase_ranges_commands(broker, (cluster,), snapshot)
            )
            return remedy(*allow, advice="or the broker's administrator adds them there")
        case _ if bad.message == NOT_JOINED:
            brokers = snapshot.clusters_with_role(Role.BROKER)
            if len(brokers) == 1:
                return remedy(join_broker_command(brokers[0], cluster, snapshot))
            return remedy(
                advice=f"let it join one: `{join_broker_command('BROKER', cluster, snapshot)}`"
            )
        case _:
            brokers = snapshot.clusters_with_role(Role.BROKER)
            return Remedy(
                f"mend what the message names; the agent of {cluster} tries again by itself",
                ask=f"the administrator of {next(iter(brokers), 'the broker')}",
            )


def _erase_settings(message: str, export: ServiceExport) -> Iterator[str]:
    """Arguments of kubectl that erase what a message of SettingsValid says is ignored.

    Of `to-clusters` the unknown ones alone, and nothing if there is no other: without it, all
    clusters would get the export. Also those that erase labels and annotations in its spec that
    imports do not get.
    """
    joined = joined_clusters_in(message)
    for name in faulty_annotations(message):
        if name == TO_CLUSTERS and joined is not None:
            named = parse_cluster_list(export.metadata.annotations.get(TO_CLUSTERS, ""))
            if known := ",".join(c for c in named if c in joined):
                yield f"annotate serviceexport {export.name} {name}={quote(known)} --overwrite"
        else:
            yield f"annotate serviceexport {export.name} {name}-"
    if excluded := {field: dict.fromkeys(names) for field, names in excluded_metadata(export.spec)}:
        patch = json.dumps({"spec": excluded})
        yield f"patch serviceexport {export.name} --type merge -p {quote(patch)}"


def import_findings(
    service: ExportedService, clusters: Sequence[ClusterServices], snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """ImportBlocked for each ServiceImport of an exported service's name without our owner label.

    Nothing if no cluster has a ServiceExport of it, nor a broker a record.
    """
    foreign = [
        (one.cluster, found)
        for one in clusters
        for found in one.imports
        if OWNER not in found.metadata.labels
    ]
    exported = foreign and (
        any(one.exports for one in clusters)
        or published_records(service.namespace, service.name, snapshot).records
    )
    for cluster, found in foreign if exported else ():
        delete = f"delete serviceimport {service.name}"
        yield Finding(
            code="ImportBlocked",
            severity=Severity.DEGRADED,
            subject=subject_of(found, cluster),
            summary=f"{service.namespace}/{service.name} is not imported in {cluster}: "
            "a ServiceImport of that name was not made by Hanse",
            remedy=remedy(snapshot.kubectl(cluster, delete, service.namespace)),
            since=found.metadata.creation_timestamp,
        )
