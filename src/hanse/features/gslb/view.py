"""Global load balancing: hosts, members, weights, health, and who leads."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hanse.features.gslb.avi import REFUSED_USER
from hanse.features.gslb.configuration import SEVERAL
from hanse.features.gslb.configuration_remedy import add_lacking_clusters_remedy
from hanse.features.gslb.health import select_members
from hanse.features.gslb.leaders_view import LEADER
from hanse.features.gslb.names import (
    ALL_CLIENTS,
    ALL_MEMBERS,
    FEDERATED,
    HOSTNAMES,
    NOT_FEDERATING,
    VALID,
)
from hanse.features.gslb.notes import OUTSIDE
from hanse.features.gslb.terms import leader_term
from hanse.model.facts import Role
from hanse.model.findings import (
    Finding,
    Ref,
    Remedy,
    Severity,
    cluster_ref,
    link_ref,
    remedy,
    subject_of,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, MemberHealth
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.object_view import (
    ConditionRule,
    ObjectRule,
    ObjectsView,
    check_conditions,
    object_finding,
)
from hanse.model.objects import ClusterId
from hanse.model.remedies import erase_field_commands, start_pods_commands
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ClusterPart, FeatureItem, state_of
from hanse.model.weights import effective_weights

HEALTHY_STAGES = frozenset({VALID, ALL_CLIENTS, ALL_MEMBERS, FEDERATED, NOT_FEDERATING})
"""The statuses of an AMKOCluster's conditions that are no problem."""


class HostsView:
    """Every host name that is load balanced."""

    name = "gslb"
    reads = (Watch(Role.LOCAL, GlobalService),)

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`namespace/name` of every GlobalService in any cluster."""
        return {_service_key(one) for _, one in snapshot.everywhere(GlobalService)}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The key of a changed GlobalService; none for anything else."""
        if isinstance(change, FactChange) or not isinstance(change.object, GlobalService):
            return ()
        return (_service_key(change.object),)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item of a GlobalService as the first cluster that is reached has it, else any.

        None if no cluster has it. A member of a lost cluster counts as down.
        """
        namespace, _, name = key.partition("/")
        found = ((w, snapshot.get(w, GlobalService, name, namespace)) for w in snapshot.clusters)
        standing = [(where, service) for where, service in found if service is not None]
        if not standing:
            return None
        reached = [one for one in standing if not snapshot.is_lost(one[0])]
        _, service = (reached or standing)[0]
        health = {(h.cluster, h.address): h for h in service.status.members}
        members = service.spec.members
        lost = [m for m in members if snapshot.is_lost(m.cluster)]
        up = [m for m in members if _is_up(m, health) and m not in lost]
        serving = select_members(up)
        findings = tuple(_findings(service, up, lost, health, snapshot))
        return FeatureItem(
            namespace=service.namespace,
            name=service.spec.host,
            state=state_of(findings),
            told=f"{len(up)}/{len(service.spec.members)} up",
            facts=(
                ("Algorithm", _readable_enum(service.spec.algorithm)),
                ("TTL", "" if service.spec.ttl is None else f"{service.spec.ttl} s"),
                ("When all are down", _readable_enum(service.spec.when_down or "")),
                ("Led by", _leader(service)),
                ("Known in", ", ".join(dict.fromkeys(where for where, _ in standing))),
            ),
            parts=tuple(_member_part(m, serving, up=m in up) for m in service.spec.members),
            problems=tuple(
                f"{h.cluster} {h.address} is down: {h.reason}"
                for h in service.status.members
                if not h.up
            ),
            findings=findings,
        )


def _findings(
    service: GlobalService,
    up: Sequence[GlobalMember],
    lost: Sequence[GlobalMember],
    health: "Known",
    snapshot: MultiClusterSnapshot,
) -> Iterator[Finding]:
    """HostDown if no member is up, HostDegraded if some are not; nothing without members.

    It names three that are down, and is caused by the clusters of the lost ones.
    """
    members = service.spec.members
    if not members or len(up) == len(members):
        return
    down = [m for m in members if m not in up]
    reasons = [f"{m.cluster} {m.address}: {_down_reason(m, lost, health)}" for m in down[:3]]
    yield Finding(
        code="HostDegraded" if up else "HostDown",
        severity=Severity.DEGRADED if up else Severity.OUTAGE,
        subject=Ref("GlobalService", service.name, service.namespace),
        summary=f"host {service.spec.host} is known to be up at {len(up)} of {len(members)} "
        f"members: {'; '.join(reasons)}",
        remedy=remedy(
            *(c for m in down if m not in lost for c in _start_commands(m, snapshot)),
            advice="start what serves its address in each cluster that is named",
        ),
        since=min((h.since for h in health.values() if not h.up and h.since), default=None),
        caused_by=tuple(cluster_ref(m.cluster) for m in lost),
    )


def _start_commands(member: GlobalMember, snapshot: MultiClusterSnapshot) -> tuple[str, ...]:
    """The commands that start the pods of a member's Service, or restart those of a ready member.

    None if its source is no Service, or one that is unknown or has no selector.
    """
    kind, _, name = member.source.partition(" ")
    namespace, _, service = name.partition("/")
    if kind != "Service":
        return ()
    return start_pods_commands(member.cluster, namespace, service, snapshot, unready=member.ready)


def _down_reason(member: GlobalMember, lost: Sequence[GlobalMember], health: "Known") -> str:
    """Why a member counts as down: its cluster is lost, its status' reason, or no status."""
    if member in lost:
        return "its cluster is lost, and name servers answer it only while they reach it themselves"
    state = health.get((member.cluster, member.address))
    return state.reason or "it is down" if state is not None else "nobody has tried it yet"


