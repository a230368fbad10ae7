"""The fleet as a person sees it: every cluster read once, as snapshots that views judge."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.app import BROKER
from hanse.cli.clusters import ReadFailure
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.features.services.reading import NARROWED
from hanse.kube.errors import (
    ApiError,
    BadCredentials,
    ServerError,
    Throttled,
    Unanswered,
    Untrusted,
)
from hanse.kube.listed_objects import ListedObjects
from hanse.kube.watch_events import Counted, Listed
from hanse.model.agent_report import (
    CUT_OFF,
    FORBIDDEN,
    REJECTED,
    UNTRUSTED,
    LostConnection,
    reported_connection,
)
from hanse.model.broker_namespace import MEMBER
from hanse.model.facts import (
    AgentFeatures,
    AgentLeaseRefused,
    AgentRun,
    ClusterState,
    CredentialsRefused,
    Fact,
    Facts,
    HolderState,
    KindCounted,
    KindServed,
    LeaseLiveness,
    ListDenied,
    PausedObject,
    Phase,
    Role,
)
from hanse.model.feature_names import FEATURES
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.held_deletions import reported_holds
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, ServiceAccount
from hanse.model.kinds.federation import CLUSTER_ID, ClusterClaim, Federation
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.naming import (
    AGENT,
    BROKER_NAMESPACE,
    IDENTITY_NAMESPACE,
    SYSTEM_NAMESPACE,
    holder_cluster,
)
from hanse.model.objects import ClusterId, Kind
from hanse.model.paused_objects import reported_pauses
from hanse.model.refused_writes import reported_refusals
from hanse.model.snapshot import Snapshot, Watch

ACCOUNT = Watch(Role.LOCAL, ServiceAccount, SYSTEM_NAMESPACE, name=AGENT, optional=True)
"""The account of a cluster's agent."""
GRACE = timedelta(seconds=5)
"""How much longer than its Lease a holder may be silent, as its clock is not ours."""


_MAY_NOT_READ = re.compile(r"may not read ([^;]+)")


class SelectedList(Watch, frozen=True):
    """A list by fields beside a name, which commands read and nobody watches."""

    fields: str = ""


class ClusterRead(Struct, frozen=True):
    """One cluster as it was read: what it listed, and why not the rest."""

    context: str
    lists: dict[Watch, Listed[Any]] = {}
    counts: dict[Kind, Counted[Any]] = {}
    """Kinds whose objects were counted, also if they were not listed."""
    unserved: frozenset[Kind] = frozenset()
    denied: dict[Kind, str] = {}
    failure: str = ""
    """Why it could not be read at all."""
    refused: bool = False
    """Whether that is for our credentials."""
    untrusted: bool = False
    """Whether that is for the certificate of its API server."""
    slow: bool = False
    """Whether it answered late, or took our request and did not answer in time."""
    failed: frozenset[Watch] = frozenset()
    """Further lists that could not be read."""
    agent_forbidden: tuple[str, ...] = ()
    """The resources that the account of its agent may not use, as far as we may ask."""
    features: tuple[str, ...] = FEATURES
    """What the agent has rights for; all where its account does not say."""
    refused_renewal: str = ""
    """Why the API server refuses renewals of its agent's Lease, which has run out, if it does."""
    skew: timedelta = timedelta(0)
    """How far the clock of its API server is at least ahead of ours."""
    asked_at: datetime | None = None
    """When it was asked; others may take longer to answer, and Leases have an age."""
    member_id: ClusterId = ""
    """The id that its record on a broker has, which `identified` finds."""
    borrows_id: bool = False
    """Whether its agent runs under the id of another cluster, as `identified` finds."""

    def objects(self, kind: type[Any]) -> list[Any]:
        """All objects of a kind, from every list of it that was read; none if it was not listed."""
        found = (one.objects for watch, one in self.lists.items() if watch.kind is kind)
        return [obj for several in found for obj in several]

    def listed(self, watch: Watch) -> tuple[Any, ...]:
        """The objects of one list; none if it was not read."""
        found = self.lists.get(watch)
        return found.objects if found is not None else ()

    @property
    def tried(self) -> set[Watch]:
        """The lists that were read, and further lists that failed; not first lists that failed."""
        return {*self.lists, *self.failed}

    @property
    def cluster(self) -> ClusterId:
        """The id by the holder of its agent's Lease; without one, by its claim or its record.

        The context where nothing says it: no agent ever ran there. Only the record, or the context,
        where the agent runs under another cluster's id.
        """
        claimed = "" if self.borrows_id else self.claimed_id
        return claimed or self.member_id or self.context

    @property
    def claimed_id(self) -> ClusterId:
        """The id by the holder of its agent's Lease; without one, by its claim; else empty."""
        lease = self.agent_lease
        holder = lease.spec.holder_identity if lease is not None else ""
        if "_" in holder:
            return holder_cluster(holder)
        claims = (one.value for one in self.objects(ClusterClaim) if one.about == CLUSTER_ID)
        return next(claims, "")

    @property
    def agent_lease(self) -> Lease | None:
        """The Lease of its agent among what was read; None if it is not there."""
        own = (SYSTEM_NAMESPACE, AGENT)
        leases = (one for one in self.objects(Lease) if (one.namespace, one.name) == own)
        return next(leases, None)

    def has_live_agent(self, now: datetime) -> bool:
        """Whether its agent's Lease has a holder, and has not run out for longer than `GRACE`.

        True also for a holder without a valid renewal time; False without a Lease.
        """
        lease = self.agent_lease
        held = lease is not None and bool(lease.spec.holder_identity)
        return lease is not None and held and self.silence(lease, now) is None

    def silence(self, lease: Lease, now: datetime, grace: timedelta = GRACE) -> timedelta | None:
        """How long a Lease of this cluster had not been renewed when it was read, if too long.

        None if that is within its duration and `grace`, or nobody holds it, or it has no valid
        time. `now`, by our clock, is used where `asked_at` is not set.
        """
        return lease.silence((self.asked_at or now) + self.skew, grace)

    @property
    def is_broker(self) -> bool:
        """Whether it has ClusterSets, or records of members: only brokers do."""
        return bool(self.objects(ClusterSet) or self.objects(ClusterMember))


