"""The controller manager of an embedded cluster: runs the enabled controllers."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from tinykube.apiserver import ApiServer
from tinykube.controllers.clusterrole_aggregation import ClusterRoleAggregationController
from tinykube.controllers.controller import Controller
from tinykube.controllers.controller_loop import ControllerLoop, WorkItem
from tinykube.controllers.daemonset import DaemonSetController
from tinykube.controllers.deployment import DeploymentController
from tinykube.controllers.endpoints import EndpointsController
from tinykube.controllers.endpointslice import EndpointSliceController
from tinykube.controllers.garbagecollector import GarbageCollector
from tinykube.controllers.job import JobController
from tinykube.controllers.kubelet import PodTiming, SimulatedKubelet
from tinykube.controllers.namespace import NamespaceController
from tinykube.controllers.namespace_defaults import NamespaceDefaultsController
from tinykube.controllers.persistentvolume import PersistentVolumeController
from tinykube.controllers.replicaset import ReplicaSetController
from tinykube.controllers.scheduler import Scheduler
from tinykube.controllers.service_loadbalancer import ServiceLoadBalancerController
from tinykube.controllers.servicecidr import ServiceCIDRController
from tinykube.controllers.simulated_nodes import NodeRanges, SimulatedNodeController
from tinykube.controllers.statefulset import StatefulSetController

CORE_CONTROLLERS = frozenset(
    ("namespace", "namespace-defaults", "garbage-collection", "clusterrole-aggregation")
)
"""The controllers of a cluster without workloads."""

ALL_CONTROLLERS = CORE_CONTROLLERS | frozenset(
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
    """The simulated nodes, addresses and pod timing of a cluster."""

    nodes: int = 3
    ranges: NodeRanges = NodeRanges()
    load_balancers: tuple[str, ...] = ("198.19.0.0/24",)
    pod_timing: PodTiming = PodTiming()


class ControllerManager:
    """All controllers of one embedded API server."""

    def __init__(
        self,
        api: ApiServer,
        *,
        enabled: frozenset[str] = ALL_CONTROLLERS,
        simulation: Simulation | None = None,
        root_ca: str = "",
    ) -> None:
        """Make the controllers, of which only the `enabled` run; ValueError for an unknown name.

        `root_ca` is the PEM that namespaces get in the ConfigMap kube-root-ca.crt.
        """
        unknown = enabled - ALL_CONTROLLERS
        if unknown:
            raise ValueError(f"there is no controller named {', '.join(sorted(unknown))}")
        self._simulation = simulation or Simulation()
        nodes = SimulatedNodeController(api.name, self._simulation.nodes, self._simulation.ranges)
        volumes = PersistentVolumeController()
        factories: Sequence[Callable[[], Controller]] = (
            NamespaceController,
            lambda: NamespaceDefaultsController(root_ca),
            GarbageCollector,
            ClusterRoleAggregationController,
            DeploymentController,
            ReplicaSetController,
            StatefulSetController,
            DaemonSetController,
            JobController,
            Scheduler,
            lambda: SimulatedKubelet(self._simulation.pod_timing),
            lambda: nodes,
            EndpointSliceController,
            EndpointsController,
            ServiceCIDRController,
            lambda: ServiceLoadBalancerController(self._simulation.load_balancers),
            lambda: volumes,
        )
        controllers = [factory() for factory in factories]
        enabled_controllers = [one for one in controllers if one.name in enabled]
        self._initial_items: list[WorkItem] = [
            (controller, key)
            for controller in (nodes, volumes)
            if controller.name in enabled
            for key in controller.initial_keys
        ]
        self._loop = ControllerLoop(api, enabled_controllers)

    async def run(self) -> None:
        """Run the enabled controllers until cancelled; over unchanged objects nothing is written.

        Absent nodes and the StorageClass are created before anything else.
        """
        await self._loop.run(self._initial_items)

    async def idle(self) -> None:
        """Wait until all controllers are idle; delayed keys do not count."""
        await self._loop.idle()
