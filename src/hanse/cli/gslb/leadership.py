"""Promote or demote a cluster: the checks, the patches, and the wait for the agent's status."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.gslb.view import GslbCluster, GslbView, read_gslb
from hanse.features.gslb.backends import is_host_name
from hanse.features.gslb.names import (
    INVALID,
    LEADER_LEASE,
    NO_CLIENTS,
    NO_MEMBERS,
    NOT_FEDERATING,
    TERM,
)
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.kube.optional_reads import read_or_none
from hanse.model.addresses import is_address
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GSLBConfig
from hanse.model.manifests import PART_OF
from hanse.model.objects import Wire

POLL_INTERVAL = 0.2
RENEWAL_TIME = 15.0
"""Seconds within which a leader that lives renews its Lease in every follower."""
_FAILED_STAGES = frozenset({NOT_FEDERATING, INVALID, NO_CLIENTS, NO_MEMBERS})

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
    """Send the patches of `plan_steps` and wait for the status, or echo what a dry run would do.

    False if the agent is silent until the time-out or reports a failed stage; True also for a dry
    run, or if nothing is to change. Raises `InputError` for an unknown context or a refused change,
    also if another leader renews its Lease in the cluster; `CommandFailed` if the cluster fails.
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
            if request.leads:
                await _require_no_other_leader(client, request, view, echo)
            for step in steps:
                await client.patch(step.kind, step.name, NAMESPACE, step.change)
            return await _wait_for_status(client, request, echo)
    except KubeError as error:
        raise CommandFailed(f"{request.cluster}: {error}") from None


def plan_steps(request: LeaderChange, view: GslbView) -> list[PatchStep]:
    """The patches to send, in order: of the GSLBConfig, then of the AMKOCluster.

    The first only to promote with a `controller`, whatever is there; the second unless the cluster
    has the role already. Raises `InputError` where the change is refused, `CommandFailed` if the
    cluster was not read.
    """
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
    """Notes on unreachable clusters, on no leader being left, and on what may undo the change.

    The first only for a cluster that is to lead, the second only for one that is not.
    """
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
    """A note, in a list, if the AMKOCluster is labelled as part of Hanse.

    An upgrade of the chart may reset it.
    """
    own = [o for site in view.sites if site.name == request.cluster for o in site.clusters]
    if not any(one.metadata.labels.get(PART_OF) == "hanse" for one in own):
        return []
    value = str(request.leads).lower()
    note = (
        f"{request.cluster}'s AMKOCluster was installed from values; set gslb.isLeader to {value}"
    )
    return [f"{note} there, too, or an upgrade may undo this"]


def _own_cluster(site: GslbCluster) -> AMKOCluster:
    """The only AMKOCluster of a site; raises `InputError` for none or several.

    `CommandFailed` if the site could not be read.
    """
    if site.unreachable:
        raise CommandFailed(f"{site.name} cannot be reached: {site.unreachable}")
    return _only_cluster(site.name, site.clusters)


def _only_cluster(name: str, clusters: Sequence[AMKOCluster]) -> AMKOCluster:
    """The only one of a site's AMKOClusters; raises `InputError` for none or several."""
    match clusters:
        case []:
            raise InputError(f"{name} has no AMKOCluster in {NAMESPACE}; create it first")
        case [only]:
            return only
        case _:
            raise InputError(f"{name} has several AMKOClusters in {NAMESPACE}; delete all but one")


def _check_promotable(site: GslbCluster, view: GslbView) -> None:
    """Raise `InputError` if another cluster that was read leads, or the site has no GSLBConfig."""
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
    """The patch that sets the Avi controller in the site's first GSLBConfig.

    Raises `InputError` for what is neither an IP address nor a host name.
    """
    if not (is_address(request.controller) or is_host_name(request.controller)):
        raise InputError(
            f"--controller-ip {request.controller!r} is no IP address and no host name; "
            "give one such as 10.10.20.1"
        )
    names = [n.partition(" ")[2] for n in site.copies if n.startswith("GSLBConfig ")]
    change: Wire = {"spec": {"gslbLeader": {"controllerIP": request.controller}}}
    description = f"set controllerIP of GSLBConfig {names[0]} to {request.controller}"
    return PatchStep(GSLBConfig, names[0], change, description)


async def _require_no_other_leader(
    client: Client, request: LeaderChange, view: GslbView, echo: Echo
) -> None:
    """Raise `InputError` if a leader outside the kubeconfig renews its Lease in this cluster.

    Looks for `RENEWAL_TIME`, but only if the Lease's holder is none of the known clusters.
    """
    before = await read_or_none(client, Lease, LEADER_LEASE, NAMESPACE)
    holder = before.spec.holder_identity if before is not None else ""
    known = {own.spec.cluster_context for site in view.sites for own in site.clusters}
    if before is None or not holder or holder in known | {site.name for site in view.sites}:
        return
    echo(f"{holder} led last and is not in the kubeconfig; looking whether it still does")
    deadline = asyncio.get_running_loop().time() + RENEWAL_TIME
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(POLL_INTERVAL)
        now = await read_or_none(client, Lease, LEADER_LEASE, NAMESPACE)
        if now is not None and now.spec.renew_time != before.spec.renew_time:
            raise InputError(
                f"{holder} leads: it renews its Lease in {request.cluster}; demote it first, with "
                "a kubeconfig that has its context"
            )


async def _wait_for_status(client: Client, request: LeaderChange, echo: Echo) -> bool:
    """Poll until the new leader has a term and two conditions or more, and echo these.

    False if one reports a failed stage, or the time-out ends first, which is echoed; True at once
    without a time-out.
    """
    if not request.timeout:
        return True
    try:
        async with asyncio.timeout(request.timeout):
            while True:
                listed = await client.list(AMKOCluster, namespace=NAMESPACE)
                own = _only_cluster(request.cluster, listed.objects)
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
    if any(condition.status in _FAILED_STAGES for condition in conditions):
        echo(
            f"{request.cluster} leads, but copies nothing to others; mend what it says, or go back "
            f"with `hanse gslb demote {request.cluster}`"
        )
        return False
    return True
