"""What an installation chooses for tenant networks."""

from msgspec import Struct

from hanse.model.kinds.federation import SYSTEM

BUILT_IN_TEMPLATE = '{"metadata": {"name": "default"}, "spec": {"type": "flat"}}'


class NetworksOptions(Struct, frozen=True):
    """Settings that hold for all tenants of a cluster."""

    template: str = BUILT_IN_TEMPLATE
    """The default network of a new tenant, as JSON or YAML; empty: tenants get none."""
    domain: str = "cluster.local"
    dns_image: str = "hanse"
    dns_workload: str = "hanse"
    """What answers a network's names: `hanse`, or `coredns` with a generated Corefile."""
    agents: tuple[str, ...] = ("system:serviceaccount:hanse-system:hanse-agent",)
    """Users that are Hanse itself."""
    admins: tuple[str, ...] = (
        "system:masters",
        "system:nodes",
        "system:serviceaccounts:kube-system",
        "system:serviceaccounts:hanse-system",
        f"system:serviceaccounts:{SYSTEM}",  # supervisors, who write here as leaders
    )
    """Groups whose members may do to a tenant's network what tenants may not."""
    guard: bool = False
    """Whether a ClusterNetworkPolicy that tenants cannot open stands beside their policies."""
    providers: tuple[tuple[str, str], ...] = ()
    """Types of networks with ipam External, and the URL where their provider gives addresses."""
