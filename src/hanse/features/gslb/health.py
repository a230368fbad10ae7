"""The health of members: by readiness in their cluster and by probes."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.backends import SLICES_BY_SERVICE
from hanse.features.gslb.leader_lease import Believes
from hanse.features.gslb.monitors import decode_payload
from hanse.features.gslb.names import SECRET
from hanse.model.facts import Role
from hanse.model.kinds.core import Secret
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    GlobalServiceStatus,
    MemberHealth,
    Monitor,
    PathHealth,
)
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.probes import (
    Probe,
    ProbeDetails,
    ProbePolicy,
    ProbeTarget,
    TargetHealth,
    api_server_addresses,
)
from hanse.model.snapshot import Snapshot
from hanse.model.weights import Weighting, select_parts

_SERVER_HOST = re.compile(rb"server\"?\s*:\s*\"?https?://(\[[0-9a-fA-F:.]+\]|[^:/\s\",]+)")
UNREADY = "its cluster has nothing ready behind it"
UNTRIED = "it was not tried often enough yet"

MemberAddress: TypeAlias = tuple[str, str]
"""The cluster and the address of a member."""


class HealthVerdict(Struct, frozen=True):
    """Whether a member is up, and if not, why."""

    up: bool
    reason: str = ""


def probe_target(member: GlobalMember, monitor: Monitor, host: str) -> ProbeTarget:
    """The target of a member's monitor: of TCP its address and port alone.

    Of other types also the host, an HTTP path and the details of the monitor.
    """
    if monitor.type == "TCP":
        return ProbeTarget("TCP", member.address, monitor.port)
    path = (monitor.path or "/") if monitor.type in ("HTTP", "HTTPS") else ""
    details = _probe_details(monitor)
    return ProbeTarget(monitor.type, member.address, monitor.port, host, path, details)


def _probe_details(monitor: Monitor) -> ProbeDetails | None:
    """The monitor's own method, headers, codes, names and payloads; None if it sets none."""
    texts = (monitor.method, monitor.headers, monitor.codes, monitor.server_name, monitor.service)
    payloads = (monitor.request, monitor.response)
    if not any(texts) and not any(payloads):
        return None
    return ProbeDetails(*texts, *map(decode_payload, payloads))


def member_probes(service: GlobalService, *, every_path: bool = False) -> Iterator[Probe]:
    """The probes that decide about members; with `every_path` those of their other paths, too."""
    for member in service.spec.members:
        others = [p.monitor for p in member.paths if p.monitor is not None] if every_path else []
        for monitor in (*member.monitors, *others):
            yield Probe(
                probe_target(member, monitor, service.spec.host),
                ProbePolicy(
                    timedelta(seconds=monitor.interval),
                    timedelta(seconds=monitor.timeout),
                    monitor.up,
                    monitor.down,
                ),
            )


def api_addresses(snapshot: Snapshot) -> frozenset[str]:
    """The addresses of API servers here, in sites and in their kubeconfig: never probed."""
    secret = snapshot.get(snapshot.local, Secret, SECRET, NAMESPACE)
    texts = secret.data.values() if secret is not None else ()
    configured = (host for text in texts for host in _SERVER_HOST.findall(text))
    return api_server_addresses(
        (snapshot.local, *snapshot.clusters(Role.SITE)),
        SLICES_BY_SERVICE,
        snapshot,
        (host.decode("ascii", "replace").strip("[]") for host in configured),
    )


def judge_member(
    member: GlobalMember, host: str, before: bool, believes: Believes, snapshot: Snapshot
) -> HealthVerdict:
    """Whether a member is up: it is ready, and all its probes pass; without a result as `before`.

    Readiness counts only if `believes` holds for its cluster, or without monitors; with
    control_plane_only it then decides alone.
    """
    believed = not member.monitors or believes(member.cluster)
    if not member.ready and believed:
        return HealthVerdict(False, UNREADY)
    if member.control_plane_only and believed:
        return HealthVerdict(True)
    for monitor in member.monitors:
        health = snapshot.fact(TargetHealth, probe_target(member, monitor, host))
        if health is None and not before:
            return HealthVerdict(False, UNTRIED)
        if health is not None and not health.up:
            return HealthVerdict(False, health.reason)
    return HealthVerdict(True)


def service_status(
    spec: GlobalServiceSpec, current: GlobalService | None, believes: Believes, snapshot: Snapshot
) -> GlobalServiceStatus:
    """The status of all members, by readiness and probes of this process; `refused` stays empty.

    Unchanged health keeps its `since`; a new address of a host name counts as up before, if an
    earlier address of it was, any other new member as down.
    """
    known = {(h.cluster, h.address): h for h in current.status.members} if current else {}
    hostnames_up = _hostnames_up(current, known)
    members = []
    for member in spec.members:
        before = known.get((member.cluster, member.address))
        was_up = (
            before.up if before is not None else (member.cluster, member.hostname) in hostnames_up
        )
        verdict = judge_member(member, spec.host, was_up, believes, snapshot)
        health = _member_health(member, verdict, before, snapshot.now)
        paths = tuple(_path_health(member, spec.host, verdict, before, snapshot))
        members.append(replace(health, paths=paths))
    up = sum(h.up for h in members)
    return GlobalServiceStatus(up=f"{up}/{len(members)}", members=tuple(members))


