"""Look-ups about members: who is led, whose records are complete, who has left."""

from collections.abc import Iterator

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.names import SERVICE_TOPIC, member_topic
from hanse.features.federated.records import BY_SERVICE, StoredRecord, has_newer_schema, read_record
from hanse.model.facts import ClusterDeparted, ClusterState, Phase, Role
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


def is_led(member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether we lead a member that is not leaving."""
    state = snapshot.fact(ClusterState, member)
    return state is not None and Role.LED in state.roles and state.phase is not Phase.LEAVING


def led_members(snapshot: Snapshot) -> list[ClusterId]:
    """The members that we lead, without those that are leaving."""
    return [m for m in snapshot.clusters(Role.LED) if is_led(m, snapshot)]


def active_members(snapshot: Snapshot) -> Iterator[ClusterId]:
    """The members whose records count, which excludes those that are leaving."""
    for state in snapshot.facts(ClusterState):
        if Role.MEMBER in state.roles and state.phase is not Phase.LEAVING:
            yield state.cluster


def has_complete_records(member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether all records of a member are known: listed, and not restored or recovering."""
    state = snapshot.fact(ClusterState, member)
    return (
        state is not None
        and state.phase is not Phase.RESTORED
        and not state.recovering
        and snapshot.listed(member, ConfigMap)
    )


def all_records_complete(snapshot: Snapshot) -> bool:
    """Whether the records of every member that is not leaving are complete."""
    return all(has_complete_records(member, snapshot) for member in active_members(snapshot))


def has_left(member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a cluster is a former or leaving member."""
    if snapshot.fact(ClusterDeparted, member) is not None:
        return True
    state = snapshot.fact(ClusterState, member)
    return state is not None and state.phase is Phase.LEAVING


def list_records(federated: FederatedName, snapshot: Snapshot) -> list[StoredRecord]:
    """All valid records of one federated Service, in ConfigMaps of members that are not leaving."""
    return [
        stored
        for member in active_members(snapshot)
        for configmap in snapshot.by(member, BY_SERVICE, str(federated))
        if (stored := read_record(configmap, member)) is not None
    ]


def unreadable_members(federated: FederatedName, snapshot: Snapshot) -> frozenset[ClusterId]:
    """Members with a record of a federated Service in a newer schema."""
    return frozenset(
        member
        for member in active_members(snapshot)
        for configmap in snapshot.by(member, BY_SERVICE, str(federated))
        if has_newer_schema(configmap)
    )


def service_key(federated: FederatedName, member: ClusterId) -> Key:
    """The key `service@MEMBER` with the namespace and name of a federated Service."""
    return Key(member_topic(SERVICE_TOPIC, member), federated.name, federated.namespace)
