"""The leader's Lease in every cluster of the federation set: whether its word is fresh there.

What a leader says about the readiness of members is believed while its Lease is renewed, and only
about the clusters that it sees. The Lease names its hosts, too, for those who missed an end.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from hanse.features.gslb.leadership import Leading, local_amko_cluster, traffic_state
from hanse.features.gslb.names import HOSTS, LEADER_LEASE, LED_BY, UNSEEN, context_of, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.replication import without_server_metadata
from hanse.features.gslb.settled_hosts import settled_hosts
from hanse.features.gslb.terms import LeaderTerm, leader_term
from hanse.model.facts import LeaseFreshness, Role
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.plan import Desired, Key, Plan, Shared
from hanse.model.snapshot import Snapshot

DURATION = timedelta(seconds=30)
RENEWAL_INTERVAL = timedelta(seconds=10)

Believes = Callable[[str], bool]
"""Whether the leader's word about the readiness of members in a cluster, by context, counts."""


def lease_key(context: str) -> Key:
    """The key of the leader's Lease in the cluster of a context; the same for every leader."""
    return Key("lease", context)


def lease_keys(context: str, sites: tuple[ClusterId, ...]) -> tuple[Key, ...]:
    """The keys of a leader's Leases: in its own cluster and in its followers'."""
    return tuple(map(lease_key, (context, *map(context_of, sites))))


def plan_lease(context: str, snapshot: Snapshot, options: GslbOptions) -> Plan:
    """Renew the leader's Lease in one cluster every 10 seconds, or once its annotations change.

    These are the term, the unsynced sites, and while hosts are settled a digest of them, whose
    change alone is no reason to renew. It stays as it is if this cluster does not lead, the cluster
    is no follower, or a later leader has renewed it within DURATION.
    """
    state, local = traffic_state(snapshot), local_amko_cluster(snapshot)
    is_local = local is not None and context == local.spec.cluster_context
    where = snapshot.local if is_local else site_of(context)
    current = snapshot.get(where, Lease, LEADER_LEASE, NAMESPACE)
    if not isinstance(state, Leading) or where not in (snapshot.local, *state.followers):
        return _plan_unchanged(current, where)
    term = leader_term(current)
    later = term is not None and term > LeaderTerm(state.epoch, state.context)
    if later and _age(current, snapshot.now) < DURATION:  # else nobody leads in that term any more
        return replace(_plan_unchanged(current, where), requeue_after=DURATION)
    annotations = {LED_BY: state.term_annotation, UNSEEN: ",".join(unseen_contexts(snapshot))}
    age = _age(current, snapshot.now)
    if current is not None and age < RENEWAL_INTERVAL and _has_annotations(current, annotations):
        return Plan(
            desired=(Desired(without_server_metadata(current), where, ownership=Shared()),),
            requeue_after=RENEWAL_INTERVAL - age,
        )
    if hosts := settled_hosts(options, snapshot):
        annotations[HOSTS] = hosts
    renewed = Lease(
        metadata=LeaseMeta(name=LEADER_LEASE, namespace=NAMESPACE, annotations=annotations),
        spec=LeaseSpec(
            holder_identity=state.context,
            lease_duration_seconds=int(DURATION.total_seconds()),
            renew_time=snapshot.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        ),
    )
    return Plan(
        desired=(Desired(renewed, where, ownership=Shared()),),
        requeue_after=RENEWAL_INTERVAL,
    )


def unseen_contexts(snapshot: Snapshot) -> list[str]:
    """The contexts of the sites that are not synced now."""
    return [context_of(s) for s in snapshot.clusters(Role.SITE) if not snapshot.synced(s)]


def leader_sees(leading: Leading, snapshot: Snapshot) -> Believes:
    """A function: whether the cluster of a context is synced here, in the leader's cluster."""

    def believes(context: str) -> bool:
        """Whether the cluster of a context is synced here."""
        return snapshot.synced(snapshot.local if context == leading.context else site_of(context))

    return believes


def leader_word(service: GlobalService, snapshot: Snapshot) -> Believes:
    """A function: whether a name server here trusts what the leader says about a context.

    It does while the leader's Lease is fresh, of the service's term or a later one, and does not
    list the context as unseen.
    """
    lease = snapshot.get(snapshot.local, Lease, LEADER_LEASE, NAMESPACE)
    fact = snapshot.fact(LeaseFreshness, (snapshot.local, NAMESPACE, LEADER_LEASE))
    if lease is None or fact is None or not fact.fresh:
        return lambda _: False
    term, written = leader_term(lease), leader_term(service)
    if term is None or (written is not None and term < written):
        return lambda _: False
    unseen = frozenset(lease.metadata.annotations.get(UNSEEN, "").split(","))
    return lambda context: context not in unseen


def _plan_unchanged(current: Lease | None, where: ClusterId) -> Plan:
    """A plan that keeps the Lease as it is; empty if there is none."""
    desired = (
        ()
        if current is None
        else (Desired(without_server_metadata(current), where, ownership=Shared()),)
    )
    return Plan(desired=desired)


def _has_annotations(lease: Lease, annotations: dict[str, str]) -> bool:
    """Whether a Lease has all these annotations."""
    own = lease.metadata.annotations
    return all(own.get(name) == value for name, value in annotations.items())


def _age(lease: Lease | None, now: datetime) -> timedelta:
    """How long ago a Lease was renewed; `timedelta.max` if never, or by a clock ahead of ours."""
    renewed = lease.renewed if lease is not None else None
    age = now - renewed if renewed is not None else None
    return age if age is not None and age >= timedelta(0) else timedelta.max
