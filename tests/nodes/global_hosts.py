"""Packet tests of global hosts, for agents of any kind of installation."""

from collections.abc import Sequence
from typing import ClassVar

from hanse.features.gslb.names import HOSTNAMES
from hanse.local.up.sample import HOST as HOST_NAME
from tests.nodes.fleet import NodesFleet
from tests.nodes.manifests import Manifest, service

SPACE = "travellers"
HOST = f"http://{HOST_NAME}"
_LABELS = {"gslb": "shared"}


def front() -> Manifest:
    """A load balancer of `web` that is a member of the global host."""
    made = service("front", annotations={HOSTNAMES: HOST_NAME}, type="LoadBalancer")
    made["metadata"]["labels"] = _LABELS
    made["spec"]["selector"] = {"app": "web"}
    return made


def gslb_settings(preferred: str, reserve: str) -> tuple[Manifest, Manifest]:
    """The leader's settings: one cluster answers, and the other while the first cannot."""
    clusters = (preferred, reserve)
    config = {"memberClusters": [{"clusterContext": cluster} for cluster in clusters]}
    split = [
        {"cluster": cluster, "weight": 1, "priority": priority}
        for cluster, priority in zip(clusters, (20, 10), strict=True)
    ]
    policy = {
        "matchRules": {"appSelector": {"label": _LABELS}},
        "matchClusters": [{"cluster": cluster} for cluster in clusters],
        "trafficSplit": split,
        "controlPlaneHmOnly": True,
        "ttl": 5,
    }
    return (
        _amko_object("v1alpha1", "GSLBConfig", "gc-1", config),
        _amko_object("v1alpha2", "GlobalDeploymentPolicy", "global-gdp", policy),
    )


def _amko_object(version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    api_version = f"amko.vmware.com/{version}"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


class GlobalHosts:
    """Tests of a fixture `travellers`: a fleet whose clusters serve the host by `web`."""

    shop: ClassVar[str]
    """The namespace of `web`."""
    preferred: ClassVar[Sequence[str]]
    reserve: ClassVar[str]
    """The cluster with the lowest priority."""

    def test_clients_in_every_cluster_follow_a_global_host(self, travellers: NodesFleet) -> None:
        for client in travellers.clusters:
            travellers.await_answers(client, SPACE, HOST, set(self.preferred), 24)

    def test_clients_reach_the_reserve_while_no_other_cluster_can_answer(
        self, travellers: NodesFleet
    ) -> None:
        client = travellers.clusters[1]
        for cluster in self.preferred:
            self._scale(travellers, cluster, 0)
        travellers.await_answers(client, SPACE, HOST, {self.reserve}, 4)

        for count, cluster in enumerate(self.preferred, 1):
            self._scale(travellers, cluster, 2)
            travellers.await_answers(client, SPACE, HOST, set(self.preferred[:count]), 24)

    def _scale(self, fleet: NodesFleet, cluster: str, replicas: int) -> None:
        scale = ("scale", "deployment/web", f"--replicas={replicas}")
        fleet.must(cluster, "-n", self.shop, *scale)
