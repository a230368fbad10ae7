"""The decision about a global service: its members from all clusters that the policy matches."""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.aliases import list_aliases
from hanse.features.gslb.backends import (
    find_backends,
    find_source,
    list_objects_for,
    merge_backends,
)
from hanse.features.gslb.configuration import (
    InvalidConfiguration,
    find_host_rule,
    list_deployment_policies,
    read_deployment_policy,
    rule_error,
)
from hanse.features.gslb.health import service_status
from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.leader_lease import leader_sees
from hanse.features.gslb.leadership import Leading
from hanse.features.gslb.mapping import local_names
from hanse.features.gslb.members import ClusterBackends, build_members
from hanse.features.gslb.names import LED_BY, context_of, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.owners import (
    MAX_REFUSED,
    ClusterClaims,
    decide_owners,
    is_gone_everywhere,
    list_refused,
)
from hanse.features.gslb.selectors import is_selected
from hanse.model.facts import ClusterState, Phase
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
)
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBHostRuleSpec,
    MatchCluster,
)
from hanse.model.objects import ClusterId, Meta, Object
from hanse.model.snapshot import Snapshot


class Unchanged(Struct, frozen=True):
    """Members and shares stay as they are, because the configuration is invalid."""

    reason: str


class ServedHost(Struct, frozen=True):
    """The desired service, and the load balancer names that are looked up for it."""

    spec: GlobalServiceSpec
    names: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class NoMembers(Struct, frozen=True):
    """The host has no members; it may have some once these names are looked up.

    Others may claim it: then its owners stay on record.
    """

    names: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


HostDecision: TypeAlias = ServedHost | Unchanged | NoMembers


def decide_host(
    host: str, leading: Leading, snapshot: Snapshot, options: GslbOptions
) -> HostDecision:
    """The service of a host by policy, rule and the objects of its owners in matched clusters.

    Claims of other namespaces are in `refused`. Unchanged if the policy is invalid, or the rule of
    a host that has a service; without a policy, if a follower still has one. An invalid rule of a
    new host is ignored. NoMembers without any member, or any policy; an unobserved cluster keeps
    its members and aliases, by a follower's copy where this cluster has lost the service.
    """
    named_monitors = options.probes
    policy = read_deployment_policy(snapshot, named_monitors=named_monitors)
    if policy is None:
        message = remaining_policy_message(leading, snapshot)
        return Unchanged(message) if message else NoMembers()
    if isinstance(policy, InvalidConfiguration):
        return Unchanged(policy.error)
    current = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
    rule = find_host_rule(host, snapshot)
    if rule is not None and (error := rule_error(rule, snapshot, named_monitors=named_monitors)):
        if current is not None:
            return Unchanged(error)
        rule = None
    claims = {
        match.cluster: _cluster_claims(host, match, policy, leading, snapshot)
        for match in policy.match_clusters
    }
    known = known_service(host, leading, snapshot)
    seen = [None if claims[c] is None else cluster_of_context(c, leading, snapshot) for c in claims]
    owners = decide_owners(
        rule, known, claims, lambda name: is_gone_everywhere(name, seen, snapshot)
    )
    clusters = [
        _cluster_backends(match, claims[match.cluster], owners, leading, snapshot)
        for match in policy.match_clusters
    ]
    names = dict.fromkeys(
        b.primary.hostname for c in clusters for b in c.backends or () if b.primary.hostname
    )
    members = tuple(build_members(clusters, policy, rule, known, snapshot))
    refused = tuple(list_refused(claims, owners))[:MAX_REFUSED]
    if not members:
        return NoMembers(tuple(names), refused)
    spec = _service_spec(host, members, policy, rule.spec if rule is not None else None)
    aliases = list_aliases(host, owners, [where for where in seen if where is not None], snapshot)
    if known is not None and None in seen:  # an unobserved cluster keeps what it gave
        aliases = tuple(sorted({*aliases, *known.spec.aliases}))
    return ServedHost(replace(spec, owners=owners, aliases=aliases), tuple(names), refused)


def known_service(host: str, leading: Leading, snapshot: Snapshot) -> GlobalService | None:
    """The service of a host here, else a follower's copy that is not withdrawn; else None."""
    current = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
    return current or _follower_copy(host, leading, snapshot)


def _follower_copy(host: str, leading: Leading, snapshot: Snapshot) -> GlobalService | None:
    """The first follower's copy of a host's service that is not withdrawn; None without any.

    Unobserved followers are skipped.
    """
    for where in leading.followers:
        copy = snapshot.get(where, GlobalService, host, NAMESPACE)
        if copy is not None and not is_withdrawn(copy) and not is_unobserved(where, snapshot):
            return copy
    return None


def remaining_policy_message(leading: Leading, snapshot: Snapshot) -> str:
    """The message if a follower still has a policy, which may be lost here; else empty."""
    for where in leading.followers:
        for copy in snapshot.in_namespace(where, GlobalDeploymentPolicy, NAMESPACE):
            return f"cluster {context_of(where)} still has policy {copy.metadata.name}"
    return ""


