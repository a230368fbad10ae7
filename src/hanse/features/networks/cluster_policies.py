"""A guard that tenants cannot open: ClusterNetworkPolicies, where a cluster serves them."""

from collections.abc import Iterator

from hanse.features.networks.names import FEATURE_DOMAIN, NETWORK, TENANT, NetworkName, shorten_name
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy, ClusterNetworkPolicySpec
from hanse.model.objects import Meta, Wire

PRIORITY = 900
"""Among administrators' policies; lower ones come first."""


def cluster_network_policies(
    name: NetworkName, peers: tuple[NetworkName, ...]
) -> Iterator[ClusterNetworkPolicy]:
    """Traffic within a network and with its peers is left to NetworkPolicies; all other traffic
    of tenants' pods is denied before they are asked."""
    own = [_pods(one) for one in (name, *peers)]
    tenants: Wire = {"namespaces": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}
    yield ClusterNetworkPolicy(
        metadata=Meta(name=shorten_name(f"{FEATURE_DOMAIN}-{name}", 253)),
        spec=ClusterNetworkPolicySpec(
            tier="Admin",
            priority=PRIORITY,
            subject=_pods(name),
            ingress=(
                {"name": "within", "action": "Pass", "from": own},
                {"name": "other-tenants", "action": "Deny", "from": [tenants]},
            ),
            egress=(
                {"name": "within", "action": "Pass", "to": own},
                {"name": "other-tenants", "action": "Deny", "to": [tenants]},
            ),
        ),
    )


def _pods(name: NetworkName) -> Wire:
    """A network's pods, in all namespaces of its tenant."""
    return {
        "pods": {
            "namespaceSelector": {"matchLabels": {TENANT: name.tenant}},
            "podSelector": {"matchLabels": {NETWORK: name.network}},
        }
    }
