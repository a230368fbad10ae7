"""Findings from the objects in clusters, alone and between clusters; pure."""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_network
from itertools import combinations
from typing import Any

import msgspec

from hanse import __version__
from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.guards import check_guards
from hanse.cli.doctor.heartbeats import check_heartbeats, lease_silence
from hanse.cli.doctor.lists import ClusterLists
from hanse.features.networks.ranges import overlaps, parse_range
from hanse.model.findings import Ref
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.federation import SUPERVISOR, SYSTEM
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE, ZONE
from hanse.model.tokens import parse_claims

NEARLY_FULL = 0.9
MAX_SUPERVISORS = 5
TOKEN_SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a type, no token
VERSION = "app.kubernetes.io/version"


def check_objects(clusters: Sequence[ClusterLists], now: datetime) -> list[Finding]:
    """The findings of all clusters, alone and together."""
    alone = [finding for lists in clusters for check in _CLUSTER_CHECKS for finding in check(lists)]
    stale = [finding for lists in clusters for finding in _expired_leases(lists, now)]
    silent = [f for lists in clusters for f in check_heartbeats(lists)]
    together = [finding for check in _FLEET_CHECKS for finding in check(clusters)]
    return [*silent, *alone, *stale, *together]


# -- one cluster


def _expired_leases(lists: ClusterLists, now: datetime) -> Iterator[Finding]:
    """LeaderMissing: a leader's Lease was not renewed for a minute longer than its duration."""
    for lease in lists["leases"]:
        silence = lease_silence(lease, now, timedelta(minutes=1))
        if silence is not None:
            name, holder = lease["metadata"]["name"], lease["spec"]["holderIdentity"]
            seconds = int(silence.total_seconds())
            yield Finding(
                lists.name,
                f"nobody leads {name}: {holder} has not renewed its Lease for {seconds} s",
                f"start the agent of a supervisor that reaches {lists.name}",
                "LeaderMissing",
                Ref("Lease", name, SYSTEM),
            )


def _unserved_webhooks(lists: ClusterLists) -> Iterator[Finding]:
    """WebhookDown: webhook configurations whose Service hanse* has no ready endpoint.

    One that does not say is ready, as for Kubernetes. At most one finding per configuration.
    """
    ready = {
        slice_["metadata"].get("labels", {}).get("kubernetes.io/service-name")
        for slice_ in lists["slices"]
        if any(
            (endpoint.get("conditions") or {}).get("ready") is not False
            for endpoint in slice_.get("endpoints") or ()
        )
    }
    for kind in ("validating", "mutating"):
        for configuration in lists[kind]:
            for webhook in configuration.get("webhooks") or ():
                service = (webhook.get("clientConfig") or {}).get("service") or {}
                name = service.get("name", "")
                if name.startswith("hanse") and name not in ready:
                    yield Finding(
                        lists.name,
                        f"webhook {webhook['name']} has no ready endpoints behind {name}",
                        f"kubectl --context {lists.name} delete {kind}webhookconfiguration "
                        f"{_name(configuration)}",
                        "WebhookDown",
                        Ref(f"{kind.capitalize()}WebhookConfiguration", _name(configuration)),
                        pasteable=True,
                    )
                    break


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def _unforwarded_zone(lists: ClusterLists) -> Iterator[Finding]:
    """ZoneNotDelegated: hanse-dns is deployed, and CoreDNS's Corefile does not name our zone."""
    serves = any(one["metadata"]["name"] == "hanse-dns" for one in lists["deployments"])
    corefiles = [
        text
        for one in lists["corefile"]
        if one["metadata"]["name"] == "coredns"
        for text in (one.get("data") or {}).values()
    ]
    if serves and corefiles and not any(ZONE in text for text in corefiles):
        yield Finding(
            lists.name,
            f"the cluster's DNS does not hand {ZONE} over",
            f"add to its Corefile what `hanse dns corefile ADDRESS` prints, with the address of "
            f"`kubectl --context {lists.name} -n hanse-system get service hanse-dns`",
            "ZoneNotDelegated",
            Ref("ConfigMap", "coredns", "kube-system"),
        )


def _overlapping_networks(lists: ClusterLists) -> Iterator[Finding]:
    """RangesOverlap: a Network's Service range overlaps a node's pod range or address."""
    theirs = [
        (f"range {cidr} of pods on node {node['metadata']['name']}", range_)
        for node in lists["nodes"]
        for cidr in node.get("spec", {}).get("podCIDRs") or ()
        if (range_ := parse_range(cidr)) is not None
    ]
    theirs += [
        (f"address {message['address']} of node {node['metadata']['name']}", range_)
        for node in lists["nodes"]
        for message in node.get("status", {}).get("addresses") or ()
        if message.get("type") in ("InternalIP", "ExternalIP")
        and (range_ := parse_range(message["address"])) is not None
    ]
    for network in lists["networks"]:
        for cidr in network.get("spec", {}).get("service", {}).get("cidrs") or ():
            own = parse_range(cidr)
            clash = next((w for w, r in theirs if own is not None and overlaps(own, r)), "")
            if clash:
                name = network["metadata"]["name"]
                yield Finding(
                    lists.name,
                    f"network {name}: spec.service.cidrs: {cidr} overlaps {clash}, so its Services "
                    "and those hide each other",
                    f"create a network with another range, and delete {name}",
                    "RangesOverlap",
                    Ref("Network", name),
                )


