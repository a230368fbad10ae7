"""The lists that doctor reads of each cluster beside its inventory, undecoded."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess
from hanse.kube.client import Client
from hanse.kube.errors import ApiError
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.broker_namespace import MEMBER
from hanse.model.json_input import decode_json
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.admission import ValidatingAdmissionPolicyBinding
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import SYSTEM, Federation
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.kinds.networks import Network
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire

Items = tuple[Wire, ...]

PATHS: Mapping[str, str] = {
    "federations": resource_path(Federation.kind),
    "leases": resource_path(Lease.kind, SYSTEM),
    "networks": resource_path(Network.kind),
    "acceptance": resource_path(AcceptancePolicy.kind),
    "ranges": resource_path(ServiceCIDR.kind),
    "validating": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "mutating": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "guards": resource_path(ValidatingAdmissionPolicyBinding.kind),
    "heartbeats": f"/apis/coordination.k8s.io/v1/leases?labelSelector={MEMBER}",
    "accounts": f"/api/v1/serviceaccounts?labelSelector={MEMBER}",
    "slices": f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices",
    "nodes": "/api/v1/nodes",
    "secrets": f"/api/v1/namespaces/{SYSTEM}/secrets",
    "deployments": f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments",
    "corefile": "/api/v1/namespaces/kube-system/configmaps",
}


class ClusterLists(Struct, frozen=True):
    """The lists of one cluster by name; empty for kinds that it does not serve or allow."""

    name: str
    lists: dict[str, Items] = {}

    def __getitem__(self, list_name: str) -> Items:
        """The items of a list by its name in `PATHS`; empty if it was not read."""
        return self.lists.get(list_name, ())


async def read_lists(cluster: ClusterAccess, client: Client) -> ClusterLists:
    """Read all lists of one cluster concurrently; those that it refuses are empty."""
    items = await asyncio.gather(*(_list_items(client, path) for path in PATHS.values()))
    return ClusterLists(cluster.name, dict(zip(PATHS, items, strict=True)))


async def _list_items(client: Client, path: str) -> Items:
    """The items of a list, none if the API server answers with an error."""
    try:
        response = await client.send(Request("GET", path))
    except ApiError:
        return ()
    listed: dict[str, Any] = decode_json(response.body)
    return tuple(listed.get("items") or ())
