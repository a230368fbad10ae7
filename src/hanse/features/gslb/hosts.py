"""Global services: one for each host name, with members from all matched clusters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.backends import HostBackend, find_backends, find_source, list_objects_for
from hanse.features.gslb.configuration import (
    InvalidConfiguration,
    find_host_rule,
    list_deployment_policies,
    read_deployment_policy,
    read_monitors,
    rule_error,
)
from hanse.features.gslb.health import service_status
from hanse.features.gslb.leadership import Leading
from hanse.features.gslb.mapping import local_names
from hanse.features.gslb.names import CONTROLLER_UUID, LED_BY, context_of, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.model.facts import ClusterState, Phase
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    Monitor,
)
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBHostRule,
    GSLBHostRuleSpec,
    LabelMatch,
    MatchCluster,
)
from hanse.model.objects import ClusterId, Meta, Object, object_ref
from hanse.model.questions import host_lookup
from hanse.model.snapshot import Snapshot

THIRD_PARTY = "third-party"


class Unchanged(Struct, frozen=True):
    """Who serves, and with which part, stays: something that was said makes no sense."""

    why: str


class ServedHost(Struct, frozen=True):
    """Who serves, and the names of load balancers that are looked up for that."""

    spec: GlobalServiceSpec
    names: tuple[str, ...] = ()


class NoMembers(Struct, frozen=True):
    """No member is left; one may come when names are looked up."""

    names: tuple[str, ...] = ()


HostDecision: TypeAlias = ServedHost | Unchanged | NoMembers


class TrafficShare(Struct, frozen=True):
    """A member's part of the traffic."""

    weight: int = 1
    priority: int = 10


def decide_host(
    host: str, leading: Leading, snapshot: Snapshot, options: GslbOptions
) -> HostDecision:
    """What a host is answered with, as the policy, its rule and all clusters have it."""
    named = options.probes
    policy = read_deployment_policy(snapshot, named_monitors=named)
    if policy is None:
        left = _policy_left(leading, snapshot)
        return Unchanged(left) if left else NoMembers()
    if isinstance(policy, InvalidConfiguration):
        return Unchanged(policy.error)
    standing = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
    rule = find_host_rule(host, snapshot)
    if rule is not None and (error := rule_error(rule, snapshot, named_monitors=named)):
        if standing is not None:
            return Unchanged(error)
        rule = None
    brought = [_brought(host, match, policy, leading, snapshot) for match in policy.match_clusters]
    names = dict.fromkeys(f.hostname for b in brought for f in b.found or () if f.hostname)
    members = tuple(_members(brought, policy, rule, standing, snapshot))
    if not members:
        return NoMembers(tuple(names))
    spec = _spec(host, members, policy, rule.spec if rule is not None else None)
    return ServedHost(spec, tuple(names))


def _policy_left(leading: Leading, snapshot: Snapshot) -> str:
    """Why a policy that is gone here may not have been deleted: a follower still has its copy."""
    for where in leading.followers:
        for left in snapshot.in_namespace(where, GlobalDeploymentPolicy, NAMESPACE):
            return f"cluster {context_of(where)} still has policy {left.metadata.name}"
    return ""


def refresh_readiness(
    service: GlobalService, leading: Leading, snapshot: Snapshot
) -> GlobalServiceSpec:
    """A service while what was said of it makes no sense: as it was, but for who is ready now."""
    said = [
        match
        for policy in list_deployment_policies(snapshot)
        for match in policy.spec.match_clusters
    ]
    by_probes = {match.cluster for match in said if match.sync_vip_only}
    members = tuple(
        member
        if member.third_party or member.cluster in by_probes
        else replace(member, ready=_is_ready_now(member, service.spec.host, leading, snapshot))
        for member in service.spec.members
    )
    return replace(service.spec, members=members)


def _is_ready_now(member: GlobalMember, host: str, leading: Leading, snapshot: Snapshot) -> bool:
    """Whether a member's cluster says that it can serve; of what it cannot say, as before."""
    where = cluster_of_context(member.cluster, leading, snapshot)
    if not member.source or is_unobserved(where, snapshot):
        return member.ready
    source = find_source(member.source, where, snapshot)
    if source is None or source.metadata.deletion_timestamp is not None:
        return False
    return any(
        one.ready
        for local in local_names(host, where, snapshot)
        for one in find_backends(source, local, where, snapshot)
        if one.address == member.address or (one.hostname and one.hostname == member.hostname)
    )


