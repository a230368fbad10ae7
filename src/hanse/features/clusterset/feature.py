"""Keeps the ClusterMember of this cluster on the broker: what it takes part in, and its phase."""

from collections.abc import Iterable, Sequence

import msgspec

from hanse.model.clusterset import (
    broker_cluster,
    clusterset_spec,
    identity_error,
)
from hanse.model.facts import ClusterState, HeartbeatState, KindServed, Role
from hanse.model.kinds.core import Namespace, Node
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberStatus,
    ClusterSet,
    MemberAgent,
)
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.member_ranges import changes_ranges, discovered_ranges
from hanse.model.naming import BROKER_NAMESPACE, IDENTITY_NAMESPACE
from hanse.model.objects import ClusterId, ClusterObjectRef, Wire, object_ref
from hanse.model.plan import Key, Patch, Plan
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes

MEMBER = Key("member")

MAX_SETTINGS = 64
"""The most clusters whose settings each record keeps."""


class ClusterSetMember:
    """The record of this cluster on the broker; `hanse join` creates it."""

    name = "clusterset"

    def __init__(
        self,
        broker_namespace: str = BROKER_NAMESPACE,
        features: Sequence[str] = (),
        version: str = "",
    ) -> None:
        """Declare the watches; `features` and `version` are those of this agent."""
        self._broker_namespace = broker_namespace
        self._features = tuple(features)
        self._version = version
        self.watches: tuple[Watch, ...] = (
            Watch(Role.LOCAL, Namespace, reason="the uid by which a cluster is known"),
            Watch(Role.LOCAL, Node, optional=True, reason="the address ranges of its pods"),
            Watch(
                Role.LOCAL,
                ServiceCIDR,
                optional=True,
                reason="the address ranges of its Services",
            ),
            Watch(Role.BROKER, ClusterSet),
            Watch(
                Role.BROKER,
                ClusterMember,
                namespace=broker_namespace,
                writes=Writes.FIELDS | Writes.STATUS,
            ),
        )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The only key of this feature; none if the change does not affect this cluster's record.

        It is affected by the record itself, ClusterSets, the uid and address ranges of this
        cluster, and by any change of a connection, a heartbeat or whether a kind is served.
        """
        if isinstance(change, ObjectChange):
            return (MEMBER,) if _concerns_member(change, snapshot) else ()
        facts = ClusterState | HeartbeatState | KindServed
        return (MEMBER,) if isinstance(change.fact, facts) else ()

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:  # noqa: ARG002 - there is one key
        """Patch spec (features, address ranges) and status of this cluster's record on the broker.

        An empty plan without a broker or a record, while the local kube-system is not known, if the
        record is of a cluster with another uid, or in phases Leaving, Left and Replaced. Ranges
        that are not known yet stay as they are.
        """
        broker = broker_cluster(snapshot)
        if broker is None:
            return Plan()
        record = snapshot.get(broker, ClusterMember, snapshot.local, self._broker_namespace)
        own = snapshot.get(snapshot.local, Namespace, IDENTITY_NAMESPACE)
        if record is None or own is None or identity_error(snapshot):
            return Plan()
        if record.status.phase in ("Leaving", "Left", "Replaced"):
            return Plan()
        place = ClusterObjectRef(broker, object_ref(record))
        spec: Wire = {"features": sorted(self._features)}
        if (ranges := discovered_ranges(snapshot)) is not None:
            spec["ranges"] = {"pods": list(ranges.pods), "services": list(ranges.services)}
        status = self._status(record, snapshot, broker)
        return Plan(
            patches=(
                Patch(place, {"spec": spec}),
                Patch(place, {"status": status}, "status"),
            )
        )

    def _status(self, record: ClusterMember, snapshot: Snapshot, broker: ClusterId) -> Wire:
        """The status of this cluster's record: phase Ready once its heartbeat Lease was renewed.

        Until then phase and token digest stay as recorded; `since` changes only with the phase. The
        epoch is at least 1; the agent's version and the ClusterSet's rules, if there is one, are
        included.
        """
        heartbeat = snapshot.fact(HeartbeatState, broker)
        known = record.status
        phase, token = known.phase, known.agent.token_digest
        if heartbeat is not None and heartbeat.renewed:
            phase, token = "Ready", heartbeat.token
        since = known.since if phase == known.phase else None
        status = ClusterMemberStatus(
            phase=phase,
            epoch=max(known.epoch, 1),
            since=since or snapshot.now.replace(microsecond=0),
            agent=MemberAgent(version=self._version, token_digest=token),
        )
        wire: Wire = msgspec.to_builtins(status)
        return {**wire, "phase": phase, "epoch": status.epoch, **_rules_field(snapshot, broker)}


def _rules_field(snapshot: Snapshot, broker: ClusterId) -> Wire:
    """The ClusterSet's rules as `{"rules": …}` for the record's status; empty without a ClusterSet.

    If it has settings of more than 64 clusters, all of these are left out: every record would have
    them.
    """
    if not any(True for _ in snapshot.all(broker, ClusterSet)):
        return {}
    rules = clusterset_spec(snapshot, broker)
    settings = rules.clusters if len(rules.clusters) <= MAX_SETTINGS else ()
    return {
        "rules": {
            "profile": rules.profile,
            "endpoints": rules.endpoints,
            "paused": rules.paused,
            "leaseDurationSeconds": rules.lease_duration_seconds,
            "clusters": msgspec.to_builtins(settings),
        }
    }


def _concerns_member(change: ObjectChange, snapshot: Snapshot) -> bool:
    """Whether a changed object affects this cluster's record: the record itself, or any ClusterSet.

    Also the local namespace whose uid identifies the cluster, and a local Node or ServiceCIDR whose
    address ranges changed.
    """
    name = change.object.metadata.name
    if isinstance(change.object, ClusterSet):
        return True
    if isinstance(change.object, Node | ServiceCIDR):
        return change.where == snapshot.local and changes_ranges(change)
    if isinstance(change.object, ClusterMember):
        return name == snapshot.local
    is_local = change.where == snapshot.local
    return is_local and isinstance(change.object, Namespace) and name == IDENTITY_NAMESPACE
