"""Plans the record of one member Service, which its leader writes for all other leaders."""

from collections.abc import Sequence

from hanse.features.federated.backends import (
    ResolvedBackends,
    native_ports,
    resolve_backends,
    resolve_native_backends,
    service_ports,
    unreachable_reason,
)
from hanse.features.federated.external_dns import annotated_hostname
from hanse.features.federated.join_requests import (
    FederatedName,
    Joinable,
    JoinRequest,
    join_request,
)
from hanse.features.federated.members import all_records_complete, is_led, list_records
from hanse.features.federated.merge import MergedService, merge_members
from hanse.features.federated.names import topic_member
from hanse.features.federated.records import (
    SCHEMA,
    Backends,
    Identity,
    MemberRecord,
    read_record,
    record_configmap,
    record_name,
)
from hanse.features.federated.settings import (
    AFFINITY,
    HEALTH,
    PRIORITY,
    PUBLISH_FROM,
    WEIGHT,
    format_clusters,
    setting_faults,
)
from hanse.features.federated.status import (
    PROTOCOL_CONFLICT,
    cleared_status,
    membership_conditions,
    setting_conditions,
    status_plan,
)
from hanse.model.facts import ClusterState
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.federation import SYSTEM, NativeService
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.weights import MOST_PRIORITY, MOST_WEIGHT

EXTERNAL_NAME_MESSAGE = (
    "a Service of type ExternalName has no endpoints and joins no federated Service: choose "
    "another type, or take the annotation away"
)
NATIVE_PREFIX = "native."
"""Prefix of names in keys of native services: the name of a Service has no dot."""


def plan_record(key: Key, snapshot: Snapshot) -> Plan:
    """The records of one Service or native service in a led member, its status, and host questions.

    An ExternalName only gets a condition; an object that joins nothing loses its condition. Empty
    in a member that we do not lead, or if the object is gone or being deleted.
    """
    member = topic_member(key.topic)
    if not is_led(member, snapshot):
        return Plan()
    obj = _member_service(key, member, snapshot)
    if obj is None or obj.metadata.deletion_timestamp is not None:
        return Plan()
    request = join_request(obj)
    if not request.any:
        return cleared_status(obj, member)
    if isinstance(obj, Service) and obj.spec.type == "ExternalName":
        return status_plan(
            obj,
            member,
            membership_conditions(obj, [("ExternalName", EXTERNAL_NAME_MESSAGE)]),
            snapshot,
        )
    before = _recorded_backends(obj, request, member, snapshot)
    resolved = _resolve_member_backends(obj, member, snapshot, before)
    records = [
        record_configmap(_member_record(obj, federated, member, resolved))
        for federated in request.joins
    ]
    desired = tuple(
        Desired(r, member, sources=_record_sources(r, member, snapshot), as_leader_of=member)
        for r in records
    )
    faults = [("InvalidName", text) for text in request.faults]
    if isinstance(obj, NativeService) and (reason := unreachable_reason(obj, member, snapshot)):
        faults.append(("NoAddress", reason))
    identity = _identity(obj, member)
    faults += _conflicts(identity, request.joins, snapshot)
    conditions = [
        *membership_conditions(obj, faults, certain=all_records_complete(snapshot)),
        *setting_conditions(
            obj,
            list(
                setting_faults(
                    obj.metadata.annotations,
                    identity,
                    [(f, _merged_members(f, snapshot).members) for f in request.joins],
                )
            ),
        ),
    ]
    status = status_plan(obj, member, conditions, snapshot)
    return Plan(
        desired,
        patches=status.patches,
        events=status.events,
        questions=resolved.questions,
        requeue_after=resolved.requeue_after,
    )


def _member_service(key: Key, member: ClusterId, snapshot: Snapshot) -> Joinable | None:
    """The Service or native service that a key of a record names; None if it does not exist."""
    if key.name.startswith(NATIVE_PREFIX):
        name = key.name.removeprefix(NATIVE_PREFIX)
        return snapshot.get(member, NativeService, name, key.namespace)
    return snapshot.get(member, Service, key.name, key.namespace)