def _unexpiring_tokens(lists: ClusterLists) -> Iterator[Finding]:
    """TokenUnending: Secrets of members in Federations whose token has no expiry."""
    wanted = {
        member.get("secret"): (member.get("clusterID", "?"), federation["metadata"]["name"])
        for federation in lists["federations"]
        for member in federation.get("spec", {}).get("members") or ()
    }
    for secret in lists["secrets"]:
        name = secret["metadata"]["name"]
        if name in wanted and _is_unexpiring(secret):
            member, federation = wanted[name]
            yield Finding(
                lists.name,
                f"the token for {member} in Secret {SYSTEM}/{name} never ends",
                f"hanse join --federation {federation} --cluster-id {member} --context {member} "
                f"--supervisor {lists.name}",
                "TokenUnending",
                Ref("Secret", name, SYSTEM),
                pasteable=True,
            )


def _is_unexpiring(secret: dict[str, Any]) -> bool:
    """Whether a Secret is of the type of service account tokens, or its token has no expiry claim.

    False for a token that cannot be decoded.
    """
    if secret.get("type") == TOKEN_SECRET_TYPE:
        return True
    try:
        token = b64decode((secret.get("data") or {}).get("token", "")).decode("ascii", "replace")
    except ValueError:
        return False
    claims = parse_claims(token.strip())
    return claims is not None and claims.expires is None


def _unreadable_acceptance(lists: ClusterLists) -> Iterator[Finding]:
    """AcceptanceUnreadable: AcceptancePolicies that cannot be decoded as their kind."""
    for policy in lists["acceptance"]:
        try:
            msgspec.convert(policy, AcceptancePolicy)
        except msgspec.ValidationError as error:
            name = policy["metadata"]["name"]
            yield Finding(
                lists.name,
                f"AcceptancePolicy {name} cannot be read, so that its last version or the "
                f"defaults count: {error}",
                f"kubectl --context {lists.name} edit acceptancepolicy {name}",
                "AcceptanceUnreadable",
                Ref("AcceptancePolicy", name),
            )


# -- several clusters


def _overlapping_clusters(clusters: Sequence[ClusterLists]) -> Iterator[Finding]:
    """RangesOverlap: pairs of clusters whose pod or Service ranges overlap, one finding per pair.

    Nothing if any cluster is a broker with members' Leases: its ClusterMembers tell ranges then.
    """
    if any(lists["heartbeats"] for lists in clusters):
        return
    ranges = {lists.name: [*_cluster_ranges(lists)] for lists in clusters}
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


def _cluster_ranges(lists: ClusterLists) -> Iterator[Any]:
    """The networks of ServiceCIDRs and of nodes' podCIDRs; none for a cluster without nodes."""
    if not lists["nodes"]:
        return  # a cluster without nodes uses no addresses
    for item in lists["ranges"]:
        yield from (ip_network(c, strict=False) for c in item.get("spec", {}).get("cidrs") or ())
    for node in lists["nodes"]:
        yield from (ip_network(c, strict=False) for c in node.get("spec", {}).get("podCIDRs") or ())


def _too_many_supervisors(clusters: Sequence[ClusterLists]) -> Iterator[Finding]:
    """TooManySupervisors: in over `MAX_SUPERVISORS` clusters a Federation's status has members."""
    supervising = [
        lists.name
        for lists in clusters
        if any(one.get("status", {}).get("members") for one in lists["federations"])
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


def _version_skew(clusters: Sequence[ClusterLists]) -> Iterator[Finding]:
    """VersionSkew: the version label of an agent's Deployment is too far from this program's.

    That is more than one minor version, another major version, or one that cannot be parsed.
    """
    versions = {
        lists.name: one["metadata"].get("labels", {}).get(VERSION, "")
        for lists in clusters
        for one in lists["deployments"]
        if _name(one) == AGENT
    }
    for name, version in versions.items():
        if version and _minor_versions_between(version, __version__) > 1:
            yield Finding(
                name,
                f"its agent is version {version}, and this is {__version__}",
                f"hanse manifests --cluster-id {name} | kubectl --context {name} apply -f -",
                "VersionSkew",
                Ref("Deployment", AGENT, SYSTEM_NAMESPACE),
                pasteable=True,
            )


def _minor_versions_between(one: str, other: str) -> int:
    """The distance in minor versions; 2 for another major version, or if one cannot be parsed."""
    try:
        (a, b), (c, d) = ([int(n) for n in v.split(".")[:2]] for v in (one, other))
    except ValueError:
        return 2
    return abs(b - d) if a == c else 2


_CLUSTER_CHECKS: tuple[Callable[[ClusterLists], Iterable[Finding]], ...] = (
    _unreadable_acceptance,
    _unserved_webhooks,
    _unforwarded_zone,
    _overlapping_networks,
    _unexpiring_tokens,
    check_guards,
)
_FLEET_CHECKS: tuple[Callable[[Sequence[ClusterLists]], Iterable[Finding]], ...] = (
    _overlapping_clusters,
    _too_many_supervisors,
    _version_skew,
)
