"""Conditions of users' Services and native services, with an Event when one turns bad."""

from collections.abc import Mapping, Sequence

import msgspec

from hanse.features.federated.join_requests import Joinable
from hanse.features.federated.names import FEDERATED, JOIN
from hanse.model.conditions import Condition, condition, find_condition
from hanse.model.facts import ClusterState
from hanse.model.kinds.core import Service
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.own_addresses import overlap_message
from hanse.model.plan import Patch, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.status import conditions_plan
from hanse.model.summaries import first_of

FEDERATED_CONDITION = "Federated"
"""Of a member Service: whether it is part of the federated Services that it joins."""
PROTOCOL_CONFLICT = "ProtocolConflict"
NAME_FREE_CONDITION = "FederatedNameFree"
"""Of a foreign Service that has the name of a federated one."""
REACHABLE_CONDITION = "MembersReachable"
"""Of a federated Service: whether the clusters of all its members answer."""
ADDRESSES_CONDITION = "AddressesAllowed"
"""Of a federated Service: whether no address of another cluster is one of this cluster."""
SETTINGS_CONDITION = "FederatedSettingsValid"
"""Of a member Service: whether its settings are used."""


def membership_conditions(
    obj: Joinable, faults: Sequence[tuple[str, str]], *, certain: bool = True
) -> list[Condition]:
    """The condition Federated: False with the faults (reason, message); True if it was set before.

    Empty if it was never set. Unless `certain` (all records are known), a conflict is not cleared.
    """
    if faults:
        message = "; ".join(text for _, text in faults)
        return [condition(FEDERATED_CONDITION, False, faults[0][0], message)]
    before = find_condition(obj.status.conditions, FEDERATED_CONDITION)
    if before is not None and (certain or before.reason != PROTOCOL_CONFLICT):
        return [condition(FEDERATED_CONDITION, True, "Joined")]
    return []


def name_conditions(service: Service, conflict: str) -> list[Condition]:
    """FederatedNameFree: False with the conflict as message; True if it was set before.

    Else empty.
    """
    if conflict:
        return [condition(NAME_FREE_CONDITION, False, "NameTaken", conflict)]
    if find_condition(service.status.conditions, NAME_FREE_CONDITION) is not None:
        return [condition(NAME_FREE_CONDITION, True, "Free")]
    return []


def reachability_conditions(
    service: Service,
    silent: frozenset[ClusterId],
    failed: Mapping[ClusterId, Mapping[str, str]],
    snapshot: Snapshot,
) -> list[Condition]:
    """MembersReachable of a Service: False while clusters are silent or addresses fail probes.

    Only a federated or joining Service gets False; failed probes come first. True if the condition
    was set before, else empty.
    """
    is_federated = bool({FEDERATED, JOIN} & service.metadata.annotations.keys())
    if failed and is_federated:
        message = f"{_failed_text(failed)}: they are used only while no others are ready"
        return [condition(REACHABLE_CONDITION, False, "ProbeFailed", message)]
    if silent and is_federated:
        states = [s for s in snapshot.facts(ClusterState) if s.cluster in silent]
        since = "; ".join(
            f"{s.cluster} has not answered since {s.since:%Y-%m-%dT%H:%M:%SZ}"
            for s in sorted(states, key=lambda s: s.cluster)
        )
        message = f"{since}: its endpoints are used only while no others are ready"
        return [condition(REACHABLE_CONDITION, False, "MemberSilent", message)]
    if find_condition(service.status.conditions, REACHABLE_CONDITION) is not None:
        return [condition(REACHABLE_CONDITION, True, "Reachable")]
    return []


def address_conditions(
    service: Service, misled: Mapping[ClusterId, Sequence[str]], ranges: Sequence[str]
) -> list[Condition]:
    """AddressesAllowed: False with other clusters' addresses that lie in this cluster's ranges.

    Only a federated or joining Service gets False; True if it was set before; else empty.
    """
    is_federated = bool({FEDERATED, JOIN} & service.metadata.annotations.keys())
    if misled and is_federated:
        message = "; ".join(
            f"{cluster} has {overlap_message(addresses, ranges)}"
            for cluster, addresses in sorted(misled.items())
        )
        return [condition(ADDRESSES_CONDITION, False, "RangesOverlap", message)]
    if find_condition(service.status.conditions, ADDRESSES_CONDITION) is not None:
        return [condition(ADDRESSES_CONDITION, True, "Distinct")]
    return []


def _failed_text(failed: Mapping[ClusterId, Mapping[str, str]]) -> str:
    """Some addresses of each cluster that fail probes, with the reason of the first."""
    texts = []
    for cluster, reasons in sorted(failed.items()):
        addresses = sorted(reasons)
        why = reasons[addresses[0]]
        texts.append(f"{first_of(addresses)} of {cluster} fail probes ({why})")
    return "; ".join(texts)


def setting_conditions(obj: Joinable, faults: Sequence[str]) -> list[Condition]:
    """FederatedSettingsValid: False with faults of annotations; True if set before; else empty."""
    if faults:
        return [condition(SETTINGS_CONDITION, False, "InvalidSetting", "; ".join(faults))]
    if find_condition(obj.status.conditions, SETTINGS_CONDITION) is not None:
        return [condition(SETTINGS_CONDITION, True, "Valid")]
    return []


def status_plan(
    obj: Joinable, where: ClusterId, conditions: Sequence[Condition], snapshot: Snapshot
) -> Plan:
    """A status patch of the conditions, and their Events; empty without any."""
    if not conditions:
        return Plan()
    current = obj.status.conditions
    return conditions_plan(obj, where, current, conditions, snapshot, as_leader_of=where)


def cleared_status(obj: Joinable, where: ClusterId) -> Plan:
    """A patch that removes the conditions Federated and FederatedSettingsValid; empty without them.

    Other conditions stay.
    """
    current = obj.status.conditions
    left = [c for c in current if c.type not in (FEDERATED_CONDITION, SETTINGS_CONDITION)]
    if len(left) == len(current):
        return Plan()
    change = {"status": {"conditions": msgspec.to_builtins(left)}}
    return Plan(
        patches=(
            Patch(ClusterObjectRef(where, object_ref(obj)), change, "status", as_leader_of=where),
        )
    )
