"""Promote or demote a cluster: the checks, the patches, and the wait for the agent's status."""

import asyncio
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.gslb.view import GslbCluster, GslbView, read_gslb
from hanse.features.gslb.names import NOT_FEDERATING, TERM
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GSLBConfig
from hanse.model.manifests import PART_OF
from hanse.model.objects import Wire

POLL_INTERVAL = 0.2

Echo = Callable[[str], None]


class LeaderChange(Struct, frozen=True):
    """The role that a cluster is to have, and how to get there."""

    cluster: str
    leads: bool
    controller: str = ""
    dry_run: bool = False
    timeout: int = 30


class PatchStep(Struct, frozen=True):
    """One patch, and the text that announces it."""

    kind: type[AMKOCluster] | type[GSLBConfig]
    name: str
    change: Wire
    description: str


async def change_leader(
    request: LeaderChange, clusters: Sequence[ClusterAccess], echo: Echo
) -> bool:
    """Patch and wait for the status, or print a dry run; True also if nothing is to change.

    Raises `InputError` for an unknown context, `CommandFailed` if the cluster refuses.
    """
    cluster = next((one for one in clusters if one.name == request.cluster), None)
    if cluster is None:
        known = ", ".join(one.name for one in clusters)
        raise InputError(
            f"there is no context {request.cluster!r} in the kubeconfig; there is: {known}"
        )
    view = await read_gslb(clusters)
    steps = plan_steps(request, view)
    if not steps:
        echo(f"{request.cluster} {'leads' if request.leads else 'follows'} already; nothing to do")
        return True
    for step in steps:
        echo(f"{'would ' if request.dry_run else ''}{step.description}")
    for warning in warnings(request, view):
        echo(f"note: {warning}")
    if request.dry_run:
        return True
    try:
        async with open_client(cluster.credentials) as client:
            for step in steps:
                await client.patch(step.kind, step.name, NAMESPACE, step.change)
            return await _wait_for_status(client, request, echo)
    except KubeError as error:
        raise CommandFailed(f"{request.cluster}: {error}") from None


def plan_steps(request: LeaderChange, view: GslbView) -> list[PatchStep]:
    """The patches that are needed; raises `InputError` where the change is refused."""
    site = next(site for site in view.sites if site.name == request.cluster)
    own = _own_cluster(site)
    if not request.leads:
        if not own.spec.is_leader:
            return []
        change: Wire = {"spec": {"isLeader": False}}
        return [PatchStep(AMKOCluster, own.metadata.name, change, f"make {site.name} a follower")]
    _check_promotable(site, view)
    steps: list[PatchStep] = []
    if request.controller:
        steps.append(_controller_step(request, site))
    if not own.spec.is_leader:
        change = {"spec": {"isLeader": True}, "metadata": {"annotations": {TERM: None}}}
        steps.append(
            PatchStep(AMKOCluster, own.metadata.name, change, f"make {site.name} the leader")
        )
    return steps


def warnings(request: LeaderChange, view: GslbView) -> list[str]:
    """Notes on clusters that could not be read, and on what may undo the change."""
    upgrade = _upgrade_warnings(request, view)
    if not request.leads:
        others = [s.name for s in view.leaders if s.name != request.cluster]
        return [*([] if others else ["no cluster leads then; answers stay as they are"]), *upgrade]
    return upgrade + [
        f"{site.name} cannot be reached; if it led, it will see when it is back that "
        f"{request.cluster} does, and change nothing"
        for site in view.sites
        if site.unreachable
    ]


def _upgrade_warnings(request: LeaderChange, view: GslbView) -> list[str]:
    """An AMKOCluster that was installed from values is reset by the next upgrade."""
    own = [o for site in view.sites if site.name == request.cluster for o in site.clusters]
    if not any(one.metadata.labels.get(PART_OF) == "hanse" for one in own):
        return []
    value = str(request.leads).lower()
    note = (
        f"{request.cluster}'s AMKOCluster was installed from values; set gslb.isLeader to {value}"
    )
    return [f"{note} there, too, or an upgrade may undo this"]


def _own_cluster(site: GslbCluster) -> AMKOCluster:
    """The only AMKOCluster of a site; raises where there is none or several."""
    if site.unreachable:
        raise CommandFailed(f"{site.name} cannot be reached: {site.unreachable}")
    match site.clusters:
        case ():
            raise InputError(f"{site.name} has no AMKOCluster in {NAMESPACE}; create it first")
        case (only,):
            return only
        case _:
            raise InputError(
                f"{site.name} has several AMKOClusters in {NAMESPACE}; delete all but one"
            )


def _check_promotable(site: GslbCluster, view: GslbView) -> None:
    """Refuse while another leader is reachable, or where nothing was replicated."""
    alive = [leader.name for leader in view.leaders if leader.name != site.name]
    if alive:
        raise InputError(
            f"{alive[0]} leads and can be reached; run `hanse gslb demote {alive[0]}` first"
        )
    if not any(name.startswith("GSLBConfig ") for name in site.copies):
        raise InputError(
            f"{site.name} has no GSLBConfig: nothing was copied to it; "
            "promote another cluster, or create the configuration there first"
        )


def _controller_step(request: LeaderChange, site: GslbCluster) -> PatchStep:
    """The patch that sets the leading Avi controller."""
    try:
        ip_address(request.controller)
    except ValueError:
        raise InputError(f"--controller-ip {request.controller!r} is no IP address") from None
    names = [n.partition(" ")[2] for n in site.copies if n.startswith("GSLBConfig ")]
    change: Wire = {"spec": {"gslbLeader": {"controllerIP": request.controller}}}
    description = f"set controllerIP of GSLBConfig {names[0]} to {request.controller}"
    return PatchStep(GSLBConfig, names[0], change, description)


async def _wait_for_status(client: Client, request: LeaderChange, echo: Echo) -> bool:
    """Wait until the agent has reported conditions, if a time-out is given, and print them."""
    if not request.timeout:
        return True
    try:
        async with asyncio.timeout(request.timeout):
            while True:
                (own,) = (await client.list(AMKOCluster, namespace=NAMESPACE)).objects
                conditions = own.status.conditions
                if own.metadata.annotations.get(TERM) and len(conditions) > 1:
                    break
                await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError:
        echo(f"the agent of {request.cluster} has not said anything yet; see `hanse gslb status`")
        return False
    for condition in conditions:
        reason = f" ({condition.reason})" if condition.reason else ""
        echo(f"  {condition.type}: {condition.status}{reason}")
    return all(condition.status != NOT_FEDERATING for condition in conditions)
