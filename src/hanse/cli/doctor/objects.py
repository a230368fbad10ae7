"""Findings from the objects in clusters, alone and between clusters; pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_network
from itertools import combinations
from typing import Any

from hanse import __version__
from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.guards import check_guards, check_old_policies
from hanse.cli.doctor.heartbeats import check_heartbeats
from hanse.cli.doctor.lists import (
    ACCEPTANCE,
    DEPLOYMENTS,
    RANGES,
    SECRETS,
    SLICES,
    has_member_leases,
    our_webhooks,
)
from hanse.cli.doctor.name_servers import check_name_servers
from hanse.cli.doctor.node_guards import check_node_guards
from hanse.cli.doctor.tokens import check_tokens
from hanse.cli.doctor.updates import VERSION, minor_version, update_agent_command
from hanse.cli.fleet import ClusterRead, contexts_of
from hanse.features.admission.configuration import NAME as WEBHOOKS_NAME
from hanse.features.networks.ranges import overlaps, parse_range
from hanse.model.findings import Ref
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Node, Secret
from hanse.model.kinds.discovery import KUBE_SERVICE
from hanse.model.kinds.federation import SUPERVISOR, SYSTEM, Federation
from hanse.model.kinds.networks import Network
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE, holder_cluster
from hanse.model.objects import ClusterId
from hanse.model.tokens import parse_claims

MAX_SUPERVISORS = 5
AGENT_SKEW = timedelta(minutes=1)
"""From when on the clock of an agent is wrong: renewals may arrive late."""
TOKEN_SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a type, no token


def check_objects(clusters: Sequence[ClusterRead], now: datetime) -> list[Finding]:
    """The findings of all checks over `clusters`, those between clusters last.

    Failed readings have to be left out by the caller.
    """
    contexts = contexts_of(clusters)
    alone = [finding for read in clusters for check in _CLUSTER_CHECKS for finding in check(read)]
    alone += [f for read in clusters for check in _LINK_CHECKS for f in check(read, contexts)]
    stale = [f for read in clusters for f in _expired_leases(read, contexts, now)]
    stale += [finding for read in clusters for finding in _wrong_agent_clock(read, now)]
    stale += [finding for read in clusters for finding in check_tokens(read, now)]
    stale += [finding for read in clusters for finding in check_node_guards(read, now)]
    together = [finding for check in _FLEET_CHECKS for finding in check(clusters)]
    return [*alone, *stale, *together]


# -- one cluster


def _expired_leases(
    read: ClusterRead, contexts: Mapping[ClusterId, str], now: datetime
) -> Iterator[Finding]:
    """LeaderMissing: a Lease in `SYSTEM` that has a holder ran out more than a minute ago.

    One finding for each such Lease.
    """
    for lease in read.objects(Lease):
        silence = read.silence(lease, now, timedelta(minutes=1))
        if lease.namespace == SYSTEM and silence is not None:
            holder, seconds = lease.spec.holder_identity, int(silence.total_seconds())
            supervisor = holder_cluster(holder)
            yield Finding(
                read.context,
                f"nobody leads {lease.name}: {holder} has not renewed its Lease for {seconds} s",
                f"kubectl --context {contexts.get(supervisor, supervisor)} -n {SYSTEM_NAMESPACE} "
                f"rollout restart deployment/{AGENT}",
                "LeaderMissing",
                Ref("Lease", lease.name, SYSTEM),
                pasteable=True,
                advice=f"or start the agent of another supervisor that reaches {read.context}",
            )


def _wrong_agent_clock(read: ClusterRead, now: datetime) -> Iterator[Finding]:
    """ClockSkew: a live agent's clock differs by `AGENT_SKEW` or more from its API server's."""
    lease = read.agent_lease
    if lease is None or not read.has_live_agent(now) or abs(lease.clock_skew) < AGENT_SKEW:
        return
    direction = "ahead of" if lease.clock_skew > timedelta(0) else "behind"
    minutes = abs(lease.clock_skew) // timedelta(minutes=1)
    yield Finding(
        read.context,
        f"the clock of its agent is {minutes} min {direction} its API server's: the agent renews "
        "tokens and certificates at the wrong time, and conditions have wrong times",
        "synchronise the clock of the machine that runs the agent, e.g. `timedatectl set-ntp true`",
        "ClockSkew",
        Ref("Lease", lease.name, lease.namespace),
    )


def _unserved_webhooks(read: ClusterRead) -> Iterator[Finding]:
    """WebhookDown: webhook configurations whose Service hanse* has no ready endpoint.

    An endpoint whose readiness is not set counts as ready, as for Kubernetes. At most one finding
    per configuration, and none where slices could not be listed.
    """
    if SLICES not in read.lists:
        return
    ready = {
        slice_.metadata.labels.get(KUBE_SERVICE)
        for slice_ in read.listed(SLICES)
        if any(endpoint.conditions.ready is not False for endpoint in slice_.endpoints or ())
    }
    reported = set()
    for configuration, webhook, service in our_webhooks(read):
        kind = type(configuration).kind
        subject = Ref(kind.name, configuration.name)
        if service in ready or subject in reported:
            continue
        reported.add(subject)
        is_agents = configuration.name == WEBHOOKS_NAME
        yield Finding(
            read.context,
            f"webhook {webhook} has no ready endpoints behind {service}",
            (is_agents and _serve_webhooks_command(read))
            or f"kubectl --context {read.context} delete {kind.name.lower()} {configuration.name}",
            "WebhookDown",
            subject,
            pasteable=True,
            of_agent=is_agents,
        )


def _serve_webhooks_command(read: ClusterRead) -> str:
    """The command that restarts the agent, or scales it up from zero; empty without an agent.

    The agent is the Deployment of its name in hanse-system, if that was listed.
    """
    agent = next((one for one in read.listed(DEPLOYMENTS) if one.name == AGENT), None)
    if agent is None:
        return ""
    again = "rollout restart" if agent.spec.replicas else "scale --replicas=1"
    return f"kubectl --context {read.context} -n {SYSTEM_NAMESPACE} {again} deployment/{AGENT}"


def _overlapping_networks(read: ClusterRead) -> Iterator[Finding]:
    """RangesOverlap: a Network's Service range overlaps a node's pod range or address.

    One finding for each such range, with the first node.
    """
    nodes = read.objects(Node)
    named = [(f"range {c} of pods on node {n.name}", c) for n in nodes for c in n.spec.pod_cidrs]
    named += [
        (f"address {one.address} of node {node.name}", one.address)
        for node in nodes
        for one in node.status.addresses
        if one.type in ("InternalIP", "ExternalIP")
    ]
    theirs = [(text, range_) for text, c in named if (range_ := parse_range(c)) is not None]
    for network in read.objects(Network):
        for cidr in network.spec.service.cidrs:
            own = parse_range(cidr)
            clash = next((w for w, r in theirs if own is not None and overlaps(own, r)), "")
            if clash:
                yield Finding(
                    read.context,
                    f"network {network.name}: spec.service.cidrs: {cidr} overlaps {clash}, so its "
                    "Services and those hide each other",
                    f"create a network with another range, and delete {network.name}",
                    "RangesOverlap",
                    Ref("Network", network.name),
                )


def _unexpiring_tokens(read: ClusterRead, contexts: Mapping[ClusterId, str]) -> Iterator[Finding]:
    """TokenUnending: Secrets of members in Federations whose token has no expiry."""
    wanted = {
        member.secret: (member.cluster_id, federation.name)
        for federation in read.objects(Federation)
        for member in federation.spec.members
    }
    for secret in read.listed(SECRETS):
        if secret.name in wanted and _is_unexpiring(secret):
            member, federation = wanted[secret.name]
            yield Finding(
                read.context,
                f"the token for {member} in Secret {SYSTEM}/{secret.name} never ends",
                f"hanse join --federation {federation} --cluster-id {member} "
                f"--context {contexts.get(member, member)} --supervisor {read.context}",
                "TokenUnending",
                Ref("Secret", secret.name, SYSTEM),
                pasteable=True,
            )


def _is_unexpiring(secret: Secret) -> bool:
    """Whether a Secret is of the type of service account tokens, or its token has no expiry claim.

    False for a token that cannot be decoded.
    """
    if secret.type == TOKEN_SECRET_TYPE:
        return True
    claims = parse_claims(secret.data.get("token", b"").decode("ascii", "replace").strip())
    return claims is not None and claims.expires is None


def _unreadable_acceptance(read: ClusterRead) -> Iterator[Finding]:
    """AcceptanceUnreadable: AcceptancePolicies that cannot be decoded as their kind."""
    listed = read.lists.get(ACCEPTANCE)
    for policy in listed.unreadable if listed is not None else ():
        yield Finding(
            read.context,
            f"AcceptancePolicy {policy.name} cannot be read, so that its last version or the "
            f"defaults count: {policy.reason}",
            f"kubectl --context {read.context} edit acceptancepolicy {policy.name}",
            "AcceptanceUnreadable",
            Ref("AcceptancePolicy", policy.name),
        )


# -- several clusters


def _overlapping_clusters(clusters: Sequence[ClusterRead]) -> Iterator[Finding]:
    """RangesOverlap: pairs of clusters whose pod or Service ranges overlap, one finding per pair.

    Nothing if any cluster is a broker with members' Leases: its ClusterMembers tell ranges then.
    """
    if has_member_leases(clusters):
        return
    ranges = {read.context: [*_cluster_ranges(read)] for read in clusters}
    for one, other in combinations(ranges, 2):
        shared = next(
            (
                (a, b)
                for a in ranges[one]
                for b in ranges[other]
                if a.version == b.version and a.overlaps(b)
            ),
            None,
        )
        if shared is not None:
            yield Finding(
                one,
                f"its range {shared[0]} overlaps {shared[1]} of {other}",
                "give clusters ranges of their own, or use Globalnet; in profile kep-1645 service "
                "ranges may overlap, pod ranges may not",
                "RangesOverlap",
                Ref("ClusterRange", f"{one}-{other}"),
            )


def _cluster_ranges(read: ClusterRead) -> Iterator[Any]:
    """The networks of ServiceCIDRs and of nodes' podCIDRs; none for a cluster without nodes."""
    nodes = read.objects(Node)
    if not nodes:
        return  # a cluster without nodes uses no addresses
    cidrs = (c for item in read.listed(RANGES) for c in item.spec.cidrs)
    yield from (ip_network(cidr, strict=False) for cidr in cidrs)
    yield from (ip_network(c, strict=False) for node in nodes for c in node.spec.pod_cidrs)