def cluster_of_context(context: str, leading: Leading, snapshot: Snapshot) -> ClusterId:
    """The connection to the cluster of a context."""
    return snapshot.local if context == leading.context else site_of(context)


def build_global_service(spec: GlobalServiceSpec, mark: str, snapshot: Snapshot) -> GlobalService:
    """The service as it is written here and on every follower."""
    standing = snapshot.get(snapshot.local, GlobalService, spec.host, NAMESPACE)
    meta = Meta(name=spec.host, namespace=NAMESPACE, annotations={LED_BY: mark})
    return GlobalService(metadata=meta, spec=spec, status=service_status(spec, standing, snapshot))


def _spec(
    host: str,
    members: tuple[GlobalMember, ...],
    policy: GlobalDeploymentPolicySpec,
    rule: GSLBHostRuleSpec | None,
) -> GlobalServiceSpec:
    algorithm = (rule and rule.pool_algorithm_settings) or policy.pool_algorithm_settings
    down = (rule and rule.down_response) or policy.down_response
    ttl = rule.ttl if rule is not None and rule.ttl is not None else policy.ttl
    spec = GlobalServiceSpec(
        host=host,
        members=members,
        ttl=ttl,
        when_down=down.type if down is not None else None,
        fallback_ip=down.fallback_ip if down is not None else "",
    )
    if algorithm is None:
        return spec
    fallback = algorithm.geo_fallback
    mask = algorithm.hash_mask
    if fallback is not None and algorithm.lb_algorithm != "GSLB_ALGORITHM_CONSISTENT_HASH":
        spec = replace(spec, fallback=fallback.lb_algorithm)
        mask = fallback.hash_mask
    return replace(spec, algorithm=algorithm.lb_algorithm, hash_mask=mask)


class _Brought(Struct, frozen=True):
    """What one cluster brings for a host; None where that cannot be seen."""

    match: MatchCluster
    found: tuple[HostBackend, ...] | None


def _brought(
    host: str,
    match: MatchCluster,
    policy: GlobalDeploymentPolicySpec,
    leading: Leading,
    snapshot: Snapshot,
) -> _Brought:
    where = cluster_of_context(match.cluster, leading, snapshot)
    unseen = is_unobserved(where, snapshot)
    return _Brought(match, None if unseen else tuple(_chosen(host, policy, where, snapshot)))


def _members(
    brought: Iterable[_Brought],
    policy: GlobalDeploymentPolicySpec,
    rule: GSLBHostRule | None,
    standing: GlobalService | None,
    snapshot: Snapshot,
) -> Iterator[GlobalMember]:
    shares = _shares(policy, rule)
    public = _public(rule)
    own_monitors = _monitors_said(policy, rule, snapshot)
    generated: tuple[Monitor, ...] = ()
    for one in brought:
        context = one.match.cluster
        share = shares.get(context, TrafficShare())
        if one.found is None:
            yield from _kept(context, standing, share)
            continue
        for found in _placed(one.found, context, standing, snapshot):
            watched = own_monitors
            if watched is None:
                watched = (found.monitor,) if found.monitor is not None else ()
                generated = generated or watched
            yield GlobalMember(
                cluster=context,
                address=found.address,
                hostname=found.hostname,
                public_ip=_public_for(found.address, public.get(context, ())),
                weight=share.weight,
                priority=share.priority,
                ready=found.ready or one.match.sync_vip_only,
                controller_uuid=found.source.metadata.annotations.get(CONTROLLER_UUID, ""),
                source=str(object_ref(found.source)),
                monitors=watched,
            )
    if rule is not None:
        watched = generated if own_monitors is None else own_monitors
        yield from _third_parties(rule.spec, shares, watched)


def _placed(
    several: Sequence[HostBackend], context: str, standing: GlobalService | None, snapshot: Snapshot
) -> Iterator[HostBackend]:
    """The ways in that have an address; a name that cannot be looked up now has those it had."""
    placed = {found.address: found for found in several if found.address}
    yield from placed.values()
    for found in several:
        if found.address or host_lookup(found.hostname, snapshot).addresses is not None:
            continue
        for member in standing.spec.members if standing is not None else ():
            same = (member.cluster, member.hostname) == (context, found.hostname)
            if same and member.address not in placed:
                yield replace(found, address=member.address)