def unread(failure: ReadFailure, expired: datetime | None = None) -> ClusterRead:
    """The reading of a cluster that could not be read, with the error's text as its `failure`.

    `refused` for bad credentials and 4xx answers, except 429; the text then also says when the
    credentials expired, if `expired` is given. `untrusted` and `slow` are set by the error, too.
    """
    error = failure.error
    answered = isinstance(error, ApiError) and not isinstance(error, ServerError | Throttled)
    refused = answered or isinstance(error, BadCredentials)
    message = failure.message("no answer in time")
    if refused and expired is not None:
        message = f"{message}; they expired on {expired:%Y-%m-%d %H:%M} UTC"
    return ClusterRead(
        failure.cluster,
        failure=message,
        refused=refused,
        untrusted=isinstance(error, Untrusted),
        slow=isinstance(error, Unanswered),
    )


def identified(reads: Iterable[ClusterRead]) -> tuple[ClusterRead, ...]:
    """The readings, each with the name of its record on a broker among them as `member_id`, or "".

    A record is that of a cluster by the uid of its namespace kube-system; one that has left does
    not count. Of several clusters that claim an id, that of its record has it, or else the first;
    the others borrow it. Two contexts of one cluster, by that uid, have the same id.
    """
    known = tuple(reads)
    records = (record for one in known for record in one.objects(ClusterMember))
    ids = {one.spec.uid: one.name for one in records if not one.has_left}
    named = [replace(one, member_id=ids.get(_uid(one), "")) for one in known]
    owners: dict[ClusterId, str] = {}
    for one in sorted(named, key=lambda each: each.claimed_id != each.member_id):
        if uid := _uid(one):
            owners.setdefault(one.claimed_id, uid)
    return tuple(replace(one, borrows_id=_borrows(one, owners)) for one in named)


def _borrows(read: ClusterRead, owners: Mapping[ClusterId, str]) -> bool:
    """Whether the owner of the id that a cluster claims has another uid than this cluster.

    False if the cluster claims none, or its own uid is not known.
    """
    uid = _uid(read)
    return bool(uid and read.claimed_id) and owners[read.claimed_id] != uid


