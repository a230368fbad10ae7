"""The record of one member Service, written by the leader of its cluster for all others."""

from collections.abc import Sequence

from hanse.features.federated.backends import (
    ResolvedBackends,
    native_ports,
    resolve_backends,
    resolve_native_backends,
    service_ports,
    unreachable_reason,
)
from hanse.features.federated.join_requests import (
    FederatedName,
    Joinable,
    JoinRequest,
    join_request,
)
from hanse.features.federated.members import all_records_complete, is_led, list_records
from hanse.features.federated.merge import merge
from hanse.features.federated.names import EXTERNAL_DNS, topic_member
from hanse.features.federated.records import (
    SCHEMA,
    Backends,
    MemberRecord,
    read_record,
    record_configmap,
)
from hanse.features.federated.status import (
    PROTOCOL_CONFLICT,
    cleared_status,
    membership_conditions,
    told,
)
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.federation import SYSTEM, NativeService
from hanse.model.objects import ClusterId
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot

NAME_ONLY = (
    "a Service of type ExternalName has no endpoints and joins no federated Service: choose "
    "another type, or take the annotation away"
)
NATIVE_PREFIX = "native."
"""Of the names of keys about native services: no Service's name has a dot."""


def plan_record(key: Key, snapshot: Snapshot) -> Plan:
    """What the leader of a member says of one Service or native service there."""
    member = topic_member(key.topic)
    if not is_led(member, snapshot):
        return Plan()
    obj = _member_service(key, member, snapshot)
    if obj is None or obj.metadata.deletion_timestamp is not None:
        return Plan()
    wish = join_request(obj)
    if not wish.any:
        return cleared_status(obj, member)
    if isinstance(obj, Service) and obj.spec.type == "ExternalName":
        return told(
            obj, member, membership_conditions(obj, [("ExternalName", NAME_ONLY)]), snapshot
        )
    reach = _reach(obj, member, snapshot, _told_before(obj, wish, member, snapshot))
    desired = tuple(
        Desired(
            record_configmap(_record(obj, federated, member, reach)),
            member,
            sources=frozenset({member}),
            as_leader_of=member,
        )
        for federated in wish.joins
    )
    faults = [("InvalidName", text) for text in wish.faults]
    if isinstance(obj, NativeService) and (why := unreachable_reason(obj, member, snapshot)):
        faults.append(("NoAddress", why))
    faults += _left_out(obj, wish.joins, member, snapshot)
    telling = told(
        obj,
        member,
        membership_conditions(obj, faults, certain=all_records_complete(snapshot)),
        snapshot,
    )
    return Plan(
        desired,
        patches=telling.patches,
        events=telling.events,
        questions=reach.questions,
        requeue_after=reach.requeue_after,
    )


def _member_service(key: Key, member: ClusterId, snapshot: Snapshot) -> Joinable | None:
    if key.name.startswith(NATIVE_PREFIX):
        name = key.name.removeprefix(NATIVE_PREFIX)
        return snapshot.get(member, NativeService, name, key.namespace)
    return snapshot.get(member, Service, key.name, key.namespace)


def _reach(
    obj: Joinable, member: ClusterId, snapshot: Snapshot, before: Sequence[Backends]
) -> ResolvedBackends:
    if isinstance(obj, NativeService):
        return resolve_native_backends(obj, member, snapshot)
    return resolve_backends(obj, member, snapshot, before)


def _record(
    obj: Joinable, federated: FederatedName, member: ClusterId, reach: ResolvedBackends
) -> MemberRecord:
    meta = obj.metadata
    return MemberRecord(
        cluster=member,
        kind="NativeService" if isinstance(obj, NativeService) else "Service",
        namespace=meta.namespace,
        name=meta.name,
        of_namespace=federated.namespace,
        of_name=federated.name,
        ports=native_ports(obj) if isinstance(obj, NativeService) else service_ports(obj),
        backends=reach.backends,
        hostname=annotated_hostname(meta.annotations),
        schema=SCHEMA,
    )


def annotated_hostname(marks: dict[str, str]) -> str:
    """The outside name that ExternalDNS would read, in either of its prefixes."""
    names = (marks.get(f"{prefix}/hostname", "").strip() for prefix in reversed(EXTERNAL_DNS))
    return next((name for name in names if name), "")


def _told_before(
    obj: Joinable, wish: JoinRequest, member: ClusterId, snapshot: Snapshot
) -> Sequence[Backends]:
    """The endpoints that the standing record tells, for what cannot be known now."""
    for federated in wish.joins:
        name = record_configmap(_record(obj, federated, member, ResolvedBackends())).metadata.name
        standing = snapshot.get(member, ConfigMap, name, SYSTEM)
        found = read_record(standing, member) if standing is not None else None
        if found is not None:
            return found.record.backends
    return ()


def _left_out(
    obj: Joinable, joins: Sequence[FederatedName], member: ClusterId, snapshot: Snapshot
) -> list[tuple[str, str]]:
    kind = "NativeService" if isinstance(obj, NativeService) else "Service"
    identity = (member, kind, obj.metadata.namespace, obj.metadata.name)
    faults: list[tuple[str, str]] = []
    for federated in joins:
        fault = merge(j.origin for j in list_records(federated, snapshot)).left_out.get(identity)
        if fault:
            faults.append((PROTOCOL_CONFLICT, f"left out of {federated}: {fault}"))
    return faults
