"""The shared decisions about one set: who runs how many replicas, and what the door is told."""

from msgspec import Struct

from hanse.features.statefulsets.fleet import (
    Member,
    clusters_with_newer_parts,
    is_broker_listed,
    list_parts,
    members,
)
from hanse.features.statefulsets.names import LB_NEEDED, REPLICAS, name_error, replica_name
from hanse.features.statefulsets.planner import (
    DEFAULT_PREFERENCE,
    Distribution,
    ReplicaPreference,
    distribute,
)
from hanse.features.statefulsets.status import StatusInputs, told
from hanse.features.statefulsets.submitted import SubmittedSet, find_submitted_set
from hanse.model.clusterset import broker_cluster, is_local_or_alive
from hanse.model.kinds.core import Service
from hanse.model.kinds.stateful import (
    NamedPort,
    Share,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, OwnerReference, object_ref
from hanse.model.plan import Desired, Key, Patch, Plan
from hanse.model.snapshot import Snapshot


class _Fleet(Struct, frozen=True):
    """Who there is, as one set sees them."""

    everyone: tuple[ClusterId, ...]
    healthy: tuple[ClusterId, ...]
    """Those that may be given replicas, in the fleet's order."""
    unfit: tuple[ClusterId, ...]
    """Those whose own name is too long for the set's."""


class _View(Struct, frozen=True):
    """All that is known of one set at its broker."""

    broker: ClusterId
    submitted: SubmittedSet | None
    record: StatefulSetShares | None
    parts: dict[ClusterId, StatefulSetPartSpec]
    unread: frozenset[ClusterId]
    """Clusters whose reports cannot be read."""
    everyone: tuple[Member, ...]
    rank: int
    """Our place among those who could write what is shared."""


class _Decision(Struct, frozen=True):
    """Who is to run how many replicas."""

    submitted: SubmittedSet
    fleet: _Fleet
    spread: Distribution
    service: Service | None
    record: StatefulSetShares | None
    """The shares as they are to be recorded; None where nothing may be and nothing is."""


def plan_shares(key: Key, snapshot: Snapshot, home: str) -> Plan:
    """The shares of one set beside it, which every cluster waits for."""
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    as_it_stands = Plan(
        kept=(ClusterObjectRef(broker, object_ref(record)),) if record is not None else ()
    )
    view = _view(key, snapshot, broker, home, record)
    if view is None:
        return as_it_stands
    decision = _decision(view, snapshot)
    if decision is None:
        reporting = view.parts.keys() | view.unread
        waited_for = reporting & {member.cluster for member in view.everyone}
        stays = record is not None and (record.metadata.owner_references or waited_for)
        return as_it_stands if stays else Plan()
    wanted = decision.record
    return Plan(() if wanted is None else (_shared(wanted, broker, view.rank),))


def plan_status(key: Key, snapshot: Snapshot, home: str) -> Plan:
    """The status of one set, and what its headless Service is told: neither in any hurry."""
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    view = _view(key, snapshot, broker, home, record)
    decision = _decision(view, snapshot) if view is not None else None
    if view is None or decision is None:
        return Plan()
    alive = _heard(view.parts, view.everyone, snapshot, broker, home)
    status = told(_situation(view, decision, alive), snapshot, broker, view.rank)
    noted = _noted(decision.submitted, decision.record, decision.service, broker, view.rank)
    return Plan(patches=(*status.patches, *noted), events=status.events)


def _view(
    key: Key, snapshot: Snapshot, broker: ClusterId, home: str, record: StatefulSetShares | None
) -> _View | None:
    """What is known of a set; None while that is too little to decide on, or too new for us."""
    unread = clusters_with_newer_parts(key, snapshot, broker)
    if not is_broker_listed(broker, snapshot) or (unread if record is None else record.spec.newer):
        return None
    everyone = members(snapshot, broker, home)
    return _View(
        broker=broker,
        submitted=find_submitted_set(key, snapshot, broker),
        record=record,
        parts=list_parts(key, snapshot, broker),
        unread=frozenset(unread),
        everyone=everyone,
        rank=_rank(snapshot.local, everyone),
    )


def _decision(view: _View, snapshot: Snapshot) -> _Decision | None:
    """Who runs how many replicas from here on; None where the set is gone or going."""
    submitted = view.submitted
    if submitted is None or submitted.terminating or submitted.orphaned:
        return None
    fleet = _fleet(submitted, view.everyone)
    spread = _spread(submitted, view.record, view.parts, fleet)
    service = snapshot.get(view.broker, Service, submitted.spec.service_name, submitted.namespace)
    record = view.record if submitted.faults else _record(submitted, spread, service)
    return _Decision(submitted, fleet, spread, service, record)


def _situation(
    view: _View, decision: _Decision, alive: dict[ClusterId, StatefulSetPartSpec]
) -> StatusInputs:
    submitted, fleet, shares = decision.submitted, decision.fleet, decision.spread.shares
    return StatusInputs(
        submitted=submitted,
        spread=decision.spread,
        parts=alive,
        away=tuple(c for c in shares if c not in fleet.healthy or c in view.unread),
        left=tuple(c for c in shares if c not in fleet.everyone),
        unfit=fleet.unfit,
        known=fleet.everyone,
        service_missing=bool(submitted.spec.service_name) and decision.service is None,
    )


def _heard(
    parts: dict[ClusterId, StatefulSetPartSpec],
    everyone: tuple[Member, ...],
    snapshot: Snapshot,
    broker: ClusterId,
    home: str,
) -> dict[ClusterId, StatefulSetPartSpec]:
    """The reports that count: of clusters that are in the fleet and alive."""
    joined = {member.cluster for member in everyone}
    return {
        c: p
        for c, p in parts.items()
        if c in joined and is_local_or_alive(c, snapshot, broker, home)
    }


def _rank(local: ClusterId, everyone: tuple[Member, ...]) -> int:
    """Our place among those who could write what is shared."""
    alive = [m.cluster for m in everyone if m.healthy]
    return alive.index(local) if local in alive else len(alive)


def _shared(record: StatefulSetShares, broker: ClusterId, rank: int) -> Desired:
    sources = frozenset({broker})
    return Desired(record, broker, sources=sources, shared=True, rank=rank, awaited=True)


def _fleet(submitted: SubmittedSet, everyone: tuple[Member, ...]) -> _Fleet:
    unfit = tuple(m.cluster for m in everyone if name_error(submitted.name, (m.cluster,)))
    return _Fleet(
        tuple(m.cluster for m in everyone),
        tuple(m.cluster for m in everyone if m.healthy and m.cluster not in unfit),
        unfit,
    )


def _spread(
    submitted: SubmittedSet,
    record: StatefulSetShares | None,
    parts: dict[ClusterId, StatefulSetPartSpec],
    fleet: _Fleet,
) -> Distribution:
    """The shares as they should be from here on."""
    before = current_shares(record, parts)
    if submitted.faults:
        return Distribution(before)
    anew = record is not None and submitted.rebalance not in ("", record.spec.rebalanced)
    if anew:
        before = {c: n for c, n in before.items() if c in fleet.everyone and c not in fleet.healthy}
    elif submitted.redistributes:
        before = {c: n for c, n in before.items() if c in fleet.everyone}
    return distribute(
        submitted.spec.replicas, before, fleet.healthy, _wishes(submitted, fleet, before)
    )


def _wishes(
    submitted: SubmittedSet, fleet: _Fleet, before: dict[ClusterId, int]
) -> dict[ClusterId, ReplicaPreference]:
    wishes = submitted.preferences.of((*fleet.healthy, *before))
    return {cluster: wish for cluster, wish in wishes.items() if wish != DEFAULT_PREFERENCE}


def current_shares(
    record: StatefulSetShares | None, parts: dict[ClusterId, StatefulSetPartSpec]
) -> dict[ClusterId, int]:
    """The shares that stand; where somebody removed their record, as clusters report them."""
    if record is not None:
        return {share.name: share.replicas for share in record.spec.shares}
    return {cluster: part.share for cluster, part in sorted(parts.items()) if part.share}


def _record(
    submitted: SubmittedSet, spread: Distribution, service: Service | None
) -> StatefulSetShares:
    meta = submitted.object.metadata
    kind = type(submitted.object).kind
    owner = OwnerReference(
        api_version=kind.api_version, kind=kind.name, name=meta.name, uid=meta.uid
    )
    ports = service.spec.ports if service is not None else ()
    return StatefulSetShares(
        metadata=Meta(
            name=submitted.name, namespace=submitted.namespace, owner_references=(owner,)
        ),
        spec=StatefulSetSharesSpec(
            shares=tuple(Share(name=c, replicas=n) for c, n in spread.shares.items()),
            told=", ".join(f"{c} {n}" for c, n in spread.shares.items())[:32000],
            service=submitted.spec.service_name,
            ports=tuple(NamedPort(port=p.port, name=p.name, protocol=p.protocol) for p in ports),
            load_balanced=submitted.balanced,
            first_ordinal=submitted.first_ordinal,
            rebalanced=submitted.rebalance[:253],
        ),
    )


def list_replica_names(name: str, spec: StatefulSetSharesSpec, cluster: ClusterId) -> list[str]:
    """The names of a cluster's replicas."""
    first = spec.first_ordinal
    return [replica_name(name, cluster, n) for n in range(first, first + spec.of(cluster))]


def _noted(
    submitted: SubmittedSet,
    record: StatefulSetShares | None,
    service: Service | None,
    broker: ClusterId,
    rank: int,
) -> tuple[Patch, ...]:
    """What the headless Service at the door says of the set: balancers, and replicas if so."""
    if service is None or record is None:
        return ()
    balanced = record.spec.load_balanced
    marks: dict[str, str | None] = {LB_NEEDED: "true" if balanced else "false", REPLICAS: None}
    if balanced:
        names = [
            replica
            for share in record.spec.shares
            for replica in list_replica_names(submitted.name, record.spec, share.name)
        ]
        marks[REPLICAS] = ", ".join(names) or None
    elif REPLICAS not in service.metadata.annotations and LB_NEEDED not in submitted.marks:
        return ()  # nobody ever asked for any
    place = ClusterObjectRef(broker, object_ref(service))
    return (Patch(place, {"metadata": {"annotations": marks}}, rank=rank),)