def _uid(read: ClusterRead) -> str:
    """The uid of a cluster's namespace kube-system; empty if that was not read."""
    uids = (one.metadata.uid for one in read.objects(Namespace) if one.name == IDENTITY_NAMESPACE)
    return next(uids, "")


def contexts_of(reads: Iterable[ClusterRead]) -> dict[ClusterId, str]:
    """The contexts of clusters, by their ids; of several with one id, the last."""
    return {one.cluster: one.context for one in reads}


def build_fleet(
    reads: Iterable[ClusterRead], now: datetime, *, local: bool = False
) -> MultiClusterSnapshot:
    """The snapshots of all clusters, read or not, by cluster id; nothing is read here.

    Each is as the cluster's own agent would have it. A sole broker goes by its own id in all but
    those that have left it; without a sole one the broker is `BROKER`. Of readings with one id the
    last counts.
    """
    found = {one.cluster: one for one in reads}
    brokers = [name for name, one in found.items() if one.is_broker]
    broker, left = BROKER, set[ClusterId]()
    if len(brokers) == 1:
        broker = brokers[0]
        left = {one.name for one in found[broker].objects(ClusterMember) if one.has_left}
    return MultiClusterSnapshot(
        {
            name: _snapshot(name, one, now, broker if name not in left else None)
            for name, one in found.items()
        },
        contexts=contexts_of(found.values()),
        local=local,
        indexed=True,
    )


def _snapshot(
    name: ClusterId, read: ClusterRead, now: datetime, broker: ClusterId | None
) -> Snapshot:
    """The snapshot of one cluster from its lists and facts; `broker` is the broker's id in it.

    It is None if the cluster has left the broker. Kinds of which only some objects were listed do
    not count as synced.
    """
    facts = Facts()
    stores: dict[tuple[ClusterId, Kind], list[Any]] = {}
    for watch, listed in read.lists.items():
        complete = NARROWED.get(watch.kind) != watch and not (
            watch.name
            or isinstance(watch, SelectedList)
            or watch.labels.startswith(SOURCE_CLUSTER)
            or (watch.kind in NARROWED and watch.namespace)
        )
        found = ListedObjects(listed, watch.indexes, complete=complete)
        stores.setdefault((name, watch.kind.kind), []).append(found)
    own = (*_facts(name, read, now), *_reported_by_agent(read, broker))
    for fact in (*own, *_reported_links(name, read, now, broker)):
        facts.put(fact)
    return Snapshot(stores, facts, now, name)


def _facts(name: ClusterId, read: ClusterRead, now: datetime) -> Iterable[Fact]:
    """The facts of a cluster: roles, features, counts, unserved and denied kinds, agent, members.

    Also refused credentials, and refused renewals of the agent's Lease. Neither agent nor members'
    heartbeats of one that could not be read, nor the agent where Leases are denied; heartbeats only
    of a broker.
    """
    phase = Phase.UNREACHABLE if read.failure else Phase.SYNCED
    lease = read.agent_lease
    roles = {Role.BROKER} if read.is_broker else set()
    if lease is not None or not (roles or read.failure):
        roles.add(Role.LOCAL)
    yield ClusterState(
        name,
        frozenset(roles),
        phase,
        now,
        read.failure,
        listed=not read.failure,
        forbidden=read.agent_forbidden,
        rejected=_lacks_account(read, now),
        untrusted=read.untrusted,
        slow=read.slow,
    )
    yield AgentFeatures(name, read.features)
    for kind, counted in read.counts.items():
        yield KindCounted(name, kind, counted.total)
    for kind in read.unserved:
        yield KindServed(name, kind, served=False)
    for kind, reason in read.denied.items():
        yield ListDenied(name, kind, reason)
    if read.refused:
        yield CredentialsRefused(name, read.failure)
    if read.failure:
        return
    if Lease.kind not in read.denied:
        yield _agent_run(name, read, now)
    if read.refused_renewal and lease is not None:
        since = lease.last_renewal or now
        yield AgentLeaseRefused(name, lease.namespace, read.refused_renewal, since)
    if read.is_broker:
        yield from _heartbeats(name, read, now)


