"""The controllers of one embedded cluster, chosen by name and run together."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from tinykube.apiserver import ApiServer
from tinykube.controllers.controller import Controller
from tinykube.controllers.controller_loop import Work, WorkLoop
from tinykube.controllers.daemonset import DaemonSets
from tinykube.controllers.deployment import Deployments
from tinykube.controllers.endpoints import LegacyEndpoints
from tinykube.controllers.endpointslice import EndpointSlices
from tinykube.controllers.garbagecollector import GarbageCollection
from tinykube.controllers.job import Jobs
from tinykube.controllers.kubelet import Kubelet, Pace
from tinykube.controllers.namespace import Namespaces
from tinykube.controllers.namespace_defaults import NamespaceDefaults
from tinykube.controllers.persistentvolume import Volumes
from tinykube.controllers.replicaset import ReplicaSets
from tinykube.controllers.scheduler import Scheduler
from tinykube.controllers.service_loadbalancer import LoadBalancerAddresses
from tinykube.controllers.servicecidr import ServiceRanges
from tinykube.controllers.simulated_nodes import NodeRanges, Nodes
from tinykube.controllers.statefulset import StatefulSets

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
        "load-balancer",
        "volumes",
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
        self._simulation = simulation or Simulation()
        nodes = Nodes(api.name, self._simulation.nodes, self._simulation.ranges)
        volumes = Volumes()
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
            lambda: LoadBalancerAddresses(self._simulation.load_balancers),
            lambda: volumes,
        )
        made = [make() for make in makers]
        chosen = [one for one in made if one.name in which]
        self._first: list[Work] = [
            (controller, key)
            for controller in (nodes, volumes)
            if controller.name in which
            for key in controller.first_keys
        ]
        self._loop = WorkLoop(api, chosen)

    async def run(self) -> None:
        """Run until cancelled; a second start over the same objects writes nothing."""
        await self._loop.run(self._first)

    async def idle(self) -> None:
        """Wait until the controllers have nothing to do but wait for a time to come."""
        await self._loop.idle()
