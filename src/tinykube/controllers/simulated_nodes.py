"""Simulated nodes: created once, spread over zones, with addresses and pod CIDRs."""

from collections.abc import Iterable
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import islice

from msgspec import Struct

from tinykube.controllers.conditions import merge_conditions, new_condition, status_patch
from tinykube.controllers.controller import (
    DONE,
    NODES,
    Create,
    Key,
    Lister,
    Result,
)
from tinykube.controllers.objects import annotations_of, name_of, status_of
from tinykube.resources import Object
from tinykube.storage import Change

READY = "sim.hanse.dev/ready"
SIMULATED = "sim.hanse.dev/node"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
_ZONES = "abc"
_PRESSURE_CONDITIONS = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


class NodeRanges(Struct, frozen=True):
    """The address ranges of nodes and pods; a second pod range makes pods dual-stack."""

    pods: tuple[str, ...] = ("10.128.0.0/16",)
    internal: str = "172.30.0.0/24"
    external: str = "198.18.0.0/24"


class SimulatedNodeController:
    """Creates a cluster's nodes, and sets their Ready condition by their annotation."""

    name = "node"
    watches = frozenset((NODES,))

    def __init__(self, cluster: str, count: int, ranges: NodeRanges) -> None:
        """Plan that many nodes of a cluster, without creating them: `reconcile` does.

        Raises IndexError or ValueError if a range is too small.
        """
        self._planned = {name_of(node): node for node in plan_nodes(cluster, count, ranges)}

    @property
    def initial_keys(self) -> list[Key]:
        """The keys of all planned nodes, to be created before anything else runs."""
        return [Key(NODES, "", name) for name in self._planned]

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:  # noqa: ARG002 - the contract's
        """The node, unless it was deleted: a deleted node is not created again."""
        if change.type != "DELETED":
            yield Key(NODES, "", name_of(change.object))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The creation of a planned node if absent, or the status of a simulated one.

        The status keeps its addresses, else gets the planned ones. Nodes without the annotation
        sim.hanse.dev/node are left alone.
        """
        node = lister.get(NODES, "", key.name)
        if node is None:
            planned = self._planned.get(key.name)
            return Result((Create(NODES, planned),)) if planned is not None else DONE
        if SIMULATED not in annotations_of(node):
            return DONE
        planned = self._planned.get(key.name, node)
        addresses = status_of(node).get("addresses") or status_of(planned).get("addresses")
        status = {**node_status(node, lister.now), "addresses": addresses}
        return Result(status_patch(NODES, node, status))


def plan_nodes(cluster: str, count: int, ranges: NodeRanges) -> list[Object]:
    """The nodes of one cluster, with names, zones, addresses and pod CIDRs; nothing is created.

    Raises IndexError or ValueError if a range is too small for so many.
    """
    internal = list(islice(ip_network(ranges.internal).hosts(), count))
    external = list(islice(ip_network(ranges.external).hosts(), count))
    pod_cidrs = [list(islice(_pod_subnets(ip_network(pods), count), count)) for pods in ranges.pods]
    return [
        _node(
            cluster,
            number,
            [str(subnets[number]) for subnets in pod_cidrs],
            (str(internal[number]), str(external[number])),
        )
        for number in range(count)
    ]


def _pod_subnets(
    network: IPv4Network | IPv6Network, count: int
) -> Iterable[IPv4Network | IPv6Network]:
    """The equal subnets of a network, the smallest power of two that holds `count` nodes."""
    return network.subnets(prefixlen_diff=max(0, (count - 1).bit_length()))


def _node(cluster: str, number: int, pods: list[str], addresses: tuple[str, str]) -> Object:
    """The Node of a number from 0, named from 1; `addresses` are internal and external."""
    name = f"{cluster}-node-{number + 1}"
    internal, external = addresses
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        REGION: cluster,
        ZONE: f"{cluster}-{_ZONES[number % len(_ZONES)]}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED: "true"}},
        "spec": {
            "podCIDR": pods[0],
            "podCIDRs": pods,
            "providerID": f"sim://{cluster}/{name}",
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": internal},
                {"type": "ExternalIP", "address": external},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def node_status(node: Object, now: datetime) -> Object:
    """The status of a node: Ready unless the annotation sim.hanse.dev/ready is `false`.

    Existing capacity and allocatable are kept. If it is not Ready, its pressure conditions are
    Unknown.
    """
    capacity = {"cpu": "32", "memory": "128Gi", "pods": "5000", "ephemeral-storage": "512Gi"}
    existing = status_of(node)
    ready = annotations_of(node).get(READY) != "false"
    desired = [
        new_condition(kind, not ready and None, reason, text)
        for kind, reason, text in _PRESSURE_CONDITIONS
    ]
    if ready:
        desired.append(
            new_condition("Ready", True, "KubeletReady", "kubelet is posting ready status")
        )
    else:
        text = f"node is held unready by the annotation {READY}"
        desired.append(new_condition("Ready", False, "KubeletNotReady", text))
    return {
        **existing,
        "capacity": existing.get("capacity") or capacity,
        "allocatable": existing.get("allocatable") or capacity,
        "conditions": merge_conditions(existing.get("conditions") or (), desired, now),
        "nodeInfo": _node_info(name_of(node)),
    }


def _node_info(name: str) -> Object:
    """The status.nodeInfo of a simulated node."""
    return {
        "architecture": "amd64",
        "bootID": name,
        "containerRuntimeVersion": "sim://1",
        "kernelVersion": "6.1.0",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.35.4",
        "machineID": name,
        "operatingSystem": "linux",
        "osImage": "Simulated",
        "systemUUID": name,
    }
