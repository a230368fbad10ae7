"""What is told to people, as conditions of their own Services, with an Event when it turns bad."""

from collections.abc import Sequence

import msgspec

from hanse.features.federated.join_requests import Joinable
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.kinds.core import Service
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

FEDERATED_CONDITION = "Federated"
"""Of a member Service: whether it is part of what it asks to join."""
PROTOCOL_CONFLICT = "ProtocolConflict"
NAME_FREE_CONDITION = "FederatedNameFree"
"""Of a Service that is in the way of a federated one, which has the same name."""


def membership_conditions(
    obj: Joinable, faults: Sequence[tuple[str, str]], *, certain: bool = True
) -> list[Condition]:
    """What keeps a member out, as (reason, sentence); once told, also that it is mended.

    While not all members are seen nobody is certain that a conflict with one has ended.
    """
    if faults:
        message = "; ".join(text for _, text in faults)[:32000]
        return [condition(FEDERATED_CONDITION, False, faults[0][0], message)]
    before = find(obj.status.conditions, FEDERATED_CONDITION)
    if before is not None and (certain or before.reason != PROTOCOL_CONFLICT):
        return [condition(FEDERATED_CONDITION, True, "Joined")]
    return []


def name_conditions(service: Service, fault: str) -> list[Condition]:
    """What a Service is in the way of; once told, also that it no longer is."""
    if fault:
        return [condition(NAME_FREE_CONDITION, False, "NameTaken", fault)]
    if find(service.status.conditions, NAME_FREE_CONDITION) is not None:
        return [condition(NAME_FREE_CONDITION, True, "Free")]
    return []


def told(obj: Joinable, where: ClusterId, wanted: Sequence[Condition], snapshot: Snapshot) -> Plan:
    """The conditions as a patch of the object's status, and an Event for those that turned bad."""
    if not wanted:
        return Plan()
    standing = obj.status.conditions
    after = merged(standing, wanted, snapshot.now, obj.metadata.generation)
    place = ClusterObjectRef(where, object_ref(obj))
    change = {"status": {"conditions": msgspec.to_builtins(after)}}
    events = tuple(
        EventRequest(place, c.reason, c.message, "Warning")
        for c in wanted
        if _turned_bad(c, standing)
    )
    return Plan(patches=(Patch(place, change, "status", as_leader_of=where),), events=events)


def cleared_status(obj: Joinable, where: ClusterId) -> Plan:
    """Nothing is said any more of an object that asks for nothing."""
    standing = obj.status.conditions
    if find(standing, FEDERATED_CONDITION) is None:
        return Plan()
    left = [c for c in standing if c.type != FEDERATED_CONDITION]
    change = {"status": {"conditions": msgspec.to_builtins(left)}}
    return Plan(
        patches=(
            Patch(ClusterObjectRef(where, object_ref(obj)), change, "status", as_leader_of=where),
        )
    )


def _turned_bad(wanted: Condition, standing: Sequence[Condition]) -> bool:
    before = find(standing, wanted.type)
    same = before is not None and (before.status, before.reason, before.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )
    return wanted.status == "False" and not same
