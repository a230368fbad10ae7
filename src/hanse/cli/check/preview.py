"""What is read of a cluster before an installation: ranges, served policies and DNS."""

import asyncio
import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import msgspec
from msgspec import Struct

from hanse.cli.clusters import REQUEST_TIMEOUT, ClusterAccess, ReadFailure, read_clusters
from hanse.cli.inventory import InventoryResult, UnreadCluster, read_inventories
from hanse.cli.permissions import Permission
from hanse.kube.client import Client
from hanse.kube.errors import ApiError, NotFound
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.json_input import decode_json
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.naming import SYSTEM_NAMESPACE

IpRange = IPv4Network | IPv6Network

INSTALL_PERMISSIONS = (
    Permission("create", "customresourcedefinitions", "apiextensions.k8s.io"),
    Permission("create", "namespaces"),
    Permission("create", "serviceaccounts", namespace=SYSTEM_NAMESPACE),
    Permission("create", "secrets", namespace=SYSTEM_NAMESPACE),
    Permission("create", "deployments", "apps", SYSTEM_NAMESPACE),
    Permission("create", "clusterroles", "rbac.authorization.k8s.io"),
    Permission("escalate", "clusterroles", "rbac.authorization.k8s.io"),
    Permission("create", "clusterrolebindings", "rbac.authorization.k8s.io"),
    Permission("create", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
)
"""What the credentials of an installer must allow."""

_PODS = "/api/v1/pods?limit=500"
_POLICIES = "/apis/admissionregistration.k8s.io/v1"
_DRY_RUN = "/api/v1/namespaces/default/services?dryRun=All"
_OUTSIDE = "192.0.2.1"
"""An address that no cluster gives to Services: the refusal names the range."""
_VALID_RANGE = re.compile(r"valid IPs is ([0-9a-fA-F.:]+/\d+)")


class ClusterPreview(Struct, frozen=True):
    """A cluster as it is before an installation."""

    name: str
    inventory: InventoryResult
    service_ranges: tuple[IpRange, ...] = ()
    pod_ranges: tuple[IpRange, ...] = ()
    pod_addresses: tuple[str, ...] = ()
    """Of some pods that have an address of their own."""
    policies_served: bool | None = None
    """None if that could not be read."""
    corefiles: dict[str, str] | None = None
    """The configurations of CoreDNS by ConfigMap; None if they could not be read."""


async def read_previews(clusters: Iterable[ClusterAccess]) -> list[ClusterPreview]:
    """Read every cluster, concurrently; the result has one preview per cluster, in their order.

    A cluster that cannot be read has an `UnreadCluster` as its inventory. If its inventory was read
    and the rest failed, ranges and addresses are empty, and policies and Corefiles are None.
    """
    accesses = list(clusters)
    inventories, previews = await asyncio.gather(
        read_inventories(accesses, INSTALL_PERMISSIONS), read_clusters(accesses, _read)
    )
    return [
        ClusterPreview(access.name, inventory)
        if isinstance(preview, ReadFailure) or isinstance(inventory, UnreadCluster)
        else msgspec.structs.replace(preview, inventory=inventory)
        for access, inventory, preview in zip(accesses, inventories, previews, strict=True)
    ]


async def _read(cluster: ClusterAccess, client: Client) -> ClusterPreview:
    """Read ranges, pod addresses, policies and Corefiles; the inventory in it is a placeholder.

    Without ServiceCIDRs the service range is that of a refused dry run. What the server refuses to
    list is empty, or None for policies and Corefiles; raises `Unreachable` if it does not answer.
    """
    ranges, nodes, pods, resources, maps = await asyncio.gather(
        _get_items(client, resource_path(ServiceCIDR.kind)),
        _get_items(client, "/api/v1/nodes"),
        _get_items(client, _PODS),
        _get_items(client, _POLICIES, "resources"),
        _get_items(client, "/api/v1/namespaces/kube-system/configmaps"),
    )
    services = [cidr for one in ranges or () for cidr in one.get("spec", {}).get("cidrs") or ()]
    return ClusterPreview(
        cluster.name,
        UnreadCluster(cluster.name, ""),
        service_ranges=_ranges(services or await _refused_range(client)),
        pod_ranges=_ranges(c for one in nodes or () for c in one["spec"].get("podCIDRs") or ()),
        pod_addresses=tuple(_own_addresses(pods or ())),
        policies_served=None
        if resources is None
        else any(one.get("name") == "validatingadmissionpolicies" for one in resources),
        corefiles=None if maps is None else _corefiles(maps),
    )


def _corefiles(maps: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The Corefiles in ConfigMaps, by the name of the ConfigMap."""
    return {
        one["metadata"]["name"]: text
        for one in maps
        for file, text in (one.get("data") or {}).items()
        if file == "Corefile"
    }


async def _get_items(
    client: Client, path: str, field: str = "items"
) -> list[dict[str, Any]] | None:
    """GET a path, and return a list field of the answer: empty after 404, None after other errors.

    No answer raises `Unreachable`.
    """
    try:
        response = await client.send(Request("GET", path, timeout=REQUEST_TIMEOUT))
    except NotFound:
        return []
    except ApiError:
        return None
    return list(decode_json(response.body).get(field) or ())


async def _refused_range(client: Client) -> list[str]:
    """The service range in the refusal of a Service with an address outside, created by dry run.

    Empty if it is not refused, or the error names no range.
    """
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"generateName": "hanse-check-"},
        "spec": {"clusterIP": _OUTSIDE, "ports": [{"port": 1}]},
    }
    body = msgspec.json.encode(service)
    try:
        await client.send(Request("POST", _DRY_RUN, body=body, timeout=REQUEST_TIMEOUT))
    except ApiError as error:
        return _VALID_RANGE.findall(str(error))
    return []


def _ranges(cidrs: Iterable[str]) -> tuple[IpRange, ...]:
    """The distinct networks of CIDRs, with host bits cleared; invalid texts are skipped."""
    found: dict[IpRange, None] = {}
    for cidr in cidrs:
        try:
            found[ip_network(cidr, strict=False)] = None
        except ValueError:
            continue
    return tuple(found)


def _own_addresses(pods: Iterable[dict[str, Any]]) -> Iterable[str]:
    """The valid podIPs of pods that do not use their node's network; others are skipped."""
    for pod in pods:
        if pod.get("spec", {}).get("hostNetwork"):
            continue
        for one in pod.get("status", {}).get("podIPs") or ():
            try:
                yield str(ip_address(one.get("ip", "")))
            except ValueError:
                continue
