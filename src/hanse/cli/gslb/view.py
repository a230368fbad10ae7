"""Global load balancing as read from every cluster: who leads, who is in step, which hosts."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, at_each
from hanse.cli.gslb_terms import first_to_demote
from hanse.cli.tables import table
from hanse.features.gslb.deletion import REPLICATED_KINDS
from hanse.features.gslb.leadership import parse_epoch
from hanse.features.gslb.names import FEDERATED, TERM, VALID
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials, KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GlobalDeploymentPolicy, StageCondition
from hanse.model.objects import K, Object

PATIENCE = 10.0
_GOOD = frozenset(
    {VALID, "all cluster clients fetched", "validated all member clusters", FEDERATED}
)


class GslbCluster(Struct, frozen=True):
    """One cluster: its word on who leads, and what it holds."""

    name: str
    unreachable: str = ""
    clusters: tuple[AMKOCluster, ...] = ()
    copies: dict[str, Any] = {}
    """Specs of all that is copied, by kind and name."""
    hosts: tuple[GlobalService, ...] = ()
    warnings: tuple[str, ...] = ()
    """What its policy chooses and what is not balanced, by its own agent's word."""

    @property
    def leads(self) -> bool:
        return any(one.spec.is_leader for one in self.clusters)

    @property
    def takes_part(self) -> bool:
        return bool(self.clusters or self.unreachable)

    @property
    def epoch(self) -> str:
        return next((o.metadata.annotations.get(TERM, "") for o in self.clusters), "")

    @property
    def troubles(self) -> tuple[StageCondition, ...]:
        told = [c for one in self.clusters for c in one.status.conditions]
        return tuple(c for c in told if self.leads and c.status not in _GOOD)


