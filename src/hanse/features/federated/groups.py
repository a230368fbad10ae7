"""Groups of federated Services: the addresses that their members send from, for Antrea's policies.

A ClusterGroup, and a Group in its namespace and in each whose policies name it. They stand while a
policy names them: without its group a rule that drops traffic would match nothing.
"""

from collections.abc import Iterable, Iterator

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.records import MemberRecord
from hanse.model.antrea_policies import named_groups
from hanse.model.kinds.antrea import (
    AddressBlock,
    AntreaClusterNetworkPolicy,
    AntreaNetworkPolicy,
    ClusterGroup,
    Group,
    GroupSpec,
)
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, Meta
from hanse.model.ownership import owner_claim
from hanse.model.snapshot import Index, Snapshot

Policy = AntreaClusterNetworkPolicy | AntreaNetworkPolicy


def _group_names(policy: Policy) -> Iterator[str]:
    """Index values: the groups that a policy names."""
    yield from {name for _, name in named_groups(policy.spec)}


CLUSTER_POLICIES = Index(AntreaClusterNetworkPolicy, "federated-group-acnp", _group_names)
NAMESPACE_POLICIES = Index(AntreaNetworkPolicy, "federated-group-anp", _group_names)
"""Policies by the groups that they name."""


def named_services(policy: Policy) -> Iterator[FederatedName]:
    """Every federated Service that a group name in a policy may mean, whether it exists or not.

    Any name may be of a global one or one in the policy's namespace, and `NAME.NAMESPACE` of NAME
    in NAMESPACE.
    """
    for group in _group_names(policy):
        yield FederatedName(SYSTEM, group)
        yield FederatedName(policy.metadata.namespace, group)
        name, dot, namespace = group.partition(".")
        if dot:
            yield FederatedName(namespace, name)


def source_addresses(records: Iterable[MemberRecord]) -> set[str]:
    """The addresses that members send from; where a record states none, those it is reached at.

    The latter in any state, with internal ones, without host names.
    """
    addresses: set[str] = set()
    for record in records:
        addresses.update(record.sources)
        for backends in () if record.sources else record.backends:
            if backends.family != "FQDN":
                addresses.update((*backends.ready, *backends.unready, *backends.draining))
                addresses.update(one.internal for one in backends.internal)
    return addresses


def address_groups(
    federated: FederatedName, addresses: Iterable[str], member: ClusterId, snapshot: Snapshot
) -> Iterator[ClusterGroup | Group]:
    """A ClusterGroup and Groups of these addresses, each only if the member serves the kind.

    A Group is beside the federated Service, and in each namespace with a policy that names it.
    """
    spec = _group_spec(addresses)
    name = cluster_group_name(federated)
    if snapshot.serves(member, ClusterGroup):
        yield ClusterGroup(metadata=Meta(name=name), spec=spec)
    if snapshot.serves(member, Group):
        for namespace, group in sorted(
            _groups_named_by_policies(federated, member, snapshot) | {_own_group(federated)}
        ):
            yield Group(metadata=Meta(name=group, namespace=namespace), spec=spec)


def emptied_groups(
    federated: FederatedName, member: ClusterId, snapshot: Snapshot
) -> Iterator[ClusterGroup | Group]:
    """Our existing groups of a Service that policies in the member name, emptied of addresses."""
    name, spec = cluster_group_name(federated), _group_spec(())
    own = snapshot.get(member, ClusterGroup, name)
    if (
        own is not None
        and is_federated_group(own)
        and any(snapshot.by(member, CLUSTER_POLICIES, name))
    ):
        yield ClusterGroup(metadata=Meta(name=name), spec=spec)
    for namespace, group in sorted(_groups_named_by_policies(federated, member, snapshot)):
        found = snapshot.get(member, Group, group, namespace)
        if found is not None and is_federated_group(found):
            yield Group(metadata=Meta(name=group, namespace=namespace), spec=spec)


def cluster_group_name(federated: FederatedName) -> str:
    """`NAME` for a global federated Service, `NAME.NAMESPACE` for one of a namespace."""
    if federated.namespace == SYSTEM:
        return federated.name
    return f"{federated.name}.{federated.namespace}"


def _own_group(federated: FederatedName) -> tuple[str, str]:
    """Namespace and name of the Group beside the federated Service."""
    return (federated.namespace, federated.name)


def _groups_named_by_policies(
    federated: FederatedName, member: ClusterId, snapshot: Snapshot
) -> set[tuple[str, str]]:
    """Namespace and name of each Group of a federated Service that an Antrea policy names there.

    The policy is in the Group's namespace. In other namespaces than the Service's, a Group has the
    name by `cluster_group_name`.
    """
    whole = cluster_group_name(federated)
    named = {
        (policy.metadata.namespace, whole)
        for policy in snapshot.by(member, NAMESPACE_POLICIES, whole)
    }
    beside = snapshot.by(member, NAMESPACE_POLICIES, federated.name)
    own = {p.metadata.namespace for p in beside} & {federated.namespace}
    return named | {_own_group(federated) for _ in own}


def _group_spec(addresses: Iterable[str]) -> GroupSpec:
    """A group of these addresses, each as a block of /32 or /128."""
    blocks = (
        AddressBlock(cidr=f"{address}/{128 if ':' in address else 32}")
        for address in sorted(set(addresses))
    )
    return GroupSpec(ip_blocks=tuple(blocks))


def is_federated_group(group: ClusterGroup | Group) -> bool:
    """Whether the owner claim of a group is of this feature, so that it is not a user's."""
    claim = owner_claim(group)
    return claim is not None and claim.feature == "federated"