def refresh_readiness(
    service: GlobalService, leading: Leading, snapshot: Snapshot
) -> GlobalServiceSpec:
    """The service's spec with only the readiness of its members updated.

    That of third parties and of clusters with syncVipOnly stays, and that of members without a
    source or in an unobserved cluster.
    """
    matches = [
        match
        for policy in list_deployment_policies(snapshot)
        for match in policy.spec.match_clusters
    ]
    by_probes = {match.cluster for match in matches if match.sync_vip_only}
    members = tuple(
        member
        if member.third_party or member.cluster in by_probes
        else replace(member, ready=_is_ready(member, service.spec.host, leading, snapshot))
        for member in service.spec.members
    )
    return replace(service.spec, members=members)


def _is_ready(member: GlobalMember, host: str, leading: Leading, snapshot: Snapshot) -> bool:
    """Whether a member's source has a ready endpoint behind the member's address or host name.

    The member's present `ready` without a source or if the cluster is unobserved; False if the
    source is gone, is being deleted, or no longer has that address or name.
    """
    where = cluster_of_context(member.cluster, leading, snapshot)
    if not member.source or is_unobserved(where, snapshot):
        return member.ready
    source = find_source(member.source, where, snapshot)
    if source is None or source.metadata.deletion_timestamp is not None:
        return False
    merged = merge_backends(
        backend
        for local in local_names(host, where, snapshot)
        for backend in find_backends(source, local, where, snapshot)
    )
    return any(
        m.primary.ready
        for m in merged
        if m.primary.address == member.address
        or (m.primary.hostname and m.primary.hostname == member.hostname)
    )


def cluster_of_context(context: str, leading: Leading, snapshot: Snapshot) -> ClusterId:
    """The cluster id for a context: the local one for the leader's own, else that of a site."""
    return snapshot.local if context == leading.context else site_of(context)


def build_global_service(
    spec: GlobalServiceSpec, refused: tuple[str, ...], leading: Leading, snapshot: Snapshot
) -> GlobalService:
    """The GlobalService of this spec, annotated with the leader's term, with a newly judged status.

    Health before is that of the service here; `refused` goes into the status.
    """
    current = snapshot.get(snapshot.local, GlobalService, spec.host, NAMESPACE)
    meta = Meta(name=spec.host, namespace=NAMESPACE, annotations={LED_BY: leading.term_annotation})
    status = service_status(spec, current, leader_sees(leading, snapshot), snapshot)
    status = replace(status, refused=refused)
    return GlobalService(metadata=meta, spec=spec, status=status)


def _service_spec(
    host: str,
    members: tuple[GlobalMember, ...],
    policy: GlobalDeploymentPolicySpec,
    rule: GSLBHostRuleSpec | None,
) -> GlobalServiceSpec:
    """The spec of a service without owners and aliases, in which the rule overrides the policy.

    A fallback for unknown locations brings its own hash mask; it is ignored if the algorithm is a
    consistent hash itself.
    """
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


def _cluster_claims(
    host: str,
    match: MatchCluster,
    policy: GlobalDeploymentPolicySpec,
    leading: Leading,
    snapshot: Snapshot,
) -> ClusterClaims | None:
    """The objects of a matched cluster that claim a host; None if the cluster is unobserved."""
    where = cluster_of_context(match.cluster, leading, snapshot)
    if is_unobserved(where, snapshot):
        return None
    return tuple(_list_claims(host, policy, where, snapshot))


def _cluster_backends(
    match: MatchCluster,
    claims: ClusterClaims | None,
    owners: tuple[str, ...],
    leading: Leading,
    snapshot: Snapshot,
) -> ClusterBackends:
    """The merged backends of a matched cluster in `owners`; its `backends` None if unobserved."""
    if claims is None:
        return ClusterBackends(match, None)
    where = cluster_of_context(match.cluster, leading, snapshot)
    found = [
        backend
        for local, obj in claims
        if obj.metadata.namespace in owners
        for backend in find_backends(obj, local, where, snapshot)
    ]
    return ClusterBackends(match, tuple(merge_backends(found)))


def _list_claims(
    host: str, policy: GlobalDeploymentPolicySpec, where: ClusterId, snapshot: Snapshot
) -> Iterator[tuple[str, Object]]:
    """The objects of one cluster that a policy selects for a host, each with its local name.

    Objects that are being deleted are left out.
    """
    for local in local_names(host, where, snapshot):
        for obj in list_objects_for(local, policy.default_domain, where, snapshot):
            if obj.metadata.deletion_timestamp is None and is_selected(
                obj, policy, where, snapshot
            ):
                yield local, obj


def is_unobserved(where: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a cluster is unknown, was never listed in full, or was just restored.

    One that is merely unreachable counts as observed, with its objects as last seen.
    """
    state = snapshot.fact(ClusterState, where)
    if state is None or not state.listed:
        return True
    return state.recovering or state.phase is Phase.RESTORED
