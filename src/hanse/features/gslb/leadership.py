"""Which cluster leads: the stages from this cluster's AMKOCluster to its valid followers.

A leader's term has a number, its epoch, which it writes to its AMKOCluster and to every copy. A
leader that observes a later epoch than its own is superseded, however late it restarts.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from hanse.features.gslb.deletion import lost_parent_message
from hanse.features.gslb.names import (
    ALL_CLIENTS,
    ALL_MEMBERS,
    CLIENTS,
    CURRENT,
    INVALID,
    LEADER_LEASE,
    MEMBERS,
    NO_CLIENTS,
    NO_LEADER,
    NO_MEMBERS,
    NOT_FEDERATING,
    SOME_CLIENTS,
    SOME_MEMBERS,
    TERM,
    VALID,
    context_of,
    site_of,
)
from hanse.features.gslb.terms import LeaderTerm, leader_term, parse_epoch
from hanse.model.facts import ClusterState, InvalidConnection, Phase, Role
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    StageCondition,
)
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Snapshot

CONNECTION_SOURCE = "gslb"
_KINDS_WITH_TERM: tuple[type[Object], ...] = (AMKOCluster, GSLBConfig, GlobalDeploymentPolicy)
"""The kinds whose copies are searched for terms; host rules may be many, and add nothing."""


class Undecided(Struct, frozen=True):
    """Too little is observed yet: nothing is changed."""


class NotLeading(Struct, frozen=True):
    """This cluster follows, is invalid or is superseded: nothing is changed."""

    conditions: tuple[StageCondition, ...] = ()
    context: str = ""


class StartingTerm(Struct, frozen=True):
    """This cluster becomes the leader: its epoch must be written before anything else."""

    epoch: int


class Leading(Struct, frozen=True):
    """This cluster leads: the configuration is copied to the followers that passed every stage."""

    context: str
    epoch: int
    followers: tuple[ClusterId, ...]
    conditions: tuple[StageCondition, ...]
    """Of the stages up to the validation of members."""
    federates: bool = True
    """Whether any follower is valid, or none is configured."""

    @property
    def term_annotation(self) -> str:
        """`<epoch>/<context>`, the value of the annotation on copies that names their leader."""
        return f"{self.epoch}/{self.context}"


LeaderState: TypeAlias = Undecided | NotLeading | StartingTerm | Leading


class _StageResult(Struct, frozen=True):
    """The result of a stage: the clusters that passed, and the errors of the others."""

    passed: tuple[ClusterId, ...]
    errors: tuple[str, ...]

    def condition(self, stage: str, good: str, bad: str, some: str) -> StageCondition:
        """The condition of a stage: `good` without errors, `bad` if none passed, else `some`.

        The errors are its reason.
        """
        if not self.errors:
            return StageCondition(type=stage, status=good)
        status = some if self.passed else bad
        return StageCondition(type=stage, status=status, reason=", ".join(self.errors))


def local_amko_cluster(snapshot: Snapshot) -> AMKOCluster | None:
    """The AMKOCluster of this cluster in the GSLB namespace; None if there are none or several."""
    amko_clusters = list(snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE))
    return amko_clusters[0] if len(amko_clusters) == 1 else None


def leader_state(snapshot: Snapshot) -> LeaderState:
    """Evaluate the stages of AMKO federation by the snapshot, up to the first that fails.

    Undecided while CRDs are not listed here or a follower is connecting for the first time.
    NotLeading has the conditions to report: of several AMKOClusters, of one that is invalid or has
    no isLeader, of a lost namespace or CRD, or of a follower; none without an AMKOCluster.
    """
    local = local_amko_cluster(snapshot)
    if local is None:
        error = _count_error(snapshot)
        return NotLeading((_current_condition(INVALID, error),) if error else ())
    if not local.spec.is_leader:
        return NotLeading(
            (_current_condition(NOT_FEDERATING, NO_LEADER),), local.spec.cluster_context
        )
    if error := _spec_error(local):
        return NotLeading((_current_condition(INVALID, error),), local.spec.cluster_context)
    if not snapshot.listed(snapshot.local, CustomResourceDefinition):
        return Undecided()
    if error := lost_parent_message(snapshot):
        return NotLeading((_current_condition(INVALID, error),), local.spec.cluster_context)
    if error := _context_error(local, snapshot):
        return NotLeading((_current_condition(INVALID, error),), local.spec.cluster_context)
    sites = follower_sites(local)
    if any(_is_connecting(site, snapshot) for site in sites):
        return Undecided()
    return _evaluate_followers(local, sites, snapshot)


def traffic_state(snapshot: Snapshot) -> Leading | NotLeading | Undecided:
    """Whether this cluster writes global services: with isLeader, and an epoch that is the latest.

    Undecided as in `leader_state`; NotLeading, too, with a lost namespace or CRD, or a wrong
    context. AMKO's versions and conflicts do not matter here. Followers are all reached clusters of
    the federation set that serve the kind; of two leaders with the same epoch the first by context
    leads.
    """
    local = local_amko_cluster(snapshot)
    if local is None or not local.spec.is_leader or not local.spec.cluster_context:
        return NotLeading()
    if not snapshot.listed(snapshot.local, CustomResourceDefinition):
        return Undecided()
    if lost_parent_message(snapshot) or _context_error(local, snapshot):
        return NotLeading()
    sites = follower_sites(local)
    if any(_is_connecting(site, snapshot) for site in sites):
        return Undecided()
    context = local.spec.cluster_context
    epoch = parse_epoch(local.metadata.annotations.get(TERM, ""))
    reached = _check_connections(sites, snapshot).passed
    latest = latest_term(local, reached, snapshot)
    if not epoch or latest.epoch > epoch or (latest.epoch == epoch and latest.context < context):
        return NotLeading(context=context)
    followers = tuple(site for site in reached if snapshot.listed(site, GlobalService))
    return Leading(context, epoch, followers, ())


def _evaluate_followers(
    local: AMKOCluster, sites: tuple[ClusterId, ...], snapshot: Snapshot
) -> LeaderState:
    """The stages that concern followers: NotLeading if one of them claims to lead, or led later.

    StartingTerm, one epoch after the latest, without an epoch, or if the later leader has stepped
    down, or was this cluster itself before it was restored. Else Leading, which does not federate
    if no follower is reached, or all that are have errors.
    """
    clients = _check_connections(sites, snapshot)
    first = (
        _current_condition(VALID),
        clients.condition(CLIENTS, ALL_CLIENTS, NO_CLIENTS, SOME_CLIENTS),
    )
    context = local.spec.cluster_context
    other_leaders = [site for site in clients.passed if _claims_leadership(site, snapshot)]
    if other_leaders:
        errors = ", ".join(
            f"AMKO in cluster {context_of(site)} is also a leader, conflicting state"
            for site in other_leaders
        )
        condition = StageCondition(type=MEMBERS, status=NO_MEMBERS, reason=errors)
        return NotLeading((*first, condition), context)
    epoch = parse_epoch(local.metadata.annotations.get(TERM, ""))
    latest = latest_term(local, clients.passed, snapshot)
    terms = (latest, *_terms_of_leases(clients.passed, snapshot))
    ended = [
        term
        for term in terms
        if _is_superseded_by(term, epoch, context)
        and (term.context == context or _has_stepped_down(term, snapshot))
    ]
    if not epoch or ended:
        return StartingTerm(max(term.epoch for term in (ended if epoch else terms)) + 1)
    if _is_superseded_by(latest, epoch, context):
        error = (
            f"cluster {latest.context} leads since epoch {latest.epoch}, after this cluster's "
            f"epoch {epoch}; set isLeader to false here, or promote this cluster again"
        )
        condition = StageCondition(type=MEMBERS, status=NO_MEMBERS, reason=error)
        return NotLeading((*first, condition), context)
    if sites and not clients.passed:
        return Leading(context, epoch, (), first, federates=False)
    members = _check_members(local, clients.passed, snapshot)
    condition = members.condition(MEMBERS, ALL_MEMBERS, NO_MEMBERS, SOME_MEMBERS)
    federates = bool(members.passed) or not members.errors
    return Leading(context, epoch, members.passed, (*first, condition), federates=federates)


def follower_sites(local: AMKOCluster) -> tuple[ClusterId, ...]:
    """The configured followers in their order, without this cluster."""
    named = dict.fromkeys(local.spec.clusters)
    return tuple(site_of(name) for name in named if name != local.spec.cluster_context)


def misplaced_amko_clusters(snapshot: Snapshot) -> Iterator[AMKOCluster]:
    """AMKOClusters of this cluster outside of the GSLB namespace, where they have no effect."""
    for found in snapshot.all(snapshot.local, AMKOCluster):
        if found.metadata.namespace != NAMESPACE:
            yield found


def misplaced_amko_condition(found: AMKOCluster) -> StageCondition:
    """The condition of an AMKOCluster that is in the wrong namespace."""
    where = found.metadata.namespace
    return _current_condition(
        INVALID, f"namespace must be {NAMESPACE}, not {where}; create it there"
    )


def latest_term(local: AMKOCluster, sites: Iterable[ClusterId], snapshot: Snapshot) -> LeaderTerm:
    """The latest term annotated on AMKOClusters, GSLBConfigs and policies here and in the sites.

    Among equal epochs another leader's is preferred.
    """
    found = [
        LeaderTerm(
            parse_epoch(local.metadata.annotations.get(TERM, "")), local.spec.cluster_context
        )
    ]
    for where in (snapshot.local, *sites):
        for kind in _KINDS_WITH_TERM:
            copies = snapshot.in_namespace(where, kind, NAMESPACE)
            found += [t for copy in copies if (t := leader_term(copy)) is not None]
        if where != snapshot.local:
            found += [
                LeaderTerm(parse_epoch(other.metadata.annotations.get(TERM, "")), context_of(where))
                for other in snapshot.in_namespace(where, AMKOCluster, NAMESPACE)
            ]
    return max(found, key=lambda term: (term.epoch, term.context != local.spec.cluster_context))


def _terms_of_leases(sites: Iterable[ClusterId], snapshot: Snapshot) -> Iterator[LeaderTerm]:
    """The terms of the leader's Leases here and in the sites.

    A term may have left nothing else but global services, where what it replicated was restored to
    a state before it.
    """
    for where in (snapshot.local, *sites):
        term = leader_term(snapshot.get(where, Lease, LEADER_LEASE, NAMESPACE))
        if term is not None:
            yield term


def _is_superseded_by(latest: LeaderTerm, epoch: int, context: str) -> bool:
    """Whether the latest term has a later epoch, or the same epoch and another leader."""
    return latest.epoch > epoch or (latest.epoch == epoch and latest.context != context)


def _has_stepped_down(latest: LeaderTerm, snapshot: Snapshot) -> bool:
    """Whether the latest leader's cluster is synced and has AMKOClusters, none with isLeader."""
    site = site_of(latest.context)
    if not snapshot.synced(site):
        return False
    amko_clusters = list(snapshot.in_namespace(site, AMKOCluster, NAMESPACE))
    return bool(amko_clusters) and not any(amko.spec.is_leader for amko in amko_clusters)


