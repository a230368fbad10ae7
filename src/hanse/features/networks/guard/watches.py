"""What the guard of a node reads from its cluster, and why."""

from hanse.features.networks.addressed_pods import AddressedPod
from hanse.features.networks.guard.facts import PODS_BY_OWN_ADDRESS
from hanse.features.networks.lookups import (
    NAMESPACES_BY_TENANT,
    NETWORKS_BY_TENANT,
    PEERINGS_BY_PEER,
    SLICES_BY_SERVICE,
)
from hanse.model.facts import Role
from hanse.model.kinds.core import Namespace, Node, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networks import Network, NetworkAccess, NetworkPeering, Tenant
from hanse.model.snapshot import Watch

GUARD_WATCHES: tuple[Watch, ...] = (
    Watch(Role.LOCAL, AddressedPod, indexes=(PODS_BY_OWN_ADDRESS,), reason="whose an address is"),
    Watch(
        Role.LOCAL,
        Namespace,
        indexes=(NAMESPACES_BY_TENANT,),
        reason="which tenant a pod belongs to",
    ),
    Watch(Role.LOCAL, Tenant, reason="which tenants exist"),
    Watch(Role.LOCAL, Network, indexes=(NETWORKS_BY_TENANT,), reason="which networks exist"),
    Watch(
        Role.LOCAL,
        NetworkPeering,
        indexes=(PEERINGS_BY_PEER,),
        reason="which networks reach each other",
    ),
    Watch(Role.LOCAL, NetworkAccess, reason="what the platform allows networks"),
    Watch(Role.LOCAL, Node, reason="addresses and pod ranges of nodes"),
    Watch(Role.LOCAL, Service, reason="addresses of load balancers"),
    Watch(
        Role.LOCAL,
        EndpointSlice,
        namespace="default",
        indexes=(SLICES_BY_SERVICE,),
        reason="addresses of the API server",
    ),
)
"""All watches of a guard, which writes nothing but its Lease."""
