"""Indexes and lookups: tenants, their namespaces and networks."""

from collections.abc import Iterable, Iterator

from hanse.features.networks.membership import network_of, tenant_of
from hanse.features.networks.names import (
    DEFAULT,
    NETWORK,
    READINESS,
    TENANT,
    NetworkName,
    parse_network_name,
)
from hanse.model.conditions import find_condition
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networks import IPAM, Network, NetworkPeering
from hanse.model.objects import Object
from hanse.model.snapshot import Index, Snapshot
from hanse.model.summaries import first_of


def _network_key(obj: Object) -> Iterator[str]:
    """Index key: `<tenant>.<network>` of an object's labels; none unless it has both."""
    labels = obj.metadata.labels
    if NETWORK in labels and TENANT in labels:
        yield f"{labels[TENANT]}.{labels[NETWORK]}"


def _tenant_key(obj: Object) -> Iterator[str]:
    """Index key: the tenant label; none if it is missing or empty."""
    if tenant := obj.metadata.labels.get(TENANT, ""):
        yield tenant


PODS_BY_NETWORK = Index(Pod, "networks-pods", _network_key)
WAITING_PODS_BY_NETWORK = Index(
    Pod,
    "networks-waiting",
    lambda p: _network_key(p) if READINESS in p.metadata.annotations else (),
)
PODS_BY_ADDRESS = Index(
    Pod, "networks-pod-addresses", lambda p: [pod_ip.ip for pod_ip in p.status.pod_ips if pod_ip.ip]
)
PODS_BY_NODE = Index(
    Pod, "networks-pod-nodes", lambda p: [p.spec.node_name] if p.spec.node_name else ()
)
SERVICES_BY_NETWORK = Index(Service, "networks-services", _network_key)
NAMESPACES_BY_TENANT = Index(Namespace, "networks-namespaces", _tenant_key)
NETWORKS_BY_TENANT = Index(
    Network, "networks-networks", lambda n: [parse_network_name(n.metadata.name).tenant]
)
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "networks-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get('kubernetes.io/service-name', '')}"],
)
KUBERNETES_SERVICE = "default/kubernetes"
FLAT = "flat"
"""The type of networks whose pods have addresses of the cluster, each of one pod alone."""
VPC = "vpc"
"""The type of networks whose addresses we give out, as CNI arguments of pods."""
ISOLATED = "Isolated"
"""The condition of a network that says what keeps it apart from others."""
GUARDED = "Guards"
"""Its reason where the guards of nodes do."""
GUARDS_MISSING = "GuardsMissing"
"""Its reason where policies do, as not all nodes have a guard."""
DRAINED = "Drained"
"""The condition of a network that is being deleted: whether nobody uses it any more."""
PEERINGS_BY_PEER = Index(NetworkPeering, "networks-peerings", lambda p: [p.spec.peer])


def namespace_tenant(namespace: str, snapshot: Snapshot) -> str:
    """The tenant label of a namespace in the snapshot; empty if it has none or is not there."""
    return tenant_of(snapshot.get(snapshot.local, Namespace, namespace))


def is_in_tenant(member: Object, name: NetworkName, snapshot: Snapshot) -> bool:
    """Whether an object's namespace has the tenant label of a network's tenant.

    The object's own labels do not count.
    """
    return namespace_tenant(member.metadata.namespace, snapshot) == name.tenant


def labelled_network(labels: dict[str, str], tenant: str) -> NetworkName:
    """The network that the network label names within a tenant; `default` without a label."""
    return NetworkName(tenant, labels.get(NETWORK) or DEFAULT)


def tenant_namespaces(tenant: str, snapshot: Snapshot) -> list[Namespace]:
    """A tenant's namespaces that are not terminating, sorted by name."""
    found = snapshot.by(snapshot.local, NAMESPACES_BY_TENANT, tenant)
    return sorted((n for n in found if not n.terminating), key=lambda n: n.metadata.name)


