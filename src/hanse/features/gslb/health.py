"""Whether members are up: by their cluster's word and by probes; and which probes that takes."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from hanse.features.gslb.backends import SLICES
from hanse.features.gslb.names import SECRET
from hanse.model.facts import Role
from hanse.model.kinds.core import Secret, Service
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    GlobalServiceStatus,
    MemberHealth,
    Monitor,
)
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.probes import Health, Probe, Rule, Target
from hanse.model.snapshot import Snapshot

_SERVERS = re.compile(rb"server\"?\s*:\s*\"?https?://(\[[0-9a-fA-F:.]+\]|[^:/\s\",]+)")
UNREADY = "its cluster has nothing ready behind it"
UNTRIED = "it was not tried often enough yet"


class HealthVerdict(Struct, frozen=True):
    """Whether a member is up, and if not, why."""

    up: bool
    reason: str = ""


def probe_target(member: GlobalMember, monitor: Monitor, host: str) -> Target:
    """What a monitor of a member tries."""
    if monitor.type == "TCP":
        return Target("TCP", member.address, monitor.port)
    return Target(monitor.type, member.address, monitor.port, host, monitor.path or "/")


def member_probes(service: GlobalService) -> Iterator[Probe]:
    """The probes that the members of a service need."""
    for member in service.spec.members:
        for monitor in member.monitors:
            yield Probe(
                probe_target(member, monitor, service.spec.host),
                Rule(
                    timedelta(seconds=monitor.interval),
                    timedelta(seconds=monitor.timeout),
                    monitor.up,
                    monitor.down,
                ),
            )


def api_addresses(snapshot: Snapshot) -> frozenset[str]:
    """Where API servers are, as far as it can be seen: probes must not be made to go there.

    Of loopback others decide: in a federation on one machine everything is there.
    """
    found: set[str] = set()
    for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
        api = snapshot.get(where, Service, "kubernetes", "default")
        if api is not None:
            found.update((api.spec.cluster_ip, *api.spec.cluster_ips))
        for piece in snapshot.by(where, SLICES, "default/kubernetes"):
            found.update(a for e in piece.endpoints or () for a in e.addresses)
    secret = snapshot.get(snapshot.local, Secret, SECRET, NAMESPACE)
    for text in secret.data.values() if secret is not None else ():
        found.update(m.decode("ascii", "replace").strip("[]") for m in _SERVERS.findall(text))
    return frozenset(a for a in found if not a.startswith("127.") and a != "::1")


def judge_member(
    member: GlobalMember, host: str, before: bool, snapshot: Snapshot
) -> HealthVerdict:
    """Whether a member is up; until its probes decide it is what it was before."""
    if not member.ready:
        return HealthVerdict(False, UNREADY)
    for monitor in member.monitors:
        health = snapshot.fact(Health, probe_target(member, monitor, host))
        if health is None and not before:
            return HealthVerdict(False, UNTRIED)
        if health is not None and not health.up:
            return HealthVerdict(False, health.reason)
    return HealthVerdict(True)


def service_status(
    spec: GlobalServiceSpec, standing: GlobalService | None, snapshot: Snapshot
) -> GlobalServiceStatus:
    """Who is up now; what says what it said before keeps its time."""
    known = {(h.cluster, h.address): h for h in standing.status.members} if standing else {}
    named = _hostnames_up(standing, known)
    members = []
    for member in spec.members:
        before = known.get((member.cluster, member.address))
        was_up = before.up if before is not None else (member.cluster, member.hostname) in named
        verdict = judge_member(member, spec.host, was_up, snapshot)
        members.append(_health(member, verdict, before, snapshot.now))
    up = sum(h.up for h in members)
    return GlobalServiceStatus(up=f"{up}/{len(members)}", members=tuple(members))


def _hostnames_up(
    standing: GlobalService | None, known: Mapping[tuple[str, str], MemberHealth]
) -> set[tuple[str, str]]:
    """The load balancers that serve: one that moves to other addresses is not a new one."""
    members = standing.spec.members if standing is not None else ()
    return {
        (m.cluster, m.hostname)
        for m in members
        if m.hostname and (health := known.get((m.cluster, m.address))) and health.up
    }


def current_health(
    service: GlobalService, snapshot: Snapshot
) -> list[tuple[GlobalMember, HealthVerdict]]:
    """Each member and whether it is up, by the latest that is known here."""
    told = {(h.cluster, h.address): h for h in service.status.members}
    found = []
    for member in service.spec.members:
        before = told.get((member.cluster, member.address))
        verdict = judge_member(
            member, service.spec.host, before is not None and before.up, snapshot
        )
        if before is not None and not before.up and not verdict.up and verdict.reason == UNTRIED:
            verdict = HealthVerdict(False, before.reason or UNTRIED)
        found.append((member, verdict))
    return found


def _health(
    member: GlobalMember, verdict: HealthVerdict, before: MemberHealth | None, now: datetime
) -> MemberHealth:
    same = before is not None and before.up == verdict.up and before.since is not None
    since = before.since if same and before is not None else now.replace(microsecond=0)
    return MemberHealth(
        cluster=member.cluster,
        address=member.address,
        up=verdict.up,
        since=since,
        reason=verdict.reason,
    )
