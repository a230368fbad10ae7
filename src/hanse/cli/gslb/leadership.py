"""Making a cluster leader or follower: what is checked first, what is done, and how it went."""

import asyncio
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.gslb.view import GslbCluster, GslbView, read_gslb
from hanse.features.gslb.names import NOT_FEDERATING, TERM
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GSLBConfig
from hanse.model.manifests import PART_OF
from hanse.model.objects import Wire

LOOK_AGAIN = 0.2

Echo = Callable[[str], None]


class LeaderChange(Struct, frozen=True):
    """What a person wants of one cluster."""

    cluster: str
    leads: bool
    controller: str = ""
    dry_run: bool = False
    timeout: int = 30


class PatchStep(Struct, frozen=True):
    """One change, as it is sent and as it is said."""

    kind: type[AMKOCluster] | type[GSLBConfig]
    name: str
    change: Wire
    said: str


async def change_leader(request: LeaderChange, ways: Sequence[ClusterAccess], echo: Echo) -> bool:
    """Do it, or say what would be done; whether all is well in the end."""
    way = next((way for way in ways if way.name == request.cluster), None)
    if way is None:
        known = ", ".join(way.name for way in ways)
        raise InputError(
            f"there is no context {request.cluster!r} in the kubeconfig; there is: {known}"
        )
    seen = await read_gslb(ways)
    steps = plan_steps(request, seen)
    if not steps:
        echo(f"{request.cluster} {'leads' if request.leads else 'follows'} already; nothing to do")
        return True
    for step in steps:
        echo(f"{'would ' if request.dry_run else ''}{step.said}")
    for warning in warnings(request, seen):
        echo(f"note: {warning}")
    if request.dry_run:
        return True
    transport = HttpTransport(way.credentials)
    try:
        client = Client(transport)
        for step in steps:
            await client.patch(step.kind, step.name, NAMESPACE, step.change)
        return await _told(client, request, echo)
    except KubeError as error:
        raise CommandFailed(f"{request.cluster}: {error}") from None
    finally:
        await transport.close()


def plan_steps(request: LeaderChange, seen: GslbView) -> list[PatchStep]:
    """The changes that it takes; raises `InputError` where it must not be done."""
    site = next(site for site in seen.sites if site.name == request.cluster)
    own = _own_cluster(site)
    if not request.leads:
        if not own.spec.is_leader:
            return []
        change: Wire = {"spec": {"isLeader": False}}
        return [PatchStep(AMKOCluster, own.metadata.name, change, f"make {site.name} a follower")]
    _refuse_beside(site, seen)
    steps: list[PatchStep] = []
    if request.controller:
        steps.append(_controller(request, site))
    if not own.spec.is_leader:
        change = {"spec": {"isLeader": True}, "metadata": {"annotations": {TERM: None}}}
        steps.append(
            PatchStep(AMKOCluster, own.metadata.name, change, f"make {site.name} the leader")
        )
    return steps


def warnings(request: LeaderChange, seen: GslbView) -> list[str]:
    """What a person should know: of clusters that could not be asked, and of what may undo it."""
    kept = _as_installed(request, seen)
    if not request.leads:
        others = [s.name for s in seen.leaders if s.name != request.cluster]
        return [*([] if others else ["no cluster leads then; answers stay as they are"]), *kept]
    return kept + [
        f"{site.name} cannot be reached; if it led, it will see when it is back that "
        f"{request.cluster} does, and change nothing"
        for site in seen.sites
        if site.unreachable
    ]


def _as_installed(request: LeaderChange, seen: GslbView) -> list[str]:
    """What is said once more with every upgrade of an installation must be said there, too."""
    own = [o for site in seen.sites if site.name == request.cluster for o in site.clusters]
    if not any(one.metadata.labels.get(PART_OF) == "hanse" for one in own):
        return []
    said = str(request.leads).lower()
    note = f"{request.cluster}'s AMKOCluster was installed from values; set gslb.isLeader to {said}"
    return [f"{note} there, too, or an upgrade may undo this"]


def _own_cluster(site: GslbCluster) -> AMKOCluster:
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


def _refuse_beside(site: GslbCluster, seen: GslbView) -> None:
    alive = [leader.name for leader in seen.leaders if leader.name != site.name]
    if alive:
        raise InputError(
            f"{alive[0]} leads and can be reached; run `hanse gslb demote {alive[0]}` first"
        )
    if not any(name.startswith("GSLBConfig ") for name in site.copies):
        raise InputError(
            f"{site.name} has no GSLBConfig: nothing was copied to it; "
            "promote another cluster, or create the configuration there first"
        )


def _controller(request: LeaderChange, site: GslbCluster) -> PatchStep:
    try:
        ip_address(request.controller)
    except ValueError:
        raise InputError(f"--controller-ip {request.controller!r} is no IP address") from None
    names = [n.partition(" ")[2] for n in site.copies if n.startswith("GSLBConfig ")]
    change: Wire = {"spec": {"gslbLeader": {"controllerIP": request.controller}}}
    said = f"set controllerIP of GSLBConfig {names[0]} to {request.controller}"
    return PatchStep(GSLBConfig, names[0], change, said)


async def _told(client: Client, request: LeaderChange, echo: Echo) -> bool:
    """Wait for the agent's own words, if it is to be waited for."""
    if not request.timeout:
        return True
    try:
        async with asyncio.timeout(request.timeout):
            while True:
                (own,) = (await client.list(AMKOCluster, namespace=NAMESPACE)).objects
                told = own.status.conditions
                if own.metadata.annotations.get(TERM) and len(told) > 1:
                    break
                await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        echo(f"the agent of {request.cluster} has not said anything yet; see `hanse gslb status`")
        return False
    for condition in told:
        reason = f" ({condition.reason})" if condition.reason else ""
        echo(f"  {condition.type}: {condition.status}{reason}")
    return all(condition.status != NOT_FEDERATING for condition in told)
