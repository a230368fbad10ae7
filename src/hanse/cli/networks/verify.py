"""Tries by packets which networks reach which, and compares it with what should be."""

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed
from hanse.cli.networks.view import ReachabilityView, read_reachability
from hanse.cli.verify import manifests
from hanse.cli.verify.attempts import Attempt, Outcome
from hanse.cli.verify.pods import VerifiedCluster, await_server, run_attempts
from hanse.cli.verify.workflow import agent_image, require_containers
from hanse.features.networks.names import NETWORK, NetworkName, parse_network_name
from hanse.features.networks.reachability import OUTSIDE, Reachability, summarize_reachability
from hanse.kube.client import Client
from hanse.model.kinds.core import Node

MAX_NETWORKS = 8
"""More have to be named: every one of them is tried with every other."""
MAX_NODES = 2
RUN = "hanse.dev/verify"
"""Label of the pods of one run."""
_HOST_NAME = "kubernetes.io/hostname"


class SeenPair(Struct, frozen=True):
    """Whether pods of one network reached another: by what is written, guarded and seen."""

    source: str
    target: str
    expected: bool
    """By membership and peering."""
    written: Reachability
    """By the policies in the cluster."""
    guarded: Reachability | None
    """What guards let through; None where not all nodes are guarded."""
    seen: Reachability
    """From all nodes that were tried, from some, or from none."""

    @property
    def contradicts(self) -> bool:
        """Whether what was seen contradicts what should be.

        True if the target is neither the source nor its peer, and was reached from any node; or if
        it is, policies allow all of it, and it was not reached from every node.
        """
        if not self.expected:
            return self.seen != "none"
        return self.written == "all" and self.seen != "all"


async def verify_networks(
    cluster: ClusterAccess, names: Sequence[str], image: str, seconds: float
) -> list[SeenPair]:
    """Connect from each network to each by pods, which are deleted again; returns a pair for each.

    `names` choose the networks, all by default; `seconds` is how long pods may take to start;
    without an `image` it is that of the agent. Raises `CommandFailed` for networks that do not
    exist, more than `MAX_NETWORKS`, or pods that do not start, `InputError` where no containers run
    or no image is known.
    """
    view = await read_reachability(cluster)
    known = [name for name in view.matrix.names if name != OUTSIDE]
    for name in names:
        if name not in known:
            raise CommandFailed(f"{cluster.name} has no network {name}; it has {', '.join(known)}")
    chosen = list(dict.fromkeys(names)) or known
    if len(chosen) > MAX_NETWORKS:
        raise CommandFailed(f"there are {len(chosen)} networks; name up to {MAX_NETWORKS} of them")
    async with connect(cluster) as client:
        await require_containers(cluster.name, client)
        used = image or await agent_image(cluster.name, client)
        run = NetworksRun(cluster.name, client, used, f"verify-{token_hex(3)}", seconds)
        outcomes = await run.try_all([parse_network_name(name) for name in chosen])
    return [_pair(one, other, view, outcomes) for one in chosen for other in chosen]


def _pair(one: str, other: str, view: ReachabilityView, outcomes: Sequence[Outcome]) -> SeenPair:
    """What policies, guards and the outcomes of connections say of one network reaching another.

    It is `expected`, and `guarded` is `all`, for itself and peers; else `guarded` is `none`. It is
    None unless all nodes have a guard that is ready.
    """
    tried = [o.answered for o in outcomes if (o.attempt.source, o.attempt.target) == (one, other)]
    expected = one == other or (one, other) in view.peered
    guarded: Reachability = "all" if expected else "none"
    return SeenPair(
        one,
        other,
        expected,
        view.matrix.reach[one, other],
        guarded if view.guards.complete else None,
        summarize_reachability(tried),
    )


class NetworksRun(Struct, frozen=True):
    """One run of pods that serve and try."""

    cluster: str
    client: Client
    image: str
    name: str
    seconds: float

    async def try_all(self, networks: Sequence[NetworkName]) -> list[Outcome]:
        """Connect from each network to each, itself too, from up to `MAX_NODES` nodes.

        Creates the pods in the namespaces TENANT-default, and deletes them also after an error. A
        failed connection is an outcome; raises `CommandFailed` if pods do not start.
        """
        nodes = await self._host_names()
        try:
            servers = {name: self._place(name, nodes[0]) for name in networks}
            addresses = dict(
                zip(
                    networks,
                    await asyncio.gather(*map(self._start_server, servers.items())),
                    strict=True,
                )
            )
            several = await asyncio.gather(
                *(
                    run_attempts(
                        self._place(name, node), _attempts(name, addresses), self._pod(name, at)
                    )
                    for name in networks
                    for at, node in enumerate(nodes)
                )
            )
        finally:
            for space in {name.alias_namespace for name in networks}:
                place = VerifiedCluster(self.cluster, self.client, space, self.image)
                await place.delete_pods(f"{RUN}={self.name}")
        return [outcome for outcomes in several for outcome in outcomes]

    async def _host_names(self) -> list[str]:
        """The first `MAX_NODES` host name labels of ready nodes, sorted.

        [""], which means any node, if there are none.
        """
        nodes = (await self.client.list(Node)).objects
        names = sorted(n.metadata.labels.get(_HOST_NAME, "") for n in nodes if n.ready)
        return [name for name in names if name][:MAX_NODES] or [""]

    def _place(self, name: NetworkName, node: str) -> VerifiedCluster:
        """Where pods of a network run: namespace, labels and node, "" for any; creates nothing."""
        labels = {NETWORK: name.network, RUN: self.name}
        return VerifiedCluster(
            self.cluster, self.client, name.alias_namespace, self.image, labels, node
        )

    def _pod(self, name: NetworkName, number: int) -> str:
        """The name of a network's pod that connects from the node of a number."""
        return f"{self.name}-{name.network}-{number}"

    async def _start_server(self, server: tuple[NetworkName, VerifiedCluster]) -> str:
        """Create a network's pod that answers, wait until it runs, and return its IP address.

        Raises `CommandFailed` if it is not ready in time.
        """
        name, place = server
        pod = f"{self.name}-{name.network}"
        await place.create(manifests.server_pod(pod, self.cluster, self.image))
        return await await_server(place, pod, self.seconds)


def _attempts(source: NetworkName, addresses: dict[NetworkName, str]) -> list[Attempt]:
    """A TCP connection to the server pod of each network, the source's own too; runs nothing.

    Each may take 8 s.
    """
    return [
        Attempt(
            "routes",
            str(source),
            str(target),
            "pod",
            ("tcp", "-timeout", "8s", f"{_host(address)}:{manifests.PORT}"),
        )
        for target, address in addresses.items()
    ]


def _host(address: str) -> str:
    """An address as in HOST:PORT, IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address
