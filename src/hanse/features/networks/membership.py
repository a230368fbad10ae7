"""Which tenant a namespace belongs to, and which network a pod: the only place that decides it."""

from collections.abc import Callable

from hanse.features.networks.names import (
    APP,
    DEFAULT,
    DNS,
    NETWORK,
    SHARED_DNS,
    TENANT,
    NetworkName,
)
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Object


def tenant_of(namespace: Namespace | None) -> str:
    """The tenant of a namespace, by the label that only administrators set; empty without one."""
    return "" if namespace is None else namespace.metadata.labels.get(TENANT, "")


def network_of(
    member: Object, namespace: Namespace | None, exists: Callable[[NetworkName], bool]
) -> NetworkName | None:
    """The network of a pod, Service or slice; None if it is in no network that exists.

    The tenant is the namespace's; the object's network label selects one of its networks, `default`
    without the label. None, too, if the namespace has no tenant, or the object's tenant label names
    another.
    """
    tenant = tenant_of(namespace)
    if not tenant or member.metadata.labels.get(TENANT, tenant) != tenant:
        return None
    name = NetworkName(tenant, member.metadata.labels.get(NETWORK) or DEFAULT)
    return name if exists(name) else None


def is_network_dns(pod: Pod, name: NetworkName) -> bool:
    """Whether a pod is in the network's DNS namespace and its dns label names the network."""
    labels = pod.metadata.labels
    return pod.metadata.namespace == name.dns_namespace and labels.get(DNS) == name.network


def is_shared_dns(pod: Pod) -> bool:
    """Whether a pod is of the DNS server that networks share, by its namespace and app label."""
    meta = pod.metadata
    return meta.namespace == SYSTEM_NAMESPACE and meta.labels.get(APP) == SHARED_DNS
