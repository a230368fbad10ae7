"""The state of global load balancing in all clusters: leaders, followers, hosts, problems."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from hanse.cli.clusters import READ_TIMEOUT, ClusterAccess, ReadFailure, read_clusters
from hanse.cli.tables import table
from hanse.features.gslb.deletion import REPLICATED_KINDS
from hanse.features.gslb.names import FEDERATED, TERM, VALID
from hanse.features.gslb.terms import first_to_demote, parse_epoch
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GlobalDeploymentPolicy, StageCondition
from hanse.model.objects import K, Object

_GOOD = frozenset(
    {VALID, "all cluster clients fetched", "validated all member clusters", FEDERATED}
)


class GslbCluster(Struct, frozen=True):
    """One cluster's AMKOClusters, replicated objects and hosts, or why it could not be read."""

    name: str
    unreachable: str = ""
    clusters: tuple[AMKOCluster, ...] = ()
    copies: dict[str, Any] = {}
    """Specs of the replicated objects, by kind and name."""
    hosts: tuple[GlobalService, ...] = ()
    warnings: tuple[str, ...] = ()
    """The warnings in the status of its GlobalDeploymentPolicies."""

    @property
    def leads(self) -> bool:
        """Whether an AMKOCluster of it has `spec.isLeader`."""
        return any(one.spec.is_leader for one in self.clusters)

    @property
    def takes_part(self) -> bool:
        """Whether it has an AMKOCluster, or could not be read."""
        return bool(self.clusters or self.unreachable)

    @property
    def epoch(self) -> str:
        """The term in the annotation of its first AMKOCluster; "" without one."""
        return next((o.metadata.annotations.get(TERM, "") for o in self.clusters), "")

    @property
    def troubles(self) -> tuple[StageCondition, ...]:
        """The conditions whose status is not that of success, if this cluster leads; else none."""
        conditions = [c for one in self.clusters for c in one.status.conditions]
        return tuple(c for c in conditions if self.leads and c.status not in _GOOD)


class GslbView(Struct, frozen=True):
    """All clusters, and the problems between them."""

    sites: tuple[GslbCluster, ...]

    @property
    def leaders(self) -> tuple[GslbCluster, ...]:
        """The clusters with an AMKOCluster that leads; there should be one."""
        return tuple(site for site in self.sites if site.leads)

    def in_step(self, site: GslbCluster) -> bool | None:
        """Whether a follower's replicated objects have the same specs as the leader's.

        None for a leader, an unread cluster, or unless exactly one cluster leads.
        """
        if len(self.leaders) != 1 or site.leads or site.unreachable:
            return None
        return site.copies == self.leaders[0].copies

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each problem, most with a remedy."""
        sites = [site for site in self.sites if site.takes_part]
        silent = [f"{s.name} cannot be reached: {s.unreachable}" for s in sites if s.unreachable]
        if not any(site.clusters for site in sites):
            none = "no cluster that answers" if silent else "no cluster"
            return (*silent, f"{none} has an AMKOCluster in avi-system; create one in each")
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


async def read_gslb(clusters: Sequence[ClusterAccess]) -> GslbView:
    """Read every cluster's API server; one that fails is a site with `unreachable` set."""
    sites = await read_clusters(clusters, _read_site)
    return GslbView(tuple(_failed_site(s) if isinstance(s, ReadFailure) else s for s in sites))


def _failed_site(failure: ReadFailure) -> GslbCluster:
    """The site of a cluster that could not be read, with the reason."""
    on_timeout = f"no answer within {READ_TIMEOUT.total_seconds():.0f} s"
    return GslbCluster(failure.cluster, failure.message(on_timeout))