class GslbView(Struct, frozen=True):
    """All clusters, and what is wrong with them together."""

    sites: tuple[GslbCluster, ...]

    @property
    def leaders(self) -> tuple[GslbCluster, ...]:
        return tuple(site for site in self.sites if site.leads)

    def in_step(self, site: GslbCluster) -> bool | None:
        """Whether a follower has what the leader has; None where there is nothing to compare."""
        if len(self.leaders) != 1 or site.leads or site.unreachable:
            return None
        return site.copies == self.leaders[0].copies

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each thing that is wrong, with the remedy."""
        sites = [site for site in self.sites if site.takes_part]
        silent = [f"{s.name} cannot be reached: {s.unreachable}" for s in sites if s.unreachable]
        if not any(site.clusters for site in sites):
            some = "no cluster that answers" if silent else "no cluster"
            return (*silent, f"{some} has an AMKOCluster in avi-system; create one in each")
        found = []
        match [site.name for site in self.leaders]:
            case []:
                found.append("no cluster leads; run `hanse gslb promote CLUSTER`")
            case [_]:
                pass
            case several:
                names = " and ".join(several)
                old = first_to_demote({s.name: parse_epoch(s.epoch) for s in self.leaders})
                found.append(f"{names} lead both; run `hanse gslb demote {old}`")
        found += silent
        found += [
            f"{s.name} is not in step with {self.leaders[0].name}"
            for s in sites
            if self.in_step(s) is False
        ]
        found += [f"{s.name}: {c.type}: {c.reason}" for s in sites for c in s.troubles]
        found += [warning for site in self.leaders for warning in site.warnings]
        return tuple(found)


async def read_gslb(ways: Sequence[ClusterAccess]) -> GslbView:
    """Read every cluster; one that is silent does not hide the others."""
    sites = await at_each(ways, _read)
    return GslbView(tuple(sites))


async def _read(way: ClusterAccess) -> GslbCluster:
    transport = HttpTransport(way.credentials)
    client = Client(transport)
    try:
        async with asyncio.timeout(PATIENCE):
            clusters = await _list(client, AMKOCluster)
            copied = [obj for kind in REPLICATED_KINDS for obj in await _list(client, kind)]
            copies = {
                f"{type(obj).kind.name} {obj.metadata.name}": msgspec.to_builtins(_spec(obj))
                for obj in copied
            }
            policies = [obj for obj in copied if isinstance(obj, GlobalDeploymentPolicy)]
            warnings = tuple(told for policy in policies for told in policy.status.warnings)
            hosts = await _list(client, GlobalService)
            return GslbCluster(way.name, "", clusters, copies, hosts, warnings)
    except TimeoutError:
        return GslbCluster(way.name, f"no answer within {PATIENCE:.0f} s")
    except (BadCredentials, KubeError) as error:
        return GslbCluster(way.name, str(error))
    finally:
        await transport.close()


async def _list(client: Client, kind: type[K]) -> tuple[K, ...]:
    try:
        return tuple((await client.list(kind, namespace=NAMESPACE)).objects)
    except NotFound:
        return ()


def _spec(obj: Object) -> object:
    return getattr(obj, "spec", None)


def format_view(seen: GslbView) -> str:
    """For a person."""
    rows = [_row(site, seen) for site in seen.sites if site.takes_part]
    parts = [table(("CLUSTER", "ROLE", "EPOCH", "VERSION", "IN STEP", "STATUS"), rows)]
    source = next(iter(seen.leaders), None) or next((s for s in seen.sites if s.hosts), None)
    if source is not None and source.hosts:
        hosts = [_host(service) for service in source.hosts]
        parts += ["", table(("HOST", "UP", "MEMBERS"), hosts)]
    parts += [f"{click.style('!', fg='red')} {problem}" for problem in seen.problems]
    return "\n".join(parts)


def show(seen: GslbView) -> None:
    """Print the hosts and what is wrong, beside other things; nothing where there is nothing."""
    if not any(site.clusters for site in seen.sites):
        return
    source = next(iter(seen.leaders), None) or next((s for s in seen.sites if s.hosts), None)
    if source is not None and source.hosts:
        rows = [_host(service) for service in source.hosts]
        click.echo()
        click.echo(table(("GLOBAL HOST", "UP", "MEMBERS"), rows))
    for problem in seen.problems:
        click.echo(f"! gslb: {click.style(problem, fg='yellow')}")


def _row(site: GslbCluster, seen: GslbView) -> tuple[str, ...]:
    if site.unreachable:
        return (site.name, click.style("unreachable", fg="red"), "-", "-", "-", site.unreachable)
    own = site.clusters[0]
    role = click.style("leader", bold=True) if site.leads else "follower"
    step = {True: "yes", False: click.style("no", fg="red"), None: "-"}[seen.in_step(site)]
    last = own.status.conditions[-1].status if own.status.conditions else "not looked at yet"
    trouble = site.troubles[0].status if site.troubles else last
    return (site.name, role, site.epoch or "-", own.spec.version, step, trouble)


def _host(service: GlobalService) -> tuple[str, str, str]:
    up = {(h.cluster, h.address): h.up for h in service.status.members}
    members = [
        f"{m.cluster} {m.told} weight {m.weight} priority {m.priority}"
        + ("" if up.get((m.cluster, m.address)) else click.style(" down", fg="red"))
        for m in service.spec.members
    ]
    return (service.spec.host, service.status.up, "; ".join(members))


def document(seen: GslbView) -> dict[str, Any]:
    """For programs."""
    return {
        "leaders": [site.name for site in seen.leaders],
        "problems": list(seen.problems),
        "clusters": [
            {
                "name": site.name,
                "reachable": not site.unreachable,
                "leads": site.leads,
                "epoch": parse_epoch(site.epoch),
                "inStep": seen.in_step(site),
                "conditions": [
                    msgspec.to_builtins(c) for o in site.clusters for c in o.status.conditions
                ],
            }
            for site in seen.sites
            if site.takes_part
        ],
        "hosts": [
            {"host": s.spec.host, "up": s.status.up, "members": _members(s)}
            for s in (seen.leaders[0].hosts if seen.leaders else ())
        ],
    }


def _members(service: GlobalService) -> list[dict[str, Any]]:
    health = {(h.cluster, h.address): h for h in service.status.members}
    found = []
    for member in service.spec.members:
        told = health.get((member.cluster, member.address))
        found.append(
            {
                "cluster": member.cluster,
                "address": member.address,
                "told": member.told,
                "weight": member.weight,
                "priority": member.priority,
                "up": told is not None and told.up,
                "reason": told.reason if told is not None else "",
            }
        )
    return found
