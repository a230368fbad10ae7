"""The group `crd.antrea.io`, which is Antrea's: policies, and what they select."""

from typing import ClassVar

from hanse.model.kinds.core import Protocol
from hanse.model.objects import Kind, Object, Value, Wire

GROUP = "crd.antrea.io"


class AntreaNetworkPolicy(Object, frozen=True, kw_only=True):
    """A policy of one namespace (ANP), whose rules are copied and not read."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1beta1", "NetworkPolicy", "networkpolicies")
    short_names: ClassVar[tuple[str, ...]] = ("anp",)
    """As in Antrea's own definition, for the placeholder of it."""

    spec: Wire = {}


class AntreaClusterNetworkPolicy(Object, frozen=True, kw_only=True):
    """A policy of a whole cluster (ACNP), whose rules are copied and not read."""

    kind: ClassVar[Kind] = Kind(
        GROUP, "v1beta1", "ClusterNetworkPolicy", "clusternetworkpolicies", namespaced=False
    )
    short_names: ClassVar[tuple[str, ...]] = ("acnp",)

    spec: Wire = {}


class Tier(Object, frozen=True, kw_only=True):
    """A rank of policies; one that a policy names must exist."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1beta1", "Tier", "tiers", namespaced=False)

    spec: Wire = {}


class EntityEndpoint(Value, frozen=True, kw_only=True):
    """An address of something outside the cluster."""

    ip: str
    name: str = ""


class EntityPort(Value, frozen=True, kw_only=True):
    """A port that policies can name."""

    protocol: Protocol = "TCP"
    port: int = 0
    name: str = ""


NO_NODE = "hanse"
"""The external node of the entities that Hanse writes: Antrea leaves those of other nodes alone.

There is no such node: no agent of Antrea runs on these machines.
"""


class ExternalEntitySpec(Value, frozen=True, kw_only=True):
    """Where something outside the cluster is."""

    endpoints: tuple[EntityEndpoint, ...] = ()
    ports: tuple[EntityPort, ...] = ()
    external_node: str = ""


class ExternalEntity(Object, frozen=True, kw_only=True):
    """Something outside the cluster that policies select by its labels."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1alpha2", "ExternalEntity", "externalentities")

    spec: ExternalEntitySpec = ExternalEntitySpec()


class AddressBlock(Value, frozen=True, kw_only=True):
    """A range of addresses."""

    cidr: str


class GroupSpec(Value, frozen=True, kw_only=True):
    """The addresses of a group."""

    ip_blocks: tuple[AddressBlock, ...] = ()


class ClusterGroup(Object, frozen=True, kw_only=True):
    """A group that cluster policies name."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1beta1", "ClusterGroup", "clustergroups", namespaced=False)

    spec: GroupSpec = GroupSpec()


class Group(Object, frozen=True, kw_only=True):
    """A group that policies of its namespace name."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1beta1", "Group", "groups")

    spec: GroupSpec = GroupSpec()
