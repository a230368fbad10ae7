"""The controllers of one embedded cluster, chosen by name and run together."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from hanse.local.in_process import InProcess
from tinykube.api import ApiServer
from tinykube.controllers.accounts import NamespaceDefaults
from tinykube.controllers.contract import Controller
from tinykube.controllers.daemonset import DaemonSets
from tinykube.controllers.deployment import Deployments
from tinykube.controllers.endpoints import LegacyEndpoints
from tinykube.controllers.endpointslices import EndpointSlices
from tinykube.controllers.garbage import GarbageCollection
from tinykube.controllers.job import Jobs
from tinykube.controllers.kubelet import Kubelet, Pace
from tinykube.controllers.loadbalancer import LoadBalancerAddresses
from tinykube.controllers.loop import Work, WorkLoop
from tinykube.controllers.namespaces import Namespaces
from tinykube.controllers.nodes import NodeRanges, Nodes
from tinykube.controllers.replicaset import ReplicaSets
from tinykube.controllers.scheduler import Scheduler
from tinykube.controllers.service_ranges import ServiceRanges
from tinykube.controllers.statefulset import StatefulSets
from tinykube.controllers.volumes import Volumes
from tinykube.users import CONTROLLERS as CONTROLLER_USER

LOAD_BALANCER = "load-balancer"
VOLUMES = "volumes"
BROKER = frozenset(("namespace", "namespace-defaults", "garbage-collection"))
"""What a cluster without workloads runs."""

ALL = BROKER | frozenset(
    (
        "daemonset",
        "deployment",
        "endpoints",
        "endpointslice",
        "job",
        "kubelet",
        "node",
        "replicaset",
        "scheduler",
        "service-ranges",
        "statefulset",
        LOAD_BALANCER,
        VOLUMES,
    )
)


class Simulation(Struct, frozen=True):
    """What a cluster's simulated machines are like."""

    nodes: int = 3
    ranges: NodeRanges = NodeRanges()
    load_balancers: tuple[str, ...] = ("198.19.0.0/24",)
    pace: Pace = Pace()


class Controllers:
    """Everything that runs beside one embedded API server."""

    def __init__(
        self,
        api: ApiServer,
        *,
        which: frozenset[str] = ALL,
        simulation: Simulation | None = None,
        root_ca: str = "",
    ) -> None:
        unknown = which - ALL
        if unknown:
            raise ValueError(f"there is no controller named {', '.join(sorted(unknown))}")
        self._api = api
        self._which = which
        self._simulation = simulation or Simulation()
        nodes = Nodes(api.name, self._simulation.nodes, self._simulation.ranges)
        makers: Sequence[Callable[[], Controller]] = (
            Namespaces,
            lambda: NamespaceDefaults(root_ca),
            GarbageCollection,
            Deployments,
            ReplicaSets,
            StatefulSets,
            DaemonSets,
            Jobs,
            Scheduler,
            lambda: Kubelet(self._simulation.pace),
            lambda: nodes,
            EndpointSlices,
            LegacyEndpoints,
            ServiceRanges,
        )
        made = [make() for make in makers]
        chosen = [one for one in made if one.name in which]
        self._first: list[Work] = (
            [(nodes, key) for key in nodes.first_keys] if nodes.name in which else []
        )
        self._loop = WorkLoop(api, chosen)

    async def run(self) -> None:
        """Run until cancelled; a second start over the same objects writes nothing."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run(self._first), name="controllers")
            transport = InProcess(self._api, CONTROLLER_USER)
            if LOAD_BALANCER in self._which:
                balancers = LoadBalancerAddresses(transport, self._simulation.load_balancers)
                group.create_task(balancers.run(), name="load-balancer addresses")
            if VOLUMES in self._which:
                volumes = Volumes(transport, binds=True)
                group.create_task(volumes.run(), name="volumes")

    async def idle(self) -> None:
        """Wait until the controllers have nothing to do but wait for a time to come."""
        await self._loop.idle()
