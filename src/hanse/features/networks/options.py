"""The options of tenant networks."""

from msgspec import Struct

from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import AGENT_USER, SYSTEM_NAMESPACE

BUILT_IN_TEMPLATE = '{"metadata": {"name": "default"}, "spec": {"type": "flat"}}'


class NetworksOptions(Struct, frozen=True):
    """Settings for all tenants of a cluster."""

    template: str = BUILT_IN_TEMPLATE
    """The default network of a new tenant, as JSON or YAML; empty: tenants get none."""
    domain: str = "cluster.local"
    dns_image: str = "hanse"
    dns_workload: str = "hanse"
    """The DNS server of networks: `hanse`, or `coredns` with a generated Corefile, for each; or
    `shared`, one for all flat networks, and `hanse` for each of the others."""
    agents: tuple[str, ...] = (AGENT_USER,)
    """User names of Hanse's agents."""
    admins: tuple[str, ...] = (
        "system:masters",
        "system:nodes",
        "system:serviceaccounts:kube-system",
        f"system:serviceaccounts:{SYSTEM_NAMESPACE}",
        f"system:serviceaccounts:{SYSTEM}",  # supervisors, which write here as leaders
    )
    """Groups that are exempt from the restrictions of tenants."""
    guard: bool = False
    """Whether nodes are to have guards: while all do, no NetworkPolicies are written, and those
    of tenants narrow what passes within a network."""
    admin_policies: bool = False
    """Whether ClusterNetworkPolicies, which tenants cannot override, isolate networks."""
    providers: tuple[tuple[str, str], ...] = ()
    """Network types with ipam External, and the URL of their provider's address service."""