def tenant_networks(tenant: str, snapshot: Snapshot) -> list[Network]:
    """The networks whose name and spec.tenant are a tenant's, sorted by name."""
    found = (
        n
        for n in snapshot.by(snapshot.local, NETWORKS_BY_TENANT, tenant)
        if n.spec.tenant == tenant
    )
    return sorted(found, key=lambda n: n.metadata.name)


def find_network(name: NetworkName, snapshot: Snapshot) -> Network | None:
    """The Network of that name; None if there is none, or its spec names another tenant."""
    found = snapshot.get(snapshot.local, Network, str(name))
    return found if found is not None and found.spec.tenant == name.tenant else None


def labels_network(member: Object) -> NetworkName:
    """The network that an object's labels name; `default` without a network label.

    Nothing is verified: the tenant is empty without its label, and the network need not exist.
    """
    labels = member.metadata.labels
    return labelled_network(labels, labels.get(TENANT, ""))


def member_network(member: Object, snapshot: Snapshot) -> Network | None:
    """The Network that an object's labels name; None if there is none.

    None, too, if the object's namespace is not one of that network's tenant.
    """
    name = labels_network(member)
    return find_network(name, snapshot) if is_in_tenant(member, name, snapshot) else None


def pod_network(pod: Pod, namespace: Namespace | None, snapshot: Snapshot) -> Network | None:
    """The Network that a pod is in, by its namespace's tenant and its network label.

    None if there is no such Network, or the pod's tenant label is another's.
    """
    name = network_of(pod, namespace, lambda n: find_network(n, snapshot) is not None)
    return find_network(name, snapshot) if name is not None else None


def is_drained(network: Network) -> bool:
    """Whether a network is being deleted and its condition Drained is True; else False."""
    drained = find_condition(network.status.conditions, DRAINED)
    gone = network.metadata.deletion_timestamp is not None
    return gone and drained is not None and drained.status == "True"


def needs_no_guard(network: Network) -> bool:
    """Whether condition Isolated of a network is True by policies.

    False if guards isolate it, or the condition is False or missing.
    """
    found = find_condition(network.status.conditions, ISOLATED)
    return found is not None and found.status == "True" and found.reason != GUARDED


def ipam_mode(network: Network) -> IPAM:
    """Who allocates Service addresses: spec.service.ipam.

    If that is empty, `Arktos` with spec.service.cidrs, and `Kubernetes` without.
    """
    service = network.spec.service
    return service.ipam or ("Arktos" if service.cidrs else "Kubernetes")


def is_served(kind: type[Object], snapshot: Snapshot) -> bool:
    """Whether the local cluster serves a kind, as discovery says.

    While that is not known, whether the kind was listed.
    """
    served = snapshot.serves(snapshot.local, kind)
    return served if served is not None else snapshot.listed(snapshot.local, kind)


def apiserver_slices(snapshot: Snapshot) -> list[EndpointSlice]:
    """The EndpointSlices of `default/kubernetes`, sorted by name."""
    found = snapshot.by(snapshot.local, SLICES_BY_SERVICE, KUBERNETES_SERVICE)
    return sorted(found, key=lambda s: s.metadata.name)


def apiserver_endpoints(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Address and port of every API server by EndpointSlices of `default/kubernetes`.

    Sorted, each pair once, ready or not; ports without a number are left out.
    """
    return sorted(
        {
            (address, port.port)
            for endpoint_slice in apiserver_slices(snapshot)
            for endpoint in endpoint_slice.endpoints or ()
            for address in endpoint.addresses
            for port in endpoint_slice.ports or ()
            if port.port is not None
        }
    )


def _path(object_: Object) -> str:
    """`namespace/name`, or the name of a cluster-scoped object."""
    meta = object_.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def summarize_objects(objects: Iterable[Object], limit: int = 3) -> str:
    """The first `limit` objects as `Kind namespace/name`, sorted, and how many more there are."""
    return first_of(sorted(f"{type(o).kind.name} {_path(o)}" for o in objects), limit)
