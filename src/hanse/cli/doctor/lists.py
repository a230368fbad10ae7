"""What doctor reads of each cluster beside the first look: lists, as the API server gives them."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, at_each
from hanse.cli.inventory import PATIENCE
from hanse.kube.errors import BadCredentials, KubeError
from hanse.kube.http_transport import HttpTransport
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.kinds.antrea import AntreaNetworkPolicy, ClusterNetworkPolicy
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM, Federation
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import AMKOCluster, GlobalDeploymentPolicy, GSLBConfig, GSLBHostRule
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.networking import IPAddress, ServiceCIDR
from hanse.model.kinds.networks import Network, Tenant
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire

Items = tuple[Wire, ...]

PATHS: Mapping[str, str] = {
    "federations": resource_path(Federation.kind),
    "leases": resource_path(Lease.kind, SYSTEM),
    "amko": resource_path(AMKOCluster.kind),
    "configurations": resource_path(GSLBConfig.kind),
    "networks": resource_path(Network.kind),
    "tenants": resource_path(Tenant.kind),
    "imports": resource_path(ServiceImport.kind),
    "hosts": resource_path(GlobalService.kind),
    "sets": "/apis/apps/v1/statefulsets",
    "hosted": resource_path(FederatedStatefulSet.kind),
    "parts": resource_path(StatefulSetPart.kind),
    "shares": resource_path(StatefulSetShares.kind),
    "policies": resource_path(GlobalDeploymentPolicy.kind),
    "rules": resource_path(GSLBHostRule.kind),
    "acnps": resource_path(ClusterNetworkPolicy.kind),
    "anps": resource_path(AntreaNetworkPolicy.kind),
    "ledger": resource_path(ConfigMap.kind, SYSTEM),
    "ranges": resource_path(ServiceCIDR.kind),
    "addresses": resource_path(IPAddress.kind),
    "validating": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "mutating": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "slices": f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices",
    "nodes": "/api/v1/nodes",
    "secrets": f"/api/v1/namespaces/{SYSTEM}/secrets",
    "deployments": f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments",
    "corefile": "/api/v1/namespaces/kube-system/configmaps",
}


class ClusterLists(Struct, frozen=True):
    """What one cluster holds; nothing of what it does not serve or tell."""

    name: str
    lists: dict[str, Items] = {}

    def __getitem__(self, what: str) -> Items:
        return self.lists.get(what, ())


async def read_lists(ways: Iterable[ClusterAccess]) -> list[ClusterLists]:
    """Read every cluster that answers at all; the first look tells of those that do not."""
    found = await at_each(ways, _chart)
    return [one for one in found if one is not None]


async def _chart(way: ClusterAccess) -> ClusterLists | None:
    transport = HttpTransport(way.credentials)
    try:
        listed = await asyncio.gather(*(_list(transport, path) for path in PATHS.values()))
    except (BadCredentials, KubeError):
        return None
    finally:
        await transport.close()
    return ClusterLists(way.name, dict(zip(PATHS, listed, strict=True)))


async def _list(transport: HttpTransport, path: str) -> Items:
    answer = await transport.send(Request("GET", path, timeout=PATIENCE))
    if answer.status != 200:
        return ()
    told: dict[str, Any] = msgspec.json.decode(answer.body)
    return tuple(told.get("items") or ())