def _claims_leadership(site: ClusterId, snapshot: Snapshot) -> bool:
    """Whether any AMKOCluster of a site says that it leads."""
    amko_clusters = snapshot.in_namespace(site, AMKOCluster, NAMESPACE)
    return any(amko.spec.is_leader for amko in amko_clusters)


def _is_connecting(site: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a site has no state yet, or connects for the first time; False if it is invalid."""
    if snapshot.fact(InvalidConnection, (CONNECTION_SOURCE, site)) is not None:
        return False
    state = snapshot.fact(ClusterState, site)
    return state is None or (state.phase is Phase.CONNECTING and not state.listed)


def _check_connections(sites: Iterable[ClusterId], snapshot: Snapshot) -> _StageResult:
    """The stage of connections: synced sites pass, each other one gives an error."""
    passed: list[ClusterId] = []
    errors: list[str] = []
    for site in sites:
        bad = snapshot.fact(InvalidConnection, (CONNECTION_SOURCE, site))
        state = snapshot.fact(ClusterState, site)
        if bad is not None:
            errors.append(f"cluster {context_of(site)}: {bad.message}")
        elif state is None or not snapshot.synced(site):
            why = unreached_reason(state) if state is not None else "it is not connected"
            errors.append(f"cluster {context_of(site)} cannot be reached: {why}")
        else:
            passed.append(site)
    return _StageResult(tuple(passed), tuple(errors))


def unreached_reason(state: ClusterState) -> str:
    """The reason in a site's state, without the kind that was asked for at its beginning.

    It is whole if the site rejects our credentials or forbids us to read.
    """
    if state.rejected or state.forbidden:
        return state.reason
    return state.reason.split(": ", 1)[-1]


def _check_members(
    local: AMKOCluster, sites: Iterable[ClusterId], snapshot: Snapshot
) -> _StageResult:
    """The stage that validates members: passed by those with one AMKOCluster of our version."""
    passed: list[ClusterId] = []
    errors: list[str] = []
    for site in sites:
        error = _member_error(local, site, snapshot)
        if error:
            errors.append(error)
        else:
            passed.append(site)
    return _StageResult(tuple(passed), tuple(errors))


def _member_error(local: AMKOCluster, site: ClusterId, snapshot: Snapshot) -> str:
    """The error of a follower without exactly one AMKOCluster of our version; else empty."""
    name = context_of(site)
    amko_clusters = list(snapshot.in_namespace(site, AMKOCluster, NAMESPACE))
    if not amko_clusters:
        return f"no AMKOCluster object present in cluster {name}, can't federate"
    if len(amko_clusters) > 1:
        return f"more than one AMKOCluster objects present in cluster {name}, can't federate"
    theirs, ours = amko_clusters[0].spec.version, local.spec.version
    if theirs != ours:
        return f"version mismatch, current AMKO: {ours}, AMKO in cluster {name}: {theirs}"
    return ""


def _count_error(snapshot: Snapshot) -> str:
    """The error for several AMKOClusters, empty for none; called when there is not exactly one."""
    if any(True for _ in snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE)):
        return "more than one AMKOCluster objects present in the current cluster, can't federate"
    return ""


def _spec_error(local: AMKOCluster) -> str:
    """The error of an empty version or context, or of a comma in the context; else empty."""
    spec = local.spec
    if not spec.cluster_context:
        return "clusterContext is empty; set it to the context of this cluster"
    if "," in spec.cluster_context:
        return "clusterContext must have no comma; rename the context"
    if not spec.version:
        return "version is empty; set it to the version of AMKO in this cluster"
    return ""


def _context_error(local: AMKOCluster, snapshot: Snapshot) -> str:
    """The error if a site is this cluster itself under another context than its own; else empty."""
    for site in snapshot.clusters(Role.SITE):
        amko_clusters = snapshot.in_namespace(site, AMKOCluster, NAMESPACE)
        if any(amko.metadata.uid == local.metadata.uid for amko in amko_clusters):
            configured, real = local.spec.cluster_context, context_of(site)
            return (
                f"clusterContext is {configured}, but context {real} leads to this cluster; set it "
                f"to {real}"
            )
    return ""


def _current_condition(status: str, reason: str = "") -> StageCondition:
    """The condition of the stage that says whether this cluster's AMKOCluster is used."""
    return StageCondition(type=CURRENT, status=status, reason=reason)
