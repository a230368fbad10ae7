"""What the feature watches and writes, and why."""

from hanse.features.networks.admission_policies import POLICIES
from hanse.features.networks.lookups import (
    NAMESPACES_BY_TENANT,
    NETWORKS_BY_TENANT,
    PEERINGS_BY_PEER,
    PODS_BY_ADDRESS,
    PODS_BY_NETWORK,
    PODS_BY_NODE,
    SERVICES_BY_NETWORK,
    SLICES_BY_SERVICE,
    WAITING_PODS_BY_NETWORK,
)
from hanse.features.networks.names import NETWORK, TENANT
from hanse.model.facts import Role
from hanse.model.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import (
    ConfigMap,
    Endpoints,
    Namespace,
    Node,
    Pod,
    Service,
    ServiceAccount,
)
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networking import IPAddress, NetworkPolicy, ServiceCIDR
from hanse.model.kinds.networks import Network, NetworkAccess, NetworkPeering, Tenant
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.kinds.rbac import RbacRole, RoleBinding
from hanse.model.naming import GUARDS_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.snapshot import Watch, Writes

_ALL = Writes.OBJECTS
_TENANT_LABEL = TENANT
_DNS_SERVER = "the DNS server of a network, in a namespace of its tenant, with its own rights"
_API_SERVER = "addresses of the API server, which pods of a network reach"
_GUARDS = "restrictions of tenants that hold without an agent"

WATCHES: tuple[Watch, ...] = (
    Watch(Role.LOCAL, Tenant, writes=Writes.STATUS, reason="tenants, and their conditions"),
    Watch(
        Role.LOCAL,
        Network,
        indexes=(NETWORKS_BY_TENANT,),
        writes=_ALL | Writes.STATUS,
        reason="networks of tenants, and their conditions",
    ),
    Watch(
        Role.LOCAL,
        Node,
        reason="nodes that need a guard, and ranges of nodes and pods, which Services cannot have",
    ),
    Watch(
        Role.LOCAL,
        Lease,
        namespace=GUARDS_NAMESPACE,
        reason="which nodes have a guard, so that no NetworkPolicies are needed",
    ),
    Watch(Role.LOCAL, NetworkAccess, reason="what the platform allows networks"),
    Watch(
        Role.LOCAL,
        NetworkPeering,
        indexes=(PEERINGS_BY_PEER,),
        writes=Writes.STATUS,
        reason="which networks reach each other",
    ),
    Watch(
        Role.LOCAL,
        Namespace,
        indexes=(NAMESPACES_BY_TENANT,),
        writes=Writes.MISSING,
        reason="namespaces of tenants, and those of a network's DNS and API alias",
    ),
    Watch(
        Role.LOCAL,
        Pod,
        labels=NETWORK,
        indexes=(PODS_BY_NETWORK, PODS_BY_ADDRESS, PODS_BY_NODE, WAITING_PODS_BY_NETWORK),
        writes=Writes.FIELDS,
        reason="the address of a pod in its network, and the gate that waits for it",
    ),
    Watch(
        Role.LOCAL,
        Service,
        labels=NETWORK,
        indexes=(SERVICES_BY_NETWORK,),
        writes=_ALL,
        reason="the DNS Service and the API alias of a network",
    ),
    Watch(Role.LOCAL, Service, namespace="default", reason=_API_SERVER),
    Watch(
        Role.LOCAL,
        EndpointSlice,
        labels=NETWORK,
        indexes=(SLICES_BY_SERVICE,),
        writes=_ALL,
        reason="backends of Services in networks",
    ),
    Watch(
        Role.LOCAL,
        EndpointSlice,
        namespace="default",
        indexes=(SLICES_BY_SERVICE,),
        reason=_API_SERVER,
    ),
    Watch(
        Role.LOCAL,
        EndpointSlice,
        namespace=SYSTEM_NAMESPACE,
        indexes=(SLICES_BY_SERVICE,),
        reason="the DNS server that networks share, which their DNS Services lead to",
    ),
    Watch(
        Role.LOCAL,
        Endpoints,
        labels=NETWORK,
        writes=_ALL,
        reason="the API alias of a network, for those who read Endpoints",
    ),
    Watch(
        Role.LOCAL,
        NetworkPolicy,
        writes=_ALL,
        reason="pods of different networks do not reach each other",
    ),
    Watch(
        Role.LOCAL,
        ServiceCIDR,
        writes=_ALL,
        reason="the range of a network's Service addresses",
    ),
    Watch(Role.LOCAL, IPAddress, reason="which Service addresses are taken"),
    Watch(Role.LOCAL, Deployment, labels=_TENANT_LABEL, writes=_ALL, reason=_DNS_SERVER),
    Watch(
        Role.LOCAL,
        PodDisruptionBudget,
        labels=_TENANT_LABEL,
        writes=_ALL,
        reason=_DNS_SERVER,
    ),
    Watch(Role.LOCAL, ServiceAccount, labels=_TENANT_LABEL, writes=_ALL, reason=_DNS_SERVER),
    Watch(Role.LOCAL, RbacRole, labels=_TENANT_LABEL, writes=_ALL, reason=_DNS_SERVER),
    Watch(Role.LOCAL, RoleBinding, labels=_TENANT_LABEL, writes=_ALL, reason=_DNS_SERVER),
    Watch(Role.LOCAL, ConfigMap, labels=_TENANT_LABEL, writes=_ALL, reason=_DNS_SERVER),
    *(
        Watch(Role.LOCAL, kind, name=name, writes=_ALL, reason=_GUARDS)
        for kind in (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)
        for name in POLICIES
    ),
    Watch(
        Role.LOCAL,
        ClusterNetworkPolicy,
        writes=_ALL,
        reason="isolation that tenants cannot override",
        only_with="ClusterNetworkPolicies of policy.networking.k8s.io",
    ),
)
"""All watches but those of providers."""
