"""The shared plans for one set: the replicas of each cluster, and the set's status."""

from collections.abc import Container, Mapping

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.collisions import read_submitted_set
from hanse.features.statefulsets.fleet import (
    FleetMember,
    clusters_with_newer_parts,
    is_broker_listed,
    list_members,
    list_parts_and_releases,
)
from hanse.features.statefulsets.identity import belongs_to, owned_shares_meta
from hanse.features.statefulsets.names import name_error, part_name
from hanse.features.statefulsets.part_report import replica_names
from hanse.features.statefulsets.planner import (
    DEFAULT_PREFERENCE,
    Distribution,
    ReplicaPreference,
    distribute,
)
from hanse.features.statefulsets.replica_lists import service_annotation_patch
from hanse.features.statefulsets.share_basis import (
    BelievedShare,
    ShareBasis,
    ShareSources,
    share_basis,
)
from hanse.features.statefulsets.status import (
    SHARE_DISPUTED,
    StatusInputs,
    disputed_message,
    plan_set_status,
    plan_shadowed,
)
from hanse.features.statefulsets.submitted import SubmittedSet, find_shadowed_set
from hanse.model.clusterset import (
    MemberState,
    broker_cluster,
    departed_clusters,
    joined_clusters,
    member_state,
)
from hanse.model.kinds.core import Service
from hanse.model.kinds.stateful import (
    FIRST_SCHEMA,
    LIMITED_SCHEMA,
    MAX_TEXT_LENGTH,
    Share,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import ClusterId, ClusterObjectRef, ObjectRef, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Plan, Read, Shared
from hanse.model.questions import fresh_read_questions, fresh_values
from hanse.model.snapshot import Snapshot


class _Fleet(Struct, frozen=True):
    """The clusters of the fleet, as one set may use them."""

    members: tuple[ClusterId, ...]
    healthy: tuple[ClusterId, ...]
    """Clusters that may be given replicas, in the fleet's order."""
    departed: frozenset[ClusterId]
    """Clusters that have left for good."""
    too_long: tuple[ClusterId, ...]
    """Clusters whose name is too long together with the set's."""
    labels: dict[ClusterId, Mapping[str, str]] = {}


class _SetState(Struct, frozen=True):
    """The observed state of one set at its broker."""

    broker: ClusterId
    submitted: SubmittedSet | None
    record: StatefulSetShares | None
    parts: dict[ClusterId, StatefulSetPartSpec]
    """Reports, and tombstones of clusters where what an earlier set released runs on."""
    unread: frozenset[ClusterId]
    """Clusters whose reports have a newer schema."""
    members: tuple[FleetMember, ...]
    departed: frozenset[ClusterId]
    rank: int
    """The rank of this cluster among the writers of shared objects."""


class _ShareDecision(Struct, frozen=True):
    """The replicas that each cluster should run."""

    submitted: SubmittedSet
    fleet: _Fleet
    distribution: Distribution
    disputed: tuple[ClusterId, ...]
    """Clusters whose present record of shares is not believed."""
    service: Service | None
    record: StatefulSetShares | None
    """The desired record of shares; the present one, or None, if the set is invalid."""


def plan_shares(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The plan that writes the record of shares, with a Warning Event if present ones are disputed.

    The record is kept while the set must not be judged, and after the set's end while it has an
    owner, or clusters report or may just have begun to. Else the plan is empty, as without a
    broker, or for an invalid set without a record.
    """
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    unchanged = Plan(
        kept=(ClusterObjectRef(broker, object_ref(record)),) if record is not None else ()
    )
    state = _read_state(key, snapshot, broker, broker_namespace, record)
    if state is None:
        return unchanged
    decision = _decide(state, snapshot)
    if decision is None:
        reporting = {c for c, part in state.parts.items() if part.ended is None} | state.unread
        reporting -= state.departed
        if record is None:
            return Plan()
        if record.metadata.owner_references or reporting:
            return unchanged
        unseen = _reads_of_unobserved(
            key, record, state.departed, broker, broker_namespace, snapshot
        )
        found = fresh_values(unseen, snapshot)
        if found is not None and not any(found):
            return Plan()
        return replace(unchanged, questions=fresh_read_questions(unseen))
    if decision.record is None:
        return Plan()
    events: tuple[EventRequest, ...] = ()
    if decision.disputed:
        subject = ClusterObjectRef(broker, decision.submitted.ref)
        message = disputed_message(decision.disputed)
        written = ClusterObjectRef(broker, object_ref(decision.record))
        events = (EventRequest(subject, SHARE_DISPUTED, message, "Warning", recorded_with=written),)
    return Plan((_desired_record(decision.record, broker, state.rank),), events=events)


def _reads_of_unobserved(
    key: Key,
    record: StatefulSetShares,
    departed: Container[ClusterId],
    broker: ClusterId,
    broker_namespace: str,
    snapshot: Snapshot,
) -> list[Read]:
    """The live reads of reports that clusters with a share may have, and that are not observed.

    A cluster writes its report before it runs anything: one that has a share and no report may have
    begun a moment ago.
    """
    names = [
        part_name(key.namespace, key.name, share.name)
        for share in record.spec.shares
        if share.name not in departed
    ]
    return [
        Read(
            ClusterObjectRef(broker, ObjectRef(StatefulSetPart.kind, name, broker_namespace)),
            since=record.metadata.uid,
        )
        for name in names
        if snapshot.get(broker, StatefulSetPart, name, broker_namespace) is None
    ]


def believed_share(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str, running: int | None
) -> BelievedShare:
    """This cluster's share as record and reports explain it, and whether the record is current.

    `running`, the replicas that run here (None: it does not run the set), stands in for a missing
    report. While the set cannot be read or is missing, it is the share, and counts as current.
    """
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    state = _read_state(key, snapshot, broker, broker_namespace, record)
    if state is None or state.submitted is None:
        return BelievedShare(running or 0)
    parts, reported = state.parts, state.parts.get(snapshot.local)
    if running is not None and (reported is None or reported.ended is not None):
        own = StatefulSetPartSpec(
            namespace=key.namespace, name=key.name, cluster=snapshot.local, share=running
        )
        parts = {**parts, snapshot.local: own}
    fleet = _fleet_for(state.submitted, state)
    basis = _believed_shares(state.submitted, record, parts, fleet)
    following = _distribute(state.submitted, basis.shares, parts, fleet).shares
    is_current = record is None or following == {s.name: s.replicas for s in record.spec.shares}
    return BelievedShare(basis.shares.get(snapshot.local, 0), is_current)


def plan_status(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """Patches of a set's status, its Service's annotations, and a younger namesake's status.

    Empty without a broker, and for a set that is over or cannot be read.
    """
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    state = _read_state(key, snapshot, broker, broker_namespace, record)
    decision = _decide(state, snapshot) if state is not None else None
    if state is None or decision is None:
        return Plan()
    alive = _live_parts(state.parts, snapshot, broker, broker_namespace)
    status = plan_set_status(_status_inputs(state, decision, alive), snapshot, broker, state.rank)
    annotated = service_annotation_patch(
        decision.submitted, decision.record, decision.service, snapshot, broker, state.rank
    )
    shadowed = find_shadowed_set(key, snapshot, broker)
    told = plan_shadowed(shadowed, snapshot, broker, state.rank) if shadowed else Plan()
    return Plan(
        patches=(*status.patches, *annotated, *told.patches), events=(*status.events, *told.events)
    )


def _read_state(
    key: Key,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
    record: StatefulSetShares | None,
) -> _SetState | None:
    """All that is known of a set at the broker; None if that is not listed, or must not be judged.

    It must not if the record is of an earlier set or has a newer schema, or if there is no record
    and a cluster's report has a newer schema.
    """
    unread = clusters_with_newer_parts(key, snapshot, broker)
    if not is_broker_listed(broker, snapshot) or (
        unread if record is None else record.spec.has_newer_schema
    ):
        return None
    members = list_members(snapshot, broker, broker_namespace)
    submitted = read_submitted_set(key, snapshot, broker, broker_namespace)
    uid = submitted.uid if submitted is not None else ""
    if submitted is not None and record is not None and not belongs_to(record, submitted):
        return None  # the garbage collector deletes the record of the earlier set
    return _SetState(
        broker=broker,
        submitted=submitted,
        record=record,
        parts=list_parts_and_releases(key, snapshot, broker, uid, members),
        unread=frozenset(unread),
        members=members,
        departed=departed_clusters(snapshot, broker, broker_namespace),
        rank=_writer_rank(snapshot.local, members),
    )


def _decide(state: _SetState, snapshot: Snapshot) -> _ShareDecision | None:
    """The distribution of a set, the disputed clusters, and the desired record of shares.

    An invalid set keeps its record and what is believed of it. None if the set is missing,
    terminating or orphaned.
    """
    submitted = state.submitted
    if submitted is None or submitted.terminating or submitted.orphaned:
        return None
    fleet = _fleet_for(submitted, state)
    basis = _believed_shares(submitted, state.record, state.parts, fleet)
    distribution = (
        Distribution({c: n for c, n in sorted(basis.shares.items()) if n})
        if submitted.errors
        else _distribute(submitted, basis.shares, state.parts, fleet)
    )
    service = snapshot.get(state.broker, Service, submitted.spec.service_name, submitted.namespace)
    limited = any(part.limited for part in state.parts.values())
    record = (
        state.record
        if submitted.errors
        else _build_record(submitted, state.record, distribution, service, limited=limited)
    )
    return _ShareDecision(submitted, fleet, distribution, basis.disputed, service, record)


def _status_inputs(
    state: _SetState, decision: _ShareDecision, live_reports: dict[ClusterId, StatefulSetPartSpec]
) -> StatusInputs:
    """All that a set's status is computed from: shares, reports, clusters with problems."""
    submitted, fleet, shares = decision.submitted, decision.fleet, decision.distribution.shares
    return StatusInputs(
        submitted=submitted,
        distribution=decision.distribution,
        parts=live_reports,
        away=tuple(c for c in shares if c not in fleet.healthy or c in state.unread),
        left=tuple(c for c in shares if c in fleet.departed),
        unrecorded=tuple(c for c in shares if c not in {*fleet.members, *fleet.departed}),
        pending={
            c: surplus
            for c, part in sorted(state.parts.items())
            if c not in fleet.healthy and (surplus := part.share - shares.get(c, 0)) > 0
        },
        disputed=decision.disputed,
        anew=_shares_if_new(decision, state.parts),
        too_long=fleet.too_long,
        joined=fleet.members,
        selected=tuple(c for c, labels in fleet.labels.items() if submitted.choice.selects(labels)),
        service_missing=bool(submitted.spec.service_name) and decision.service is None,
        permitted=state.record.spec.permitted(submitted.uid) if state.record is not None else (),
    )


def _shares_if_new(
    decision: _ShareDecision, parts: dict[ClusterId, StatefulSetPartSpec]
) -> dict[ClusterId, int]:
    """The shares that a new set would get, for comparison with the present ones.

    Empty if the set has neither preferences by cluster nor a choice by labels, if it is invalid, or
    while a member is not healthy.
    """
    fleet, submitted = decision.fleet, decision.submitted
    everyone = set(fleet.members) <= set(fleet.healthy)
    choice = submitted.choice
    wishes = submitted.preferences.by_cluster or choice.spread_by or choice.selects_some
    if not wishes or submitted.errors or not everyone:
        return {}
    return _distribute(submitted, {}, parts, fleet).shares


def _live_parts(
    parts: dict[ClusterId, StatefulSetPartSpec],
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> dict[ClusterId, StatefulSetPartSpec]:
    """The reports of this cluster, and of members that have not left nor let their Lease expire.

    Reports of members whose state is unknown count.
    """
    place = (snapshot, broker, broker_namespace)
    known = joined_clusters(*place) | {snapshot.local}
    gone = (MemberState.SILENT, MemberState.GONE)
    return {c: p for c, p in parts.items() if c in known and member_state(c, *place) not in gone}


def _writer_rank(local: ClusterId, members: tuple[FleetMember, ...]) -> int:
    """This cluster's place, from 0, among healthy members, who write in that order.

    If it is not among them, their number.
    """
    alive = [m.cluster for m in members if m.healthy]
    return alive.index(local) if local in alive else len(alive)


def _desired_record(record: StatefulSetShares, broker: ClusterId, rank: int) -> Desired:
    """The record as a desired object that all clusters share, lower ranks writing first."""
    sources = frozenset({broker})
    return Desired(record, broker, sources=sources, ownership=Shared(rank, awaited=True))


def _fleet_for(submitted: SubmittedSet, state: _SetState) -> _Fleet:
    """The members as this set may use them; those with too long a name are not healthy for it."""
    members = state.members
    too_long = tuple(m.cluster for m in members if name_error(submitted.name, (m.cluster,)))
    return _Fleet(
        tuple(m.cluster for m in members),
        tuple(m.cluster for m in members if m.healthy and m.cluster not in too_long),
        state.departed,
        too_long,
        {m.cluster: m.labels for m in members},
    )


def _believed_shares(
    submitted: SubmittedSet,
    record: StatefulSetShares | None,
    parts: dict[ClusterId, StatefulSetPartSpec],
    fleet: _Fleet,
) -> ShareBasis:
    """The shares to start from (see `share_basis`), by the record and the clusters' reports."""
    sources = ShareSources(submitted, record, parts, fleet.departed, fleet.healthy)
    return share_basis(sources, lambda before: _distribute(submitted, before, parts, fleet).shares)


def _distribute(
    submitted: SubmittedSet,
    before: dict[ClusterId, int],
    parts: dict[ClusterId, StatefulSetPartSpec],
    fleet: _Fleet,
) -> Distribution:
    """The distribution of a set's replicas from previous shares, within what clusters take."""
    limits = {c: part.most for c, part in parts.items() if part.most is not None}
    return distribute(
        submitted.spec.replicas,
        before,
        fleet.healthy,
        _preferences(submitted, fleet, before, limits),
        submitted.choice.groups(fleet.labels),
    )


def _preferences(
    submitted: SubmittedSet,
    fleet: _Fleet,
    before: dict[ClusterId, int],
    limits: dict[ClusterId, int],
) -> dict[ClusterId, ReplicaPreference]:
    """By cluster the preference if not the default: min and max lowered to what the cluster takes.

    A cluster that the set does not select has weight and max 0.
    """
    preferences = submitted.preferences.of((*fleet.healthy, *before))
    for cluster in preferences:
        if not submitted.choice.selects(fleet.labels.get(cluster, {})):
            preferences[cluster] = ReplicaPreference(weight=0, max=0)
    return {
        cluster: within
        for cluster, preference in preferences.items()
        if (within := _within_limit(preference, limits.get(cluster))) != DEFAULT_PREFERENCE
    }


def _within_limit(preference: ReplicaPreference, limit: int | None) -> ReplicaPreference:
    """The preference with min and max lowered to the limit; unchanged without a limit."""
    if limit is None:
        return preference
    return ReplicaPreference(
        preference.weight, min(preference.min, limit), min(preference.max, limit)
    )


def _build_record(
    submitted: SubmittedSet,
    current: StatefulSetShares | None,
    distribution: Distribution,
    service: Service | None,
    *,
    limited: bool,
) -> StatefulSetShares:
    """The record of shares to write, owned by the set; permits are not part of it.

    `limited`, that clusters take only so many replicas, selects a schema that older agents do not
    read.
    """
    names = replica_names(submitted, service)
    return StatefulSetShares(
        metadata=owned_shares_meta(
            submitted.object, current.metadata if current is not None else None
        ),
        spec=StatefulSetSharesSpec(
            shares=tuple(Share(name=c, replicas=n) for c, n in distribution.shares.items()),
            told=", ".join(f"{c} {n}" for c, n in distribution.shares.items())[:MAX_TEXT_LENGTH],
            service=names.service,
            ports=names.ports,
            load_balanced=names.load_balanced,
            first_ordinal=submitted.first_ordinal,
            unready_names=names.unready,
            rebalanced=submitted.rebalance,
            schema=LIMITED_SCHEMA if limited else FIRST_SCHEMA,
        ),
    )