async def _read_site(cluster: ClusterAccess, client: Client) -> GslbCluster:
    """Read the AMKOCluster, replicated objects, hosts and warnings; kinds not served are empty."""
    own = await _list_if_served(client, AMKOCluster)
    copied = [obj for kind in REPLICATED_KINDS for obj in await _list_if_served(client, kind)]
    copies = {
        f"{type(obj).kind.name} {obj.metadata.name}": msgspec.to_builtins(_spec_or_none(obj))
        for obj in copied
    }
    policies = [obj for obj in copied if isinstance(obj, GlobalDeploymentPolicy)]
    warnings = tuple(text for policy in policies for text in policy.status.warnings)
    hosts = await _list_if_served(client, GlobalService)
    return GslbCluster(cluster.name, "", own, copies, hosts, warnings)


async def _list_if_served(client: Client, kind: type[K]) -> tuple[K, ...]:
    """The objects of a kind in the GSLB namespace, none where the kind is not served."""
    try:
        return tuple((await client.list(kind, namespace=NAMESPACE)).objects)
    except NotFound:
        return ()


def _spec_or_none(obj: Object) -> object:
    """The object's spec; None for kinds that have none."""
    return getattr(obj, "spec", None)


def format_view(view: GslbView) -> str:
    """The tables of `hanse gslb status`."""
    rows = [_cluster_row(site, view) for site in view.sites if site.takes_part]
    parts = [table(("CLUSTER", "ROLE", "EPOCH", "VERSION", "IN STEP", "STATUS"), rows)]
    source = next(iter(view.leaders), None) or next((s for s in view.sites if s.hosts), None)
    if source is not None and source.hosts:
        hosts = [_host_row(service) for service in source.hosts]
        parts += ["", table(("HOST", "UP", "MEMBERS"), hosts)]
    parts += [f"{click.style('!', fg='red')} {problem}" for problem in view.problems]
    return "\n".join(parts)


def _cluster_row(site: GslbCluster, view: GslbView) -> tuple[str, ...]:
    """The table row of a cluster; with the error and no details if it is unreachable."""
    if site.unreachable:
        return (site.name, click.style("unreachable", fg="red"), "-", "-", "-", site.unreachable)
    own = site.clusters[0]
    role = click.style("leader", bold=True) if site.leads else "follower"
    step = {True: "yes", False: click.style("no", fg="red"), None: "-"}[view.in_step(site)]
    last = own.status.conditions[-1].status if own.status.conditions else "not looked at yet"
    trouble = site.troubles[0].status if site.troubles else last
    return (site.name, role, site.epoch or "-", own.spec.version, step, trouble)


def _host_row(service: GlobalService) -> tuple[str, str, str]:
    """The host, how many members are up, and its members; those that are down in red."""
    up = {(h.cluster, h.address): h.up for h in service.status.members}
    members = [
        f"{m.cluster} {m.advertised_address} weight {m.weight} priority {m.priority}"
        + ("" if up.get((m.cluster, m.address)) else click.style(" down", fg="red"))
        for m in service.spec.members
    ]
    return (service.spec.host, service.status.up, "; ".join(members))


def json_document(view: GslbView) -> dict[str, Any]:
    """The view as JSON."""
    return {
        "leaders": [site.name for site in view.leaders],
        "problems": list(view.problems),
        "clusters": [
            {
                "name": site.name,
                "reachable": not site.unreachable,
                "leads": site.leads,
                "epoch": parse_epoch(site.epoch),
                "inStep": view.in_step(site),
                "conditions": [
                    msgspec.to_builtins(c) for o in site.clusters for c in o.status.conditions
                ],
            }
            for site in view.sites
            if site.takes_part
        ],
        "hosts": [
            {"host": s.spec.host, "up": s.status.up, "members": _member_rows(s)}
            for s in (view.leaders[0].hosts if view.leaders else ())
        ],
    }


def _member_rows(service: GlobalService) -> list[dict[str, Any]]:
    """The members of a global host with their health; one without a status is not up."""
    health = {(h.cluster, h.address): h for h in service.status.members}
    found = []
    for member in service.spec.members:
        state = health.get((member.cluster, member.address))
        found.append(
            {
                "cluster": member.cluster,
                "address": member.address,
                "told": member.advertised_address,
                "weight": member.weight,
                "priority": member.priority,
                "up": state is not None and state.up,
                "reason": state.reason if state is not None else "",
            }
        )
    return found
