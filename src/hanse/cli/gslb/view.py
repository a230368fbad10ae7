"""Who leads global load balancing, who follows, and what the views say of it."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from hanse.cli.clusters import READ_TIMEOUT, ClusterAccess, ReadFailure, read_clusters
from hanse.cli.doctor.examination import FleetExamination
from hanse.cli.findings import findings_document, print_finding
from hanse.cli.status import features
from hanse.cli.tables import table
from hanse.features.gslb.deletion import REPLICATED_KINDS
from hanse.features.gslb.names import TERM
from hanse.features.gslb.terms import parse_epoch
from hanse.kube.client import Client
from hanse.kube.optional_reads import list_or_empty
from hanse.model.findings import Finding
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster
from hanse.model.objects import Object

_GSLB_KINDS: tuple[type[Object], ...] = (AMKOCluster, GlobalService, *REPLICATED_KINDS)
_KINDS = frozenset(one.kind.name for one in _GSLB_KINDS)


class GslbCluster(Struct, frozen=True):
    """One cluster's AMKOClusters and replicated objects, or why it could not be read."""

    name: str
    unreachable: str = ""
    clusters: tuple[AMKOCluster, ...] = ()
    copies: dict[str, Any] = {}
    """Specs of the replicated objects, by kind and name."""

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


class GslbView(Struct, frozen=True):
    """All clusters with their roles."""

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

    def concerning(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """The findings about global load balancing, and about clusters that were not read.

        The former have a kind of GSLB as their subject, or as that of a consequence.
        """
        unread = {site.name for site in self.sites if site.unreachable}
        return tuple(
            one
            for one in findings
            if (one.subject.kind == "Cluster" and one.subject.name in unread)
            or one.subject.kind in _KINDS
            or any(lost.subject.kind in _KINDS for lost in one.consequences)
        )


async def read_gslb(clusters: Sequence[ClusterAccess]) -> GslbView:
    """Read every cluster's API server; one that fails is a site with `unreachable` set."""
    sites = await read_clusters(clusters, _read_site)
    return GslbView(tuple(_failed_site(s) if isinstance(s, ReadFailure) else s for s in sites))


def _failed_site(failure: ReadFailure) -> GslbCluster:
    """The site of a cluster that could not be read, with the reason."""
    on_timeout = f"no answer within {READ_TIMEOUT.total_seconds():.0f} s"
    return GslbCluster(failure.cluster, failure.message(on_timeout))


async def _read_site(cluster: ClusterAccess, client: Client) -> GslbCluster:
    """Read the AMKOClusters and replicated objects; kinds not served are empty."""
    own = await list_or_empty(client, AMKOCluster, NAMESPACE)
    copied = [o for k in REPLICATED_KINDS for o in await list_or_empty(client, k, NAMESPACE)]
    copies = {
        f"{type(obj).kind.name} {obj.metadata.name}": msgspec.to_builtins(_spec_or_none(obj))
        for obj in copied
    }
    return GslbCluster(cluster.name, "", own, copies)


def _spec_or_none(obj: Object) -> object:
    """The object's spec; None for kinds that have none."""
    return getattr(obj, "spec", None)


def print_status(view: GslbView, examination: FleetExamination) -> None:
    """Print the tables of `hanse gslb status`, and what is wrong with its remedies."""
    rows = [_cluster_row(site, view) for site in view.sites if site.takes_part]
    click.echo(table(("CLUSTER", "ROLE", "EPOCH", "VERSION", "IN STEP", "STATUS"), rows))
    if not any(site.clusters for site in view.sites):
        click.echo(f"no cluster that answers has an AMKOCluster in {NAMESPACE}")
    features.print_tables(examination.items, "", wide=False, names=("gslb",))
    for one in view.concerning(examination.report.findings):
        print_finding(one)


def _cluster_row(site: GslbCluster, view: GslbView) -> tuple[str, ...]:
    """The table row of a cluster; with the error and no details if it is unreachable."""
    if site.unreachable:
        return (site.name, click.style("unreachable", fg="red"), "-", "-", "-", site.unreachable)
    own = site.clusters[0]
    role = click.style("leader", bold=True) if site.leads else "follower"
    step = {True: "yes", False: "no", None: "-"}[view.in_step(site)]
    last = own.status.conditions[-1].status if own.status.conditions else "not looked at yet"
    return (site.name, role, site.epoch or "-", own.spec.version, step, last)


def json_document(view: GslbView, examination: FleetExamination) -> dict[str, Any]:
    """What `hanse gslb status` shows as JSON values; hosts are those of `hanse status`."""
    return {
        "leaders": [site.name for site in view.leaders],
        "findings": findings_document(view.concerning(examination.report.findings)),
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
        "globalHosts": [msgspec.to_builtins(one) for one in examination.items["gslb"].values()],
    }