def _chosen(
    host: str, policy: GlobalDeploymentPolicySpec, where: ClusterId, snapshot: Snapshot
) -> list[HostBackend]:
    """The ways in of one cluster, each address once, in an order that does not depend on luck."""
    objects = [
        (obj.metadata.namespace, obj.metadata.name, type(obj).kind.name, local, obj)
        for local in local_names(host, where, snapshot)
        for obj in list_objects_for(local, policy.default_domain, where, snapshot)
        if obj.metadata.deletion_timestamp is None and is_selected(obj, policy, where, snapshot)
    ]
    by_address: dict[tuple[str, str], HostBackend] = {}
    for *_, local, obj in sorted(objects, key=lambda one: one[:4]):
        for found in find_backends(obj, local, where, snapshot):
            place = (found.address, "" if found.address else found.hostname)
            by_address.setdefault(place, found)
    return [by_address[place] for place in sorted(by_address)]


def is_selected(
    obj: Object, policy: GlobalDeploymentPolicySpec, where: ClusterId, snapshot: Snapshot
) -> bool:
    """Whether a policy chooses an object: by its labels and its namespace's, all that are given."""
    rules = policy.match_rules
    if rules.app_selector is None and rules.namespace_selector is None:
        return False
    if not _matches(rules.app_selector, obj.metadata.labels):
        return False
    if rules.namespace_selector is None:
        return True
    home = snapshot.get(where, Namespace, obj.metadata.namespace)
    return home is not None and _matches(rules.namespace_selector, home.metadata.labels)


def _matches(selector: LabelMatch | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return True
    wanted = selector.label.items()
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted)


def is_unobserved(where: ClusterId, snapshot: Snapshot) -> bool:
    """Whether what a cluster lacks says nothing: never read in full, or just restored."""
    state = snapshot.fact(ClusterState, where)
    if state is None or not state.listed:
        return True
    return state.recovering or state.phase is Phase.RESTORED


def _kept(
    context: str, standing: GlobalService | None, share: TrafficShare
) -> Iterator[GlobalMember]:
    """What was known of a cluster that cannot be asked, with its part of the traffic as of now."""
    for member in standing.spec.members if standing is not None else ():
        if member.cluster == context and not member.third_party:
            yield replace(member, weight=share.weight, priority=share.priority)


def _shares(
    policy: GlobalDeploymentPolicySpec, rule: GSLBHostRule | None
) -> dict[str, TrafficShare]:
    shares = {s.cluster: TrafficShare(s.weight, s.priority) for s in policy.traffic_split}
    for said in rule.spec.traffic_split if rule is not None else ():
        before = shares.get(said.cluster, TrafficShare())
        shares[said.cluster] = TrafficShare(
            before.weight if said.weight is None else said.weight,
            before.priority if said.priority is None else said.priority,
        )
    return shares


def _public(rule: GSLBHostRule | None) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for public in rule.spec.public_ip if rule is not None else ():
        found[public.cluster] = (*found.get(public.cluster, ()), public.ip)
    return found


def _public_for(address: str, several: Iterable[str]) -> str:
    """The public address of the same family."""
    return next((ip for ip in several if (":" in ip) == (":" in address)), "")


def _monitors_said(
    policy: GlobalDeploymentPolicySpec, rule: GSLBHostRule | None, snapshot: Snapshot
) -> tuple[Monitor, ...] | None:
    """The monitors that people chose; None where they are made from what is watched."""
    only = policy.control_plane_hm_only
    if rule is not None and rule.spec.control_plane_hm_only is not None:
        only = rule.spec.control_plane_hm_only
    if only:
        return ()
    for spec in (rule.spec if rule is not None else None, policy):
        if spec is not None and (spec.health_monitor_refs or spec.health_monitor_template):
            refs, template = spec.health_monitor_refs, spec.health_monitor_template
            return read_monitors(refs, template, snapshot) or None
    return None


def _third_parties(
    rule: GSLBHostRuleSpec, shares: Mapping[str, TrafficShare], monitors: tuple[Monitor, ...]
) -> Iterator[GlobalMember]:
    for member in rule.third_party_members:
        site = member.site or THIRD_PARTY
        share = shares.get(site, TrafficShare())
        yield GlobalMember(
            cluster=site,
            address=member.vip,
            public_ip=member.public_ip,
            weight=share.weight,
            priority=share.priority,
            third_party=True,
            monitors=monitors,
        )