def _resolve_member_backends(
    obj: Joinable, member: ClusterId, snapshot: Snapshot, before: Sequence[Backends]
) -> ResolvedBackends:
    """The backends of a Service or native service; `before` is used for Services only."""
    if isinstance(obj, NativeService):
        return resolve_native_backends(obj, member, snapshot)
    return resolve_backends(obj, member, snapshot, before)


def _member_record(
    obj: Joinable, federated: FederatedName, member: ClusterId, resolved: ResolvedBackends
) -> MemberRecord:
    """The record of an object for one federated Service, with the resolved backends.

    An invalid weight or priority is None; other settings are as annotated, even if invalid.
    """
    meta = obj.metadata
    return MemberRecord(
        cluster=member,
        kind="NativeService" if isinstance(obj, NativeService) else "Service",
        namespace=meta.namespace,
        name=meta.name,
        of_namespace=federated.namespace,
        of_name=federated.name,
        ports=native_ports(obj) if isinstance(obj, NativeService) else service_ports(obj),
        backends=resolved.backends,
        hostname=annotated_hostname(meta.annotations),
        health=meta.annotations.get(HEALTH.annotation, ""),
        affinity=meta.annotations.get(AFFINITY.annotation, ""),
        publish_from=format_clusters(meta.annotations.get(PUBLISH_FROM.annotation, "")),
        weight=parse_number(meta.annotations.get(WEIGHT, ""), MOST_WEIGHT),
        priority=parse_number(meta.annotations.get(PRIORITY, ""), MOST_PRIORITY),
        traffic_distribution=obj.spec.traffic_distribution if isinstance(obj, Service) else "",
        sources=resolved.sources,
        schema=SCHEMA,
    )


def _record_sources(
    record: ConfigMap, member: ClusterId, snapshot: Snapshot
) -> frozenset[ClusterId]:
    """The member as the only source, or no source for a record that a restored member lacks.

    That is while the member is recovering and listed, and has no such record or one with other
    data: the record is then written at once, while others keep what stands.
    """
    state, meta = snapshot.fact(ClusterState, member), record.metadata
    stored = snapshot.get(member, ConfigMap, meta.name, meta.namespace)
    is_current = stored is not None and stored.data == record.data
    is_recovering = state is not None and state.recovering and state.listed
    return frozenset() if is_recovering and not is_current else frozenset({member})


def _recorded_backends(
    obj: Joinable, request: JoinRequest, member: ClusterId, snapshot: Snapshot
) -> Sequence[Backends]:
    """The backends in the object's first valid current record; empty where there is none."""
    for federated in request.joins:
        name = record_name(federated, _member_record(obj, federated, member, ResolvedBackends()))
        configmap = snapshot.get(member, ConfigMap, name, SYSTEM)
        stored = read_record(configmap, member) if configmap is not None else None
        if stored is not None:
            return stored.record.backends
    return ()


def _identity(obj: Joinable, member: ClusterId) -> Identity:
    """Cluster, kind, namespace and name of a member Service, as its records have them."""
    kind = "NativeService" if isinstance(obj, NativeService) else "Service"
    return (member, kind, obj.metadata.namespace, obj.metadata.name)


def _merged_members(federated: FederatedName, snapshot: Snapshot) -> MergedService:
    """The federated Service merged from all its records, with who is left out."""
    return merge_members(r.origin for r in list_records(federated, snapshot))


def _conflicts(
    identity: Identity, joins: Sequence[FederatedName], snapshot: Snapshot
) -> list[tuple[str, str]]:
    """Reason and message for each federated Service that leaves a member Service out."""
    faults: list[tuple[str, str]] = []
    for federated in joins:
        fault = _merged_members(federated, snapshot).left_out.get(identity)
        if fault:
            faults.append((PROTOCOL_CONFLICT, f"left out of {federated}: {fault}"))
    return faults
