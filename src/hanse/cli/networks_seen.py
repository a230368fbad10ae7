"""What the matrix of networks is made of, read from one cluster."""

from msgspec import Struct

from hanse.cli.clusters import Way
from hanse.cli.oops import Trouble
from hanse.cli.reaching import reached
from hanse.features.networks.matrix import Matrix, matrix
from hanse.features.networks.names import TENANT, parsed
from hanse.kube.errors import NotFound
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network, NetworkPeering


class Seen(Struct, frozen=True):
    """The matrix, and what of it nobody agreed to."""

    matrix: Matrix
    leaks: tuple[tuple[str, str], ...]


async def seen_matrix(way: Way) -> Seen:
    """Read a cluster's tenants, pods and policies, and work out who reaches whom."""
    async with reached(way) as client:
        try:
            networks = (await client.list(Network)).objects
        except NotFound:
            raise Trouble(f"{way.name} has no tenant networks; see `hanse crds`") from None
        spaces = (await client.list(Namespace)).objects
        pods = (await client.list(Pod)).objects
        policies = (await client.list(NetworkPolicy)).objects
        peerings = (await client.list(NetworkPeering)).objects
    whole = matrix(spaces, pods, policies, [parsed(n.metadata.name) for n in networks])
    tenants = {s.metadata.name: s.metadata.labels.get(TENANT, "") for s in spaces}
    agreed = {
        (f"{tenants.get(p.metadata.namespace)}.{p.spec.network}", p.spec.peer)
        for p in peerings
        if p.status.phase == "Ready"
    }
    both = agreed | {(other, one) for one, other in agreed}
    return Seen(whole, tuple(pair for pair in whole.leaks() if pair not in both))
