"""Groups of addresses that Antrea's policies name, one for each federated Service."""

from collections.abc import Iterable, Iterator

from hanse.features.federated.join_requests import FederatedName
from hanse.model.kinds.antrea import AddressBlock, ClusterGroup, Group, GroupSpec
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta, Object


def address_groups(
    federated: FederatedName, addresses: Iterable[str], kinds: Iterable[type[Object]]
) -> Iterator[ClusterGroup | Group]:
    """The group for policies of a cluster, and the one for policies of the Service's namespace."""
    spec = GroupSpec(
        ip_blocks=tuple(
            AddressBlock(cidr=f"{address}/{128 if ':' in address else 32}")
            for address in sorted(set(addresses))
        )
    )
    served = frozenset(kinds)
    if ClusterGroup in served:
        yield ClusterGroup(metadata=Meta(name=cluster_group_name(federated)), spec=spec)
    if Group in served:
        yield Group(metadata=Meta(name=federated.name, namespace=federated.namespace), spec=spec)


def cluster_group_name(federated: FederatedName) -> str:
    """`NAME` for a global federated Service, `NAME.NAMESPACE` for one of a namespace."""
    return (
        federated.name
        if federated.namespace == SYSTEM
        else f"{federated.name}.{federated.namespace}"
    )