def _reported_by_agent(read: ClusterRead, broker: ClusterId | None) -> Iterator[Fact]:
    """What an agent could not write, found paused, or holds, by annotations of its Lease.

    To an agent the broker is `BROKER`, which is replaced by `broker` unless that is None. Nothing
    for a cluster that could not be read.
    """
    lease = None if read.failure else read.agent_lease
    for refused in reported_refusals(lease):
        where = refused.refuser.cluster
        cluster = broker if where == BROKER and broker is not None else where
        yield replace(refused, refuser=replace(refused.refuser, cluster=cluster))
    for paused in reported_pauses(lease):
        where = paused.target.where
        cluster = broker if where == BROKER and broker is not None else where
        yield PausedObject(replace(paused.target, where=cluster))
    for held in reported_holds(lease):
        cluster = broker if held.where == BROKER and broker is not None else held.where
        yield replace(held, where=cluster)


def _reported_links(
    name: ClusterId, read: ClusterRead, now: datetime, broker: ClusterId | None
) -> Iterator[ClusterState]:
    """The connections of an agent to members and broker, by its Federations and its Lease.

    Not to itself, nor to members that leave. To the broker only while the agent is cut off from it;
    by its exports where the Lease says nothing. Nothing if the cluster could not be read.
    """
    if read.failure:
        return
    for federation in read.objects(Federation):
        for one in federation.status.members:
            if one.cluster_id != name and not one.leaving:
                phase = Phase.SYNCED if one.reachable else Phase.UNREACHABLE
                yield ClusterState(
                    one.cluster_id,
                    frozenset({Role.MEMBER}),
                    phase,
                    one.since or now,
                    one.message,
                    rejected=one.reason == REJECTED,
                    untrusted=one.reason == UNTRUSTED,
                    forbidden=_denied_kinds(one.message) if one.reason == FORBIDDEN else (),
                )
    lost = reported_connection(read.agent_lease) or next(_lost_connections(read), None)
    if lost is not None and broker is not None and name != broker:
        yield ClusterState(
            broker,
            frozenset({Role.BROKER}),
            Phase.UNREACHABLE,
            lost.since or now,
            "it says so itself",
            rejected=lost.rejected,
            forbidden=lost.denied,
        )


def _denied_kinds(message: str) -> tuple[str, ...]:
    """The kinds that an agent may not read, by its message; `what it needs` if that names none."""
    found = _MAY_NOT_READ.search(message)
    return tuple(found[1].split(", ")) if found is not None else ("what it needs",)


def _lost_connections(read: ClusterRead) -> Iterator[LostConnection]:
    """A lost connection for each condition of an export whose reason is one of `CUT_OFF`.

    That is, its agent does not reach the broker, or the broker rejects its token or forbids reads.
    """
    for export in read.objects(ServiceExport):
        for one in export.status.conditions:
            if one.reason in CUT_OFF:
                yield LostConnection(one.reason, one.last_transition_time)


def _lacks_account(read: ClusterRead, now: datetime) -> bool:
    """Whether nobody renews an agent's Lease, and the account of agents is known to be gone.

    Also if its last holder gave it back: a second one may have, whose account is another. False
    without a Lease, or if the account was not listed.
    """
    if read.agent_lease is None or read.has_live_agent(now):
        return False
    return ACCOUNT in read.lists and not read.listed(ACCOUNT)


def _agent_run(name: ClusterId, read: ClusterRead, now: datetime) -> AgentRun:
    """The agent by its Lease: alive if that has a holder and was renewed in time, else not.

    The holder is "" without a Lease, and `nobody` for one that nobody holds.
    """
    lease = read.agent_lease
    if lease is None:
        return AgentRun(name, "", alive=False)
    holder = lease.spec.holder_identity
    return AgentRun(name, holder or "nobody", read.has_live_agent(now), lease.last_renewal)


def _heartbeats(broker: ClusterId, read: ClusterRead, now: datetime) -> Iterable[LeaseLiveness]:
    """Ready or silent, for each Lease with a member's label or in the default broker namespace.

    Ready, too, for one that nobody holds, or that has no valid time of renewal.
    """
    for lease in read.objects(Lease):
        if MEMBER in lease.metadata.labels or lease.namespace == BROKER_NAMESPACE:
            silent = read.silence(lease, now) is not None
            state = HolderState.SILENT if silent else HolderState.READY
            since = lease.last_renewal or now
            holder = lease.spec.holder_identity
            yield LeaseLiveness(broker, lease.namespace, lease.name, holder, state, since)
