"""Builders of the objects and snapshots of one set, and of what plans contain."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.names import part_name
from hanse.kube.lease import format_micro_time
from hanse.model.facts import Fact, Phase, Role
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    MemberPhase,
)
from hanse.model.kinds.stateful import (
    Share,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import (
    Meta,
    Object,
    OwnerReference,
)
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot
from hanse.runtime.ownership import Owner, with_owner
from tests.scenarios.statefulsets import headless, spec_of
from tests.support.builders import cluster, namespace, snapshot, stored
from tinykube.virtual_time import EPOCH

BROKER_NAMESPACE = "hanse-broker"
HERE = "lubeck"
BROKER = "broker"
SHOP = "shop"
FEATURE = StatefulSets(BROKER_NAMESPACE)
SHARES, LOCAL, STATUS = (Key(topic, "store", SHOP) for topic in ("shares", "local", "status"))


def submitted_set(
    replicas: int = 6, annotations: dict[str, str] | None = None, **spec: Any
) -> StatefulSet:
    meta = Meta(name="store", namespace=SHOP, uid="uid-store", annotations=annotations or {})
    return stored(StatefulSet(metadata=meta, spec=spec_of(replicas, **spec)))


def lease(name: str, silent: float = 0) -> Lease:
    renewed = format_micro_time(EPOCH - timedelta(seconds=silent))
    spec = LeaseSpec(holder_identity=name, lease_duration_seconds=30, renew_time=renewed)
    return stored(Lease(metadata=LeaseMeta(name=name, namespace=BROKER_NAMESPACE), spec=spec))


def member(name: str, phase: MemberPhase = "Ready") -> ClusterMember:
    """The record of a member at the broker."""
    return stored(
        ClusterMember(
            metadata=Meta(name=name, namespace=BROKER_NAMESPACE),
            spec=ClusterMemberSpec(cluster_id=name, uid=f"uid-{name}"),
            status=ClusterMemberStatus(phase=phase),
        )
    )


def record(owned: bool = True, **shares: int) -> StatefulSetShares:
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="store", uid="uid-store")
    meta = Meta(name="store", namespace=SHOP, owner_references=(owner,) if owned else ())
    spec = StatefulSetSharesSpec(
        shares=tuple(Share(name=c, replicas=n) for c, n in shares.items()), service="etcd"
    )
    shared = Owner("statefulsets", SHARES, "")
    return stored(with_owner(StatefulSetShares(metadata=meta, spec=spec), shared))


def part(name: str, share: int, **fields: Any) -> StatefulSetPart:
    spec = StatefulSetPartSpec(namespace=SHOP, name="store", cluster=name, share=share, **fields)
    meta = Meta(name=part_name(SHOP, "store", name), namespace=BROKER_NAMESPACE)
    return stored(StatefulSetPart(metadata=meta, spec=spec))


def snapshot_of(
    *at_broker: Object,
    here: Sequence[Object] = (),
    facts: Sequence[Fact] = (),
    phase: Phase = Phase.SYNCED,
    members: Sequence[Lease] = (),
) -> Snapshot:
    """The snapshot of lubeck's agent; with three live members unless Leases are given."""
    leases = members or [lease(c) for c in ("bergen", "hamburg", HERE)]
    states = [cluster(HERE, Role.LOCAL), cluster(BROKER, Role.BROKER, phase=phase)]
    shop = stored(namespace(SHOP))
    objects = {
        HERE: [shop, *here],
        BROKER: [*leases, stored(headless("etcd", SHOP)), *at_broker],
    }
    return snapshot(FEATURE, HERE, states, objects, facts)


def plan(key: Key, snap: Snapshot) -> Plan:
    return FEATURE.plan(key, snap)


def current_shares(snap: Snapshot) -> dict[str, int]:
    """The shares that a plan records."""
    found = [d.object for d in plan(SHARES, snap).desired]
    (shares,) = [o for o in found if isinstance(o, StatefulSetShares)]
    return {share.name: share.replicas for share in shares.spec.shares}


def conditions(snap: Snapshot) -> dict[str, tuple[str, str]]:
    (status,) = [p for p in plan(STATUS, snap).patches if p.subresource == "status"]
    encoded = status.change["status"]["conditions"]
    return {c["type"]: (c["reason"], c["message"]) for c in encoded}


def sets_in(snap: Snapshot) -> list[StatefulSet]:
    """The StatefulSets that a plan has in this cluster."""
    return [d.object for d in plan(LOCAL, snap).desired if isinstance(d.object, StatefulSet)]
