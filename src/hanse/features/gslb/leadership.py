"""Who leads: the stages from this cluster's AMKOCluster to its valid followers.

A leader has a term with a number, its epoch, written on its AMKOCluster and on all that it copies.
Whoever sees a later epoch than its own has been superseded, however late it wakes up.
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
    LED_BY,
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
from hanse.model.facts import ClusterState, InvalidConnection, Phase, Role
from hanse.model.kinds.apiextensions import CustomResourceDefinition
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
_TELLING: tuple[type[Object], ...] = (AMKOCluster, GSLBConfig, GlobalDeploymentPolicy)
"""What tells of terms; host rules may be many, and say no more."""


class Undecided(Struct, frozen=True):
    """Too little was seen yet to say anything: all stays as it is."""


class NotLeading(Struct, frozen=True):
    """This cluster does not lead, or may not act on it: all stays as it is."""

    conditions: tuple[StageCondition, ...] = ()
    context: str = ""


class StartingTerm(Struct, frozen=True):
    """This cluster leads from now on: its term must be written down before anything else."""

    epoch: int


class Leading(Struct, frozen=True):
    """This cluster leads; copies go to the followers that passed every stage."""

    context: str
    epoch: int
    followers: tuple[ClusterId, ...]
    conditions: tuple[StageCondition, ...]
    """Up to the stage where it was found who may follow."""
    federates: bool = True
    """Whether there is anybody to go on with."""

    @property
    def mark(self) -> str:
        """What copies say of who wrote them."""
        return f"{self.epoch}/{self.context}"


LeaderState: TypeAlias = Undecided | NotLeading | StartingTerm | Leading


class LeaderTerm(Struct, frozen=True, order=True):
    """A leader's term, as copies tell of it."""

    epoch: int
    context: str


class _Findings(Struct, frozen=True):
    """What a stage found: who passed, and what is wrong with the others."""

    passed: tuple[ClusterId, ...]
    faults: tuple[str, ...]

    def condition(self, stage: str, good: str, bad: str, some: str) -> StageCondition:
        if not self.faults:
            return StageCondition(type=stage, status=good)
        status = some if self.passed else bad
        return StageCondition(type=stage, status=status, reason=", ".join(self.faults))


def local_amko_cluster(snapshot: Snapshot) -> AMKOCluster | None:
    """This cluster's word on who leads, where there is exactly one."""
    several = list(snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE))
    return several[0] if len(several) == 1 else None


def leader_state(snapshot: Snapshot) -> LeaderState:
    """Go through the stages as far as they lead."""
    own = local_amko_cluster(snapshot)
    if own is None:
        fault = _fault_in_number(snapshot)
        return NotLeading((_current(INVALID, fault),) if fault else ())
    if not own.spec.is_leader:
        return NotLeading((_current(NOT_FEDERATING, NO_LEADER),), own.spec.cluster_context)
    if fault := _fault_of(own):
        return NotLeading((_current(INVALID, fault),), own.spec.cluster_context)
    if not snapshot.listed(snapshot.local, CustomResourceDefinition):
        return Undecided()
    if fault := lost_parent_message(snapshot):
        return NotLeading((_current(INVALID, fault),), own.spec.cluster_context)
    if fault := _fault_in_context(own, snapshot):
        return NotLeading((_current(INVALID, fault),), own.spec.cluster_context)
    sites = follower_sites(own)
    if any(_is_unknown(site, snapshot) for site in sites):
        return Undecided()
    return _over(own, sites, snapshot)


def _over(own: AMKOCluster, sites: tuple[ClusterId, ...], snapshot: Snapshot) -> LeaderState:
    clients = _clients(sites, snapshot)
    first = (
        _current(VALID),
        clients.condition(CLIENTS, ALL_CLIENTS, NO_CLIENTS, SOME_CLIENTS),
    )
    context = own.spec.cluster_context
    rivals = [site for site in clients.passed if _leads(site, snapshot)]
    if rivals:
        faults = ", ".join(
            f"AMKO in cluster {context_of(site)} is also a leader, conflicting state"
            for site in rivals
        )
        told = StageCondition(type=MEMBERS, status=NO_MEMBERS, reason=faults)
        return NotLeading((*first, told), context)
    epoch = parse_epoch(own.metadata.annotations.get(TERM, ""))
    latest = latest_term(own, clients.passed, snapshot)
    if not epoch or (_outranks(latest, epoch, context) and _has_stepped_down(latest, snapshot)):
        return StartingTerm(latest.epoch + 1)
    if _outranks(latest, epoch, context):
        fault = (
            f"cluster {latest.context} leads since epoch {latest.epoch}, after this cluster's "
            f"epoch {epoch}; set isLeader to false here, or promote this cluster again"
        )
        told = StageCondition(type=MEMBERS, status=NO_MEMBERS, reason=fault)
        return NotLeading((*first, told), context)
    if sites and not clients.passed:
        return Leading(context, epoch, (), first, federates=False)
    members = _valid(own, clients.passed, snapshot)
    told = members.condition(MEMBERS, ALL_MEMBERS, NO_MEMBERS, SOME_MEMBERS)
    goes_on = bool(members.passed) or not members.faults
    return Leading(context, epoch, members.passed, (*first, told), federates=goes_on)


def follower_sites(own: AMKOCluster) -> tuple[ClusterId, ...]:
    """The clusters that are to follow, in the order they are named, without this one."""
    named = dict.fromkeys(own.spec.clusters)
    return tuple(site_of(name) for name in named if name != own.spec.cluster_context)


def misplaced_amko_clusters(snapshot: Snapshot) -> Iterator[AMKOCluster]:
    """AMKOClusters in namespaces where they have no say."""
    for found in snapshot.all(snapshot.local, AMKOCluster):
        if found.metadata.namespace != NAMESPACE:
            yield found


