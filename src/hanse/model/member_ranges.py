"""The address ranges of members: which are known, and whose addresses would arrive elsewhere.

An address of another cluster that lies in the ranges of this one reaches our own pods or Services,
or nothing. So a cluster imports none; it judges that by its own ranges alone, whatever others say.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from itertools import combinations

from msgspec import Struct

from hanse.model.kinds.core import Node
from hanse.model.kinds.federation import Federation
from hanse.model.kinds.hanse import ClusterMember, ClusterSetSpec, MemberRanges
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.kinds.submariner import GlobalIngressIP
from hanse.model.objects import ClusterId
from hanse.model.ownership import OWNER
from hanse.model.snapshot import ObjectChange, Snapshot

Range = IPv4Network | IPv6Network

MAX_PODS, MAX_SERVICES = 64, 16
"""The most ranges that a record keeps of each sort."""


class Overlap(Struct, frozen=True):
    """Two members whose addresses are mistaken for each other's."""

    one: ClusterId
    other: ClusterId
    ranges: tuple[str, str]
    """A range of each."""


@lru_cache(maxsize=4096)
def parse_range(text: str) -> Range | None:
    """The network of a CIDR, whose host bits may be set; None if it is invalid."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def discovered_ranges(snapshot: Snapshot) -> MemberRanges | None:
    """The local cluster's ranges, by its nodes' podCIDRs and its ServiceCIDRs.

    None until both kinds are listed or known not to be served. Empty under Globalnet
    (GlobalIngressIP is served): other clusters use other addresses then. At most MAX_PODS and
    MAX_SERVICES ranges, joined where possible, without those of tenants' networks.
    """
    local = snapshot.local
    if not all(snapshot.listed_or_unserved(local, kind) for kind in (Node, ServiceCIDR)):
        return None
    if snapshot.serves(local, GlobalIngressIP) is True:
        return MemberRanges()
    pods = (
        cidr
        for node in snapshot.all(local, Node)
        for cidr in node.spec.pod_cidrs or (node.spec.pod_cidr,)
    )
    services = (
        cidr
        for one in snapshot.all(local, ServiceCIDR)
        if OWNER not in one.metadata.labels  # those of tenants' networks are not the cluster's
        for cidr in one.spec.cidrs
    )
    return MemberRanges(
        pods=_collapsed_ranges(pods)[:MAX_PODS], services=_collapsed_ranges(services)[:MAX_SERVICES]
    )


def _collapsed_ranges(cidrs: Iterable[str]) -> tuple[str, ...]:
    """The fewest ranges that have the same addresses, IPv4 first; invalid ones are ignored."""
    found = [parsed for cidr in cidrs if (parsed := parse_range(cidr)) is not None]
    fourth = collapse_addresses(one for one in found if isinstance(one, IPv4Network))
    sixth = collapse_addresses(one for one in found if isinstance(one, IPv6Network))
    return (*map(str, fourth), *map(str, sixth))


def stated_ranges(member: ClusterId, snapshot: Snapshot) -> MemberRanges:
    """The ranges that a member states in the status of its Federations; empty if it states none."""
    stated = [one.status.ranges for one in snapshot.all(member, Federation)]
    return MemberRanges(
        pods=tuple(text for ranges in stated for text in ranges.pods),
        services=tuple(text for ranges in stated for text in ranges.services),
    )


def member_ranges(record: ClusterMember, rules: ClusterSetSpec) -> MemberRanges:
    """The ranges that the ClusterSet names for a member, as pods; or else those of its record."""
    for settings in rules.clusters:
        if settings.id == record.metadata.name and settings.ranges:
            return MemberRanges(pods=settings.ranges)
    return record.spec.ranges


def own_ranges(
    snapshot: Snapshot, broker: ClusterId, namespace: str, rules: ClusterSetSpec
) -> tuple[str, ...]:
    """All ranges of the local cluster, by `member_ranges`; none while the broker has no record."""
    record = snapshot.get(broker, ClusterMember, snapshot.local, namespace)
    return _all_ranges(record, rules) if record is not None else ()


def misled_clusters(
    snapshot: Snapshot, broker: ClusterId, namespace: str, rules: ClusterSetSpec, *, as_pods: bool
) -> tuple[ClusterId, ...]:
    """Other members whose ranges overlap those that this cluster publishes addresses of; sorted.

    They do not import these. `as_pods` compares our ranges of pods, else those of Services, or of
    pods if those are unknown. Members that have left are skipped; empty without a record of our
    own.
    """
    own = snapshot.get(broker, ClusterMember, snapshot.local, namespace)
    if own is None:
        return ()
    known = member_ranges(own, rules)
    published = known.pods if as_pods else known.services or known.pods
    return tuple(
        sorted(
            one.metadata.name
            for one in snapshot.all(broker, ClusterMember)
            if one.metadata.name != snapshot.local
            and not one.has_left
            and _first_overlap(published, _all_ranges(one, rules)) is not None
        )
    )


def _all_ranges(record: ClusterMember, rules: ClusterSetSpec) -> tuple[str, ...]:
    """The ranges of a member by `member_ranges`: those of pods, then those of Services."""
    known = member_ranges(record, rules)
    return (*known.pods, *known.services)


def overlaps_of(members: Iterable[ClusterMember], rules: ClusterSetSpec) -> Iterator[Overlap]:
    """The pairs of members of which one publishes addresses that lie in the ranges of the other.

    Members that have left are skipped. Services' addresses count as published only if the endpoint
    source is `serviceIPs`; else the ranges of Services may be the same everywhere.
    """
    known = {one.metadata.name: member_ranges(one, rules) for one in members if not one.has_left}
    yield from overlapping(known, services=rules.endpoint_source == "serviceIPs")


def overlapping(known: Mapping[ClusterId, MemberRanges], *, services: bool) -> Iterator[Overlap]:
    """Each pair of clusters, by name, of which one publishes addresses in the ranges of the other.

    They publish addresses of pods, and with `services` of Services, too. An Overlap has the first
    two ranges that overlap.
    """

    def published(ranges: MemberRanges) -> tuple[str, ...]:
        """The ranges whose addresses a cluster publishes."""
        return (*ranges.pods, *(ranges.services if services else ()))

    for (one, ranges), (other, others) in combinations(sorted(known.items()), 2):
        there = _first_overlap(published(ranges), (*others.pods, *others.services))
        here = _first_overlap((*ranges.pods, *ranges.services), published(others))
        if (found := there or here) is not None:
            yield Overlap(one, other, found)


def changes_ranges(change: ObjectChange) -> bool:
    """Whether a node or a ServiceCIDR has other ranges than before; False for other kinds.

    An object that appears or is deleted counts, unless it is a ServiceCIDR without ranges.
    """
    return _ranges_of(change.before) != _ranges_of(change.after)


def _ranges_of(obj: object) -> tuple[str, ...]:
    """The ranges of a node (an empty text if it has none) or ServiceCIDR; none of anything else."""
    match obj:
        case Node():
            return obj.spec.pod_cidrs or (obj.spec.pod_cidr,)
        case ServiceCIDR():
            return obj.spec.cidrs
        case _:
            return ()


def _first_overlap(ones: Iterable[str], others: tuple[str, ...]) -> tuple[str, str] | None:
    """The first range of each side that share an address; None if none do."""
    pairs = ((one, other) for one in ones for other in others if _overlap(one, other))
    return next(pairs, None)


@lru_cache(maxsize=65536)
def _overlap(one: str, other: str) -> bool:
    """Whether two ranges share an address; False for different families and invalid ranges."""
    first, second = parse_range(one), parse_range(other)
    if isinstance(first, IPv4Network):
        return isinstance(second, IPv4Network) and first.overlaps(second)
    return (
        isinstance(first, IPv6Network)
        and isinstance(second, IPv6Network)
        and first.overlaps(second)
    )
