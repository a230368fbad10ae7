"""The fabric and images of nodes with containers, for a local federation."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from hanse.local.real.binaries import cache_folder, find_programs
from hanse.local.real.nodes.cluster_nodes import NodeSettings
from hanse.local.real.nodes.fabric import FabricCluster, FabricKind, running_fabric
from hanse.local.real.nodes.image import node_images
from hanse.local.real.nodes.support import require_support
from hanse.local.real.programs import NETCHECK, NODE
from hanse.local.up.topology import LocalMember


@asynccontextmanager
async def container_nodes(
    members: Sequence[LocalMember], kind: FabricKind, per_cluster: int = 1, *, guard: bool = False
) -> AsyncIterator[NodeSettings]:
    """Run the network between the nodes of all members, of this kind, until the block ends.

    Gives the settings for nodes, none of which runs yet. Raises `NodesUnsupported` where containers
    cannot run, `NodesFailed`, and `ProgramMissing`.
    """
    require_support()
    binaries = await find_programs(NODE, cache_folder())
    netcheck = binaries[NETCHECK.name]
    clusters = [FabricCluster(member.name, member.ranges) for member in members]
    async with running_fabric(kind, clusters, netcheck) as fabric:
        yield NodeSettings(
            fabric=fabric,
            images=node_images(netcheck),
            pid=os.getpid(),
            per_cluster=per_cluster,
            guard=guard,
        )
