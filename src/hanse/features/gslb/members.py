"""The members of a global service: addresses in clusters and elsewhere, and their monitors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.avi import virtual_service_uuid
from hanse.features.gslb.backends import MergedBackend
from hanse.features.gslb.monitors import MonitorChoice, choose_monitors
from hanse.features.gslb.names import CONTROLLER_UUID
from hanse.features.gslb.shares import TrafficShare, traffic_shares
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, Monitor, PathReadiness
from hanse.model.kinds.gslb import (
    GlobalDeploymentPolicySpec,
    GSLBHostRule,
    GSLBHostRuleSpec,
    MatchCluster,
)
from hanse.model.objects import object_ref
from hanse.model.questions import host_lookup
from hanse.model.snapshot import Snapshot

THIRD_PARTY = "third-party"


class ClusterBackends(Struct, frozen=True):
    """The backends of one cluster for a host; None if the cluster is not observed."""

    match: MatchCluster
    backends: tuple[MergedBackend, ...] | None


def build_members(
    clusters: Iterable[ClusterBackends],
    policy: GlobalDeploymentPolicySpec,
    rule: GSLBHostRule | None,
    current: GlobalService | None,
    snapshot: Snapshot,
) -> Iterator[GlobalMember]:
    """All members with shares and monitors; an unobserved cluster keeps its last known ones.

    One for each address: a host name whose lookup fails keeps its last ones. Members of a cluster
    with syncVipOnly are always ready, and kept ones get the present share. A rule overrides the
    policy where it sets something. Its third parties come last, with the monitors of the first
    backend, or with none where only the control plane judges health.
    """
    shares = traffic_shares(policy, rule)
    public = _public_ips(rule)
    chosen = choose_monitors(policy, rule.spec if rule is not None else None, snapshot)
    first: Monitor | None = None
    for cluster in clusters:
        context = cluster.match.cluster
        share = shares.get(context, TrafficShare())
        if cluster.backends is None:
            yield from _last_known_members(context, current, share)
            continue
        for merged in _with_addresses(cluster.backends, context, current, snapshot):
            backend = merged.primary
            first = first or backend.monitor
            yield GlobalMember(
                cluster=context,
                address=backend.address,
                hostname=backend.hostname,
                public_ip=_public_ip_for(backend.address, public.get(context, ())),
                weight=share.weight,
                priority=share.priority,
                ready=backend.ready or cluster.match.sync_vip_only,
                controller_uuid=backend.source.metadata.annotations.get(CONTROLLER_UUID, ""),
                vs_uuid=virtual_service_uuid(backend.source, backend.host),
                control_plane_only=chosen.control_plane_only,
                source=str(object_ref(backend.source)),
                paths=_watched_paths(merged.paths, chosen),
                monitors=chosen.monitors_of(backend.monitor),
            )
    if rule is not None:
        monitors = () if chosen.control_plane_only else chosen.monitors_of(first)
        yield from _third_parties(rule.spec, shares, monitors)


def _watched_paths(
    paths: tuple[PathReadiness, ...], chosen: MonitorChoice
) -> tuple[PathReadiness, ...]:
    """The paths of a member with their monitors; none if there is only one path.

    The first has no monitor of its own, as the member's are for it. If monitors are configured, or
    readiness alone counts, no path has one.
    """
    if len(paths) < 2:
        return ()
    if chosen.monitors or chosen.control_plane_only:
        return tuple(replace(path, monitor=None) for path in paths)
    return (
        replace(paths[0], monitor=None),
        *(replace(p, monitor=next(iter(chosen.monitors_of(p.monitor)), None)) for p in paths[1:]),
    )


def _with_addresses(
    backends: Sequence[MergedBackend],
    context: str,
    current: GlobalService | None,
    snapshot: Snapshot,
) -> Iterator[MergedBackend]:
    """The backends, one for each address.

    One whose host name cannot be looked up now has the addresses of the current members with that
    name; one whose name has no address is left out.
    """
    addressed = {b.primary.address: b for b in backends if b.primary.address}
    yield from addressed.values()
    for backend in backends:
        name = backend.primary.hostname
        if backend.primary.address or host_lookup(name, snapshot).addresses is not None:
            continue
        for member in current.spec.members if current is not None else ():
            same = (member.cluster, member.hostname) == (context, name)
            if same and member.address not in addressed:
                primary = replace(backend.primary, address=member.address)
                yield replace(backend, primary=primary)


def _last_known_members(
    context: str, current: GlobalService | None, share: TrafficShare
) -> Iterator[GlobalMember]:
    """The last known members of an unobserved cluster, with its present share; no third parties."""
    for member in current.spec.members if current is not None else ():
        if member.cluster == context and not member.third_party:
            yield replace(member, weight=share.weight, priority=share.priority)


def _public_ips(rule: GSLBHostRule | None) -> dict[str, tuple[str, ...]]:
    """By cluster, the public IPs of a host rule in their order; empty for None."""
    found: dict[str, tuple[str, ...]] = {}
    for public in rule.spec.public_ip if rule is not None else ():
        found[public.cluster] = (*found.get(public.cluster, ()), public.ip)
    return found


def _public_ip_for(address: str, public_ips: Iterable[str]) -> str:
    """The first public IP of the address' family; empty if there is none."""
    return next((ip for ip in public_ips if (":" in ip) == (":" in address)), "")


def _third_parties(
    rule: GSLBHostRuleSpec, shares: Mapping[str, TrafficShare], monitors: tuple[Monitor, ...]
) -> Iterator[GlobalMember]:
    """The third parties of a host rule as members, with the share of their site.

    Without a site they share as `third-party`.
    """
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
