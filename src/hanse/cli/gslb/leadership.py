"""Making a cluster leader or follower: what is checked first, what is done, and how it went."""

import asyncio
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import Oops, Trouble
from hanse.cli.gslb.view import Seen, Site, look
from hanse.features.gslb.names import NOT_FEDERATING, TERM
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GSLBConfig
from hanse.model.manifests import PART_OF
from hanse.model.objects import Wire

LOOK_AGAIN = 0.2

Say = Callable[[str], None]


class Wish(Struct, frozen=True):
    """What a person wants of one cluster."""

    cluster: str
    leads: bool
    controller: str = ""
    dry_run: bool = False
    timeout: int = 30


class Step(Struct, frozen=True):
    """One change, as it is sent and as it is said."""

    kind: type[AMKOCluster] | type[GSLBConfig]
    name: str
    change: Wire
    said: str


async def carry_out(wish: Wish, ways: Sequence[ClusterAccess], say: Say) -> bool:
    """Do it, or say what would be done; whether all is well in the end."""
    way = next((way for way in ways if way.name == wish.cluster), None)
    if way is None:
        known = ", ".join(way.name for way in ways)
        raise Oops(f"there is no context {wish.cluster!r} in the kubeconfig; there is: {known}")
    seen = await look(ways)
    steps = planned(wish, seen)
    if not steps:
        say(f"{wish.cluster} {'leads' if wish.leads else 'follows'} already; nothing to do")
        return True
    for step in steps:
        say(f"{'would ' if wish.dry_run else ''}{step.said}")
    for warning in warnings(wish, seen):
        say(f"note: {warning}")
    if wish.dry_run:
        return True
    transport = HttpTransport(way.credentials)
    try:
        client = Client(transport)
        for step in steps:
            await client.patch(step.kind, step.name, NAMESPACE, step.change)
        return await _told(client, wish, say)
    except KubeError as error:
        raise Trouble(f"{wish.cluster}: {error}") from None
    finally:
        await transport.close()


def planned(wish: Wish, seen: Seen) -> list[Step]:
    """The changes that it takes; raises `Oops` where it must not be done."""
    site = next(site for site in seen.sites if site.name == wish.cluster)
    own = _own_cluster(site)
    if not wish.leads:
        if not own.spec.is_leader:
            return []
        change: Wire = {"spec": {"isLeader": False}}
        return [Step(AMKOCluster, own.metadata.name, change, f"make {site.name} a follower")]
    _refuse_beside(site, seen)
    steps: list[Step] = []
    if wish.controller:
        steps.append(_controller(wish, site))
    if not own.spec.is_leader:
        change = {"spec": {"isLeader": True}, "metadata": {"annotations": {TERM: None}}}
        steps.append(Step(AMKOCluster, own.metadata.name, change, f"make {site.name} the leader"))
    return steps


def warnings(wish: Wish, seen: Seen) -> list[str]:
    """What a person should know: of clusters that could not be asked, and of what may undo it."""
    kept = _as_installed(wish, seen)
    if not wish.leads:
        others = [s.name for s in seen.leaders if s.name != wish.cluster]
        return [*([] if others else ["no cluster leads then; answers stay as they are"]), *kept]
    return kept + [
        f"{site.name} cannot be reached; if it led, it will see when it is back that "
        f"{wish.cluster} does, and change nothing"
        for site in seen.sites
        if site.unreachable
    ]


def _as_installed(wish: Wish, seen: Seen) -> list[str]:
    """What is said once more with every upgrade of an installation must be said there, too."""
    own = [o for site in seen.sites if site.name == wish.cluster for o in site.clusters]
    if not any(one.metadata.labels.get(PART_OF) == "hanse" for one in own):
        return []
    said = str(wish.leads).lower()
    note = f"{wish.cluster}'s AMKOCluster was installed from values; set gslb.isLeader to {said}"
    return [f"{note} there, too, or an upgrade may undo this"]


def _own_cluster(site: Site) -> AMKOCluster:
    if site.unreachable:
        raise Trouble(f"{site.name} cannot be reached: {site.unreachable}")
    match site.clusters:
        case ():
            raise Oops(f"{site.name} has no AMKOCluster in {NAMESPACE}; create it first")
        case (only,):
            return only
        case _:
            raise Oops(f"{site.name} has several AMKOClusters in {NAMESPACE}; delete all but one")


def _refuse_beside(site: Site, seen: Seen) -> None:
    alive = [leader.name for leader in seen.leaders if leader.name != site.name]
    if alive:
        raise Oops(f"{alive[0]} leads and can be reached; run `hanse gslb demote {alive[0]}` first")
    if not any(name.startswith("GSLBConfig ") for name in site.copies):
        raise Oops(
            f"{site.name} has no GSLBConfig: nothing was copied to it; "
            "promote another cluster, or create the configuration there first"
        )


def _controller(wish: Wish, site: Site) -> Step:
    try:
        ip_address(wish.controller)
    except ValueError:
        raise Oops(f"--controller-ip {wish.controller!r} is no IP address") from None
    names = [n.partition(" ")[2] for n in site.copies if n.startswith("GSLBConfig ")]
    change: Wire = {"spec": {"gslbLeader": {"controllerIP": wish.controller}}}
    said = f"set controllerIP of GSLBConfig {names[0]} to {wish.controller}"
    return Step(GSLBConfig, names[0], change, said)


async def _told(client: Client, wish: Wish, say: Say) -> bool:
    """Wait for the agent's own words, if it is to be waited for."""
    if not wish.timeout:
        return True
    try:
        async with asyncio.timeout(wish.timeout):
            while True:
                (own,) = (await client.list(AMKOCluster, namespace=NAMESPACE)).objects
                told = own.status.conditions
                if own.metadata.annotations.get(TERM) and len(told) > 1:
                    break
                await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        say(f"the agent of {wish.cluster} has not said anything yet; see `hanse gslb status`")
        return False
    for condition in told:
        reason = f" ({condition.reason})" if condition.reason else ""
        say(f"  {condition.type}: {condition.status}{reason}")
    return all(condition.status != NOT_FEDERATING for condition in told)