def _leader(service: GlobalService) -> str:
    """`<context>, epoch <epoch>` of the leader that wrote a service; empty without a term."""
    term = leader_term(service)
    return f"{term.context}, epoch {term.epoch}" if term is not None else ""


def _service_key(service: GlobalService) -> str:
    """`NAMESPACE/NAME` of a GlobalService."""
    return f"{service.namespace}/{service.name}"


Known = dict[tuple[str, str], MemberHealth]


def _is_up(member: GlobalMember, health: Known) -> bool:
    """Whether a member is reported as up; without a report it is not."""
    state = health.get((member.cluster, member.address))
    return state is not None and state.up


def _member_part(member: GlobalMember, serving: list[GlobalMember], *, up: bool) -> ClusterPart:
    """A member with its percentage of the serving weight.

    Good if it has a share, idle if it is up without one, else bad.
    """
    weights = effective_weights([one.weight for one in serving])
    weight = weights[serving.index(member)] if member in serving else 0
    share = round(100 * weight / sum(weights)) if weight else 0
    return ClusterPart(
        cluster=member.cluster,
        state="good" if share else "idle" if up else "bad",
        text=f"{member.advertised_address}, weight {member.weight}, priority {member.priority}",
        share=share,
        ready=int(up),
        all=1,
    )


def _readable_enum(name: str) -> str:
    """An enum name in lower case with spaces, without its GSLB prefix."""
    for begin in ("GSLB_ALGORITHM_", "GSLB_SERVICE_DOWN_RESPONSE_"):
        name = name.removeprefix(begin)
    return name.replace("_", " ").lower()


