"""The settings of a local federation."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from hanse.local.up.access import AgentAccess
from hanse.local.up.topology import LocalMember

if TYPE_CHECKING:  # only nodes with containers need it
    from hanse.local.real.nodes.cluster_nodes import NodeSettings

EngineName = Literal["embedded", "kubernetes"]
NodesName = Literal["simulated", "containers"]
FabricName = Literal["routed", "flat", "isolated"]
NodeNames = Literal["same", "distinct"]


class FederationOptions(Struct, frozen=True):
    """The settings of a local federation."""

    members: tuple[LocalMember, ...]
    access: AgentAccess
    """The rights of the agents."""
    engine: EngineName = "embedded"
    nodes: NodesName = "simulated"
    fabric: FabricName = "routed"
    """What passes between the containers of different clusters."""
    images: tuple[Path, ...] = ()
    """Archives of images for all nodes with containers."""
    profile: str | None = None
    """The ClusterSet profile to set; None keeps the one on the broker."""
    sample: bool = True
    dns: dict[str, str] = {}
    """The addresses of DNS views by name: a cluster, or `all`."""
    dashboard: str = ""
    """The URL of the dashboard."""
    agents: bool = True
    """Whether the clusters get CRDs, rights and agents; without, they are left to users."""
    federation: bool = True
    """Whether the clusters are members of one Federation from the start."""
    node_names: NodeNames = "same"
    """Whether nodes of different clusters have the same names."""
    dual_stack: bool = False
    """Whether containers and Services have IPv6 addresses, too."""
    node_count: int = 1
    """Nodes with containers of each cluster."""
    guard: bool = False
    """Whether a guard on each node with containers keeps the networks of tenants apart."""
    containers: "NodeSettings | None" = None
    """The settings of nodes with containers; without them, nodes are simulated."""
    login_link: Callable[[], str] = str
    """Creates a dashboard URL that logs a browser in, once."""