def misplaced_amko_condition(found: AMKOCluster) -> StageCondition:
    """What is told of an AMKOCluster that is in the wrong namespace."""
    where = found.metadata.namespace
    return _current(INVALID, f"namespace must be {NAMESPACE}, not {where}; create it there")


def leader_term(obj: Object) -> LeaderTerm | None:
    """Whose copy an object is; None where it is nobody's."""
    epoch, slash, context = obj.metadata.annotations.get(LED_BY, "").partition("/")
    return LeaderTerm(int(epoch), context) if slash and epoch.isdecimal() else None


def latest_term(own: AMKOCluster, sites: Iterable[ClusterId], snapshot: Snapshot) -> LeaderTerm:
    """The last term that anything we can see was written in."""
    found = [
        LeaderTerm(parse_epoch(own.metadata.annotations.get(TERM, "")), own.spec.cluster_context)
    ]
    for where in (snapshot.local, *sites):
        for kind in _TELLING:
            found += [t for o in snapshot.all(where, kind) if (t := leader_term(o)) is not None]
        if where != snapshot.local:
            found += [
                LeaderTerm(parse_epoch(other.metadata.annotations.get(TERM, "")), context_of(where))
                for other in snapshot.in_namespace(where, AMKOCluster, NAMESPACE)
            ]
    return max(found, key=lambda term: (term.epoch, term.context != own.spec.cluster_context))


def _outranks(latest: LeaderTerm, epoch: int, context: str) -> bool:
    return latest.epoch > epoch or (latest.epoch == epoch and latest.context != context)


def _has_stepped_down(latest: LeaderTerm, snapshot: Snapshot) -> bool:
    """Whether the one who led last is there to be seen, and follows."""
    site = site_of(latest.context)
    if not snapshot.synced(site):
        return False
    several = list(snapshot.in_namespace(site, AMKOCluster, NAMESPACE))
    return bool(several) and not any(one.spec.is_leader for one in several)


def _leads(site: ClusterId, snapshot: Snapshot) -> bool:
    several = snapshot.in_namespace(site, AMKOCluster, NAMESPACE)
    return any(one.spec.is_leader for one in several)


def _is_unknown(site: ClusterId, snapshot: Snapshot) -> bool:
    """Whether it is still to be found out if a cluster can be reached."""
    if snapshot.fact(InvalidConnection, (CONNECTION_SOURCE, site)) is not None:
        return False
    state = snapshot.fact(ClusterState, site)
    return state is None or (state.phase is Phase.CONNECTING and not state.listed)


def _clients(sites: Iterable[ClusterId], snapshot: Snapshot) -> _Findings:
    passed: list[ClusterId] = []
    faults: list[str] = []
    for site in sites:
        bad = snapshot.fact(InvalidConnection, (CONNECTION_SOURCE, site))
        state = snapshot.fact(ClusterState, site)
        if bad is not None:
            faults.append(f"cluster {context_of(site)}: {bad.message}")
        elif state is None or not snapshot.synced(site):
            why = state.reason.split(": ", 1)[-1] if state is not None else "it is not connected"
            faults.append(f"cluster {context_of(site)} cannot be reached: {why}")
        else:
            passed.append(site)
    return _Findings(tuple(passed), tuple(faults))


def _valid(own: AMKOCluster, sites: Iterable[ClusterId], snapshot: Snapshot) -> _Findings:
    passed: list[ClusterId] = []
    faults: list[str] = []
    for site in sites:
        fault = _fault_of_member(own, site, snapshot)
        if fault:
            faults.append(fault)
        else:
            passed.append(site)
    return _Findings(tuple(passed), tuple(faults))


def _fault_of_member(own: AMKOCluster, site: ClusterId, snapshot: Snapshot) -> str:
    name = context_of(site)
    several = list(snapshot.in_namespace(site, AMKOCluster, NAMESPACE))
    if not several:
        return f"no AMKOCluster object present in cluster {name}, can't federate"
    if len(several) > 1:
        return f"more than one AMKOCluster objects present in cluster {name}, can't federate"
    theirs, ours = several[0].spec.version, own.spec.version
    if theirs != ours:
        return f"version mismatch, current AMKO: {ours}, AMKO in cluster {name}: {theirs}"
    return ""


def _fault_in_number(snapshot: Snapshot) -> str:
    if any(True for _ in snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE)):
        return "more than one AMKOCluster objects present in the current cluster, can't federate"
    return ""


def _fault_of(own: AMKOCluster) -> str:
    spec = own.spec
    if not spec.cluster_context:
        return "clusterContext is empty; set it to the context of this cluster"
    if "," in spec.cluster_context:
        return "clusterContext must have no comma; rename the context"
    if not spec.version:
        return "version is empty; set it to the version of AMKO in this cluster"
    return ""


def _fault_in_context(own: AMKOCluster, snapshot: Snapshot) -> str:
    """Whether another context than the one that is told leads here; it would follow itself."""
    for site in snapshot.clusters(Role.SITE):
        several = snapshot.in_namespace(site, AMKOCluster, NAMESPACE)
        if any(one.metadata.uid == own.metadata.uid for one in several):
            told, real = own.spec.cluster_context, context_of(site)
            return (
                f"clusterContext is {told}, but context {real} leads to this cluster; set it to "
                f"{real}"
            )
    return ""


def _current(status: str, reason: str = "") -> StageCondition:
    return StageCondition(type=CURRENT, status=status, reason=reason)


def parse_epoch(text: str) -> int:
    """The number of a term as it is written down; 0 where none is."""
    return int(text) if text.isdecimal() else 0