def _check_stages(
    own: AMKOCluster, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """GslbStageFailed for each condition of an AMKOCluster with an unhealthy status.

    Its causes are the clusters that its message names, the links to them, the leader finding, and
    the GSLBConfigs there.
    """
    for one in own.status.conditions:
        if one.status not in HEALTHY_STAGES:
            message = f"{one.type}: {one.reason or one.status}"
            named = [c for c in own.spec.clusters if c in message]
            found = object_finding(
                own,
                where,
                "GslbStageFailed",
                message,
                snapshot,
                mend=remedy(advice="mend what it names; `hanse gslb status` has all stages"),
            )
            causes = _with_causes(found, where, named).caused_by
            yield replace(found, caused_by=(*causes, *_configurations(where, snapshot)))


def _configurations(where: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[Ref, ...]:
    """References to the GSLBConfigs of a cluster, as possible causes of other findings."""
    return tuple(subject_of(one, where) for one in snapshot.all(where, GSLBConfig))


def _with_causes(finding: Finding, where: ClusterId, clusters: Sequence[str]) -> Finding:
    """The finding, caused only by these clusters, the links to them and the leader finding."""
    links = (link_ref(where, one) for one in clusters)
    return replace(finding, caused_by=(*map(cluster_ref, clusters), *links, LEADER))


def _check_configuration(
    one: GSLBConfig, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """ProviderFailed if the GSLBConfig's state is an error; none for one that a follower uses.

    Of several GSLBConfigs the oldest is not reported for being one of several.
    """
    own = (one for one in snapshot.all(where, AMKOCluster) if one.namespace == NAMESPACE)
    follows = any(not one.spec.is_leader for one in own)
    if follows and one.namespace == NAMESPACE:
        return
    if one.status.state.startswith("error: "):
        message = one.status.state.removeprefix("error: ")
        if not (message.startswith(SEVERAL) and _is_oldest(one, where, snapshot)):
            unused = _delete_unused_remedy(one, where, message, snapshot)
            mend = unused or _credentials_remedy(one, where, message, snapshot)
            yield object_finding(one, where, "ProviderFailed", message, snapshot, mend=mend)


def _credentials_remedy(
    one: GSLBConfig, where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> Remedy | None:
    """The remedy if the controller refuses the credentials, to edit their Secret; else None."""
    if REFUSED_USER not in message:
        return None
    leader = one.spec.gslb_leader
    edit = snapshot.kubectl(where, f"edit secret {leader.credentials}", one.namespace)
    return Remedy(
        f"username and password are in Secret {one.namespace}/{leader.credentials}: `{edit}`",
        ask=f"the administrator of the controller {leader.controller_ip}",
    )


def _is_oldest(one: GSLBConfig, where: ClusterId, snapshot: MultiClusterSnapshot) -> bool:
    """Whether a GSLBConfig is the oldest of its cluster in the GSLB namespace: the one to keep."""
    found = (o for o in snapshot.all(where, GSLBConfig) if o.namespace == NAMESPACE)
    oldest = min(
        found, key=lambda o: (o.metadata.creation_timestamp or snapshot.now, o.name), default=None
    )
    return one == oldest


def _delete_unused_remedy(
    one: GSLBConfig | GlobalDeploymentPolicy,
    where: ClusterId,
    message: str,
    snapshot: MultiClusterSnapshot,
) -> Remedy | None:
    """The remedy that deletes an unused object: in a wrong namespace, or one too many of its kind.

    None if the error `message` has another reason.
    """
    kind = type(one).kind
    if not message.startswith((f"{SEVERAL} {kind.name} ", "metadata.namespace: ")):
        return None
    delete = f"delete {kind.plural}.{kind.group} {one.name}"
    return remedy(snapshot.kubectl(where, delete, one.namespace))


def _check_policy(
    one: GlobalDeploymentPolicy, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """GlobalPolicyInvalid by the policy's error; NameUnserved and NotBalanced by its warnings.

    NameUnserved for each warning of a host outside of all zones, NotBalanced once with the first
    three of the others.
    """
    if one.status.error_status:
        error = one.status.error_status
        unused = _delete_unused_remedy(one, where, error, snapshot)
        mend = unused or add_lacking_clusters_remedy(one, where, error, snapshot)
        mend = mend or _erase_field_remedy(one, where, error, snapshot)
        found = object_finding(one, where, "GlobalPolicyInvalid", error, snapshot, mend=mend)
        yield replace(found, caused_by=_configurations(where, snapshot))
    unserved = [text for text in one.status.warnings if OUTSIDE in text]
    yield from (_unserved_finding(text, where, snapshot) for text in unserved)
    if others := [text for text in one.status.warnings if text not in unserved]:
        text = "; ".join(others[:3])
        mend = _erase_field_remedy(one, where, text, snapshot)
        found = object_finding(
            one, where, "NotBalanced", text, snapshot, severity=Severity.RISK, mend=mend
        )
        yield _with_causes(found, where, [c for c in snapshot.clusters if c in text])


def _unserved_finding(message: str, where: ClusterId, snapshot: MultiClusterSnapshot) -> Finding:
    """NameUnserved for a warning that begins with the host.

    The remedy removes the hostname annotation of the Services that are its members' sources.
    """
    host = message.partition(" ")[0]
    hosts = (one for one in snapshot.all(where, GlobalService) if one.spec.host == host)
    service = next(hosts, None)
    members = service.spec.members if service is not None else ()
    sources = dict.fromkeys((m.cluster, *m.source.partition(" ")[::2]) for m in members)
    commands = (
        snapshot.kubectl(cluster, f"annotate service {name} {HOSTNAMES}-", namespace)
        for cluster, kind, place in sources
        if kind == "Service"
        for namespace, _, name in (place.partition("/"),)
    )
    return Finding(
        code="NameUnserved",
        severity=Severity.DEGRADED,
        subject=Ref("GlobalService", host),
        summary=f"host {message}",
        remedy=remedy(*commands, advice="or start name servers with --global-zone for its zone"),
    )


def _erase_field_remedy(
    one: GlobalDeploymentPolicy | GSLBHostRule,
    where: ClusterId,
    message: str,
    snapshot: MultiClusterSnapshot,
) -> Remedy | None:
    """The remedy that removes the field that an error names; None if it names none."""
    commands = erase_field_commands(one, where, message, snapshot)
    return remedy(*commands, advice="or correct it") if commands else None


def _check_rule(
    one: GSLBHostRule, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """HostRuleRejected by the rule's status; NotBalanced, a risk, by its first three warnings."""
    if one.status.status == "Rejected":
        error = one.status.error
        delete = snapshot.kubectl(where, f"delete gslbhostrule {one.name}", one.namespace)
        mend = (
            remedy(delete, advice="or the other one")
            if error.startswith("spec.fqdn: ")
            else _erase_field_remedy(one, where, error, snapshot)
        )
        yield object_finding(one, where, "HostRuleRejected", error, snapshot, mend=mend)
    if one.status.warnings:
        text = "; ".join(one.status.warnings[:3])
        mend = _erase_field_remedy(one, where, text, snapshot)
        yield object_finding(
            one, where, "NotBalanced", text, snapshot, severity=Severity.RISK, mend=mend
        )


OBJECTS = ObjectsView(
    "gslb-objects",
    (
        ObjectRule(AMKOCluster, _check_stages),
        ObjectRule(GSLBConfig, _check_configuration),
        ObjectRule(GlobalDeploymentPolicy, _check_policy),
        ObjectRule(GSLBHostRule, _check_rule),
        ObjectRule(GlobalService, check_conditions({"Published": ConditionRule("NotPublished")})),
    ),
)
"""Configurations, policies and rules that say themselves what is wrong."""