def _too_many_supervisors(clusters: Sequence[ClusterRead]) -> Iterator[Finding]:
    """TooManySupervisors: in over `MAX_SUPERVISORS` clusters a Federation's status has members.

    One finding, which proposes to remove the last of them.
    """
    supervising = [
        read.context
        for read in clusters
        if any(one.status.members for one in read.objects(Federation))
    ]
    if len(supervising) > MAX_SUPERVISORS:
        yield Finding(
            supervising[-1],
            f"{len(supervising)} clusters supervise the federation; {MAX_SUPERVISORS} are plenty",
            f"kubectl --context {supervising[-1]} delete clusterclaim {SUPERVISOR}",
            "TooManySupervisors",
            Ref("ClusterClaim", SUPERVISOR),
            pasteable=True,
        )


def _version_skew(clusters: Sequence[ClusterRead]) -> Iterator[Finding]:
    """VersionSkew: an agent, by the label of its Deployment, if any, is too far from others.

    That is more than one minor version from this program, or older by more than one than another
    agent; another major version; or one that cannot be parsed. Within that, releases work together.
    """
    agents = [
        (read, one, version)
        for read in clusters
        for one in read.listed(DEPLOYMENTS)
        if one.name == AGENT and (version := one.metadata.labels.get(VERSION, ""))
    ]
    known = {"this": __version__}
    if agents:
        newest, _, theirs = max(agents, key=lambda agent: minor_version(agent[2]) or ())
        known[f"that of {newest.context}"] = theirs
    for read, one, version in agents:
        far = next((other for other in known if _is_far(version, known[other])), "")
        if far:
            update = update_agent_command(read.context, one)
            yield Finding(
                read.context,
                f"its agent is version {version}, and {far} is {known[far]}",
                update or f"update this program to {version}",
                "VersionSkew",
                Ref("Deployment", AGENT, SYSTEM_NAMESPACE),
                pasteable=bool(update),
            )


def _is_far(version: str, other: str) -> bool:
    """Whether the major versions differ, or the minor ones by more than one.

    True also if one of the versions cannot be parsed.
    """
    one, two = minor_version(version), minor_version(other)
    return one is None or two is None or one[0] != two[0] or abs(one[1] - two[1]) > 1


_CLUSTER_CHECKS: tuple[Callable[[ClusterRead], Iterable[Finding]], ...] = (
    _unreadable_acceptance,
    _unserved_webhooks,
    check_name_servers,
    _overlapping_networks,
    check_old_policies,
)
_LINK_CHECKS: tuple[Callable[[ClusterRead, Mapping[ClusterId, str]], Iterable[Finding]], ...] = (
    check_heartbeats,
    _unexpiring_tokens,
    check_guards,
)
"""Checks whose remedies name other clusters than the one that is checked, by their contexts."""
_FLEET_CHECKS: tuple[Callable[[Sequence[ClusterRead]], Iterable[Finding]], ...] = (
    _overlapping_clusters,
    _too_many_supervisors,
    _version_skew,
)