def _path_health(
    member: GlobalMember,
    host: str,
    verdict: HealthVerdict,
    before: MemberHealth | None,
    snapshot: Snapshot,
) -> Iterator[PathHealth]:
    """The health of each path of a member, for its status; the first has the member's verdict.

    Others are up if ready and their probe passes: without a result as before, without a monitor if
    ready.
    """
    known = {path.path: path.up for path in before.paths} if before is not None else {}
    for number, path in enumerate(member.paths):
        found = verdict if number == 0 else HealthVerdict(True)
        if number and not path.ready:
            found = HealthVerdict(False, UNREADY)
        elif number and path.monitor is not None:
            health = snapshot.fact(TargetHealth, probe_target(member, path.monitor, host))
            if health is not None:
                found = HealthVerdict(health.up, health.reason)
            elif not known.get(path.path):
                found = HealthVerdict(False, UNTRIED)
        yield PathHealth(path=path.path, up=found.up, reason=found.reason)


def _hostnames_up(
    current: GlobalService | None, known: Mapping[tuple[str, str], MemberHealth]
) -> set[tuple[str, str]]:
    """(cluster, host name) of load balancers of which an address is up.

    A new address of theirs counts as one that was up before.
    """
    members = current.spec.members if current is not None else ()
    return {
        (m.cluster, m.hostname)
        for m in members
        if m.hostname and (health := known.get((m.cluster, m.address))) and health.up
    }


def current_health(
    service: GlobalService,
    believes: Believes,
    snapshot: Snapshot,
    served: Collection[MemberAddress] = (),
) -> list[tuple[GlobalMember, HealthVerdict]]:
    """Each member with its health, by the latest probes here or else by the status.

    One that the status does not have yet is as before: up if it is among the `served`. A member
    that was down and has no result yet keeps the reason in the status.
    """
    recorded = {(h.cluster, h.address): h for h in service.status.members}
    judged = []
    for member in service.spec.members:
        address = (member.cluster, member.address)
        before = recorded.get(address)
        was_up = before.up if before is not None else address in served
        verdict = judge_member(member, service.spec.host, was_up, believes, snapshot)
        if before is not None and not before.up and not verdict.up and verdict.reason == UNTRIED:
            verdict = HealthVerdict(False, before.reason or UNTRIED)
        judged.append((member, verdict))
    return judged


def list_serving_members(
    service: GlobalService,
    believes: Believes,
    snapshot: Snapshot,
    served: Collection[MemberAddress] = (),
) -> list[GlobalMember]:
    """The members that are up and get traffic: of the highest priority, without those of weight 0.

    If all that are up have weight 0, they count. `served` are those that served before: they count
    as up until there is a result.
    """
    health = current_health(service, believes, snapshot, served)
    up = [member for member, verdict in health if verdict.up]
    return select_members(up)


def select_members(ready: Sequence[GlobalMember]) -> list[GlobalMember]:
    """Those of the given members that get traffic: of the highest priority, without weight 0.

    If all have weight 0, they count.
    """
    return select_parts(ready, lambda member: Weighting(member.weight, member.priority))


def list_stand_ins(service: GlobalService, snapshot: Snapshot) -> list[GlobalMember]:
    """The members to answer if all are down: those that were up until the latest time.

    If none ever was, those that are ready and were not tried often enough yet, of the highest
    priority: a host whose members are all replaced stays answered. None if all have failed.
    """
    recorded = {(h.cluster, h.address): h for h in service.status.members}
    times = [
        (
            member,
            _last_up(member, recorded.get((member.cluster, member.address)), service, snapshot),
        )
        for member in service.spec.members
    ]
    latest = max((time for _, time in times if time is not None), default=None)
    if latest is not None:
        return [member for member, time in times if time == latest]
    untried = [m for m in service.spec.members if _is_untried(m, recorded, service, snapshot)]
    return select_members(untried)


def _is_untried(
    member: GlobalMember,
    recorded: Mapping[tuple[str, str], MemberHealth],
    service: GlobalService,
    snapshot: Snapshot,
) -> bool:
    """Whether a member is ready, no probe of it failed here, and the status has no result of it."""
    known = recorded.get((member.cluster, member.address))
    targets = (probe_target(member, monitor, service.spec.host) for monitor in member.monitors)
    failed = any(
        health is not None and not health.up
        for health in (snapshot.fact(TargetHealth, target) for target in targets)
    )
    return member.ready and not failed and (known is None or known.reason == UNTRIED)


def _last_up(
    member: GlobalMember, recorded: MemberHealth | None, service: GlobalService, snapshot: Snapshot
) -> datetime | None:
    """Until when a member was up: now if it has probe results and all pass; None if never.

    Else the earliest fall of a probe that was up before, or, without such probes, by the status:
    now if that says up, else its `since` if the member was up.
    """
    targets = [probe_target(member, monitor, service.spec.host) for monitor in member.monitors]
    found = [health for t in targets if (health := snapshot.fact(TargetHealth, t)) is not None]
    if found and all(health.up for health in found):
        return snapshot.now
    fell = [health.since for health in found if health.was_up]
    if fell:
        return min(fell)
    if recorded is not None and recorded.up:
        return snapshot.now
    return recorded.since if recorded is not None and recorded.was_up else None


def _member_health(
    member: GlobalMember, verdict: HealthVerdict, before: MemberHealth | None, now: datetime
) -> MemberHealth:
    """The status of one member without its paths; unchanged health keeps its `since`.

    Else that is now, in whole seconds. Of one that is down it says, too, whether it was ever up.
    """
    same = before is not None and before.up == verdict.up and before.since is not None
    since = before.since if same and before is not None else now.replace(microsecond=0)
    return MemberHealth(
        cluster=member.cluster,
        address=member.address,
        up=verdict.up,
        since=since,
        reason=verdict.reason,
        was_up=not verdict.up and before is not None and (before.up or before.was_up),
    )
