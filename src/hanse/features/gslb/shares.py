"""The shares of clusters in the traffic of a host."""

from msgspec import Struct

from hanse.model.kinds.gslb import GlobalDeploymentPolicySpec, GSLBHostRule


class TrafficShare(Struct, frozen=True):
    """The share of a cluster in the traffic."""

    weight: int = 1
    priority: int = 10


def traffic_shares(
    policy: GlobalDeploymentPolicySpec, rule: GSLBHostRule | None
) -> dict[str, TrafficShare]:
    """The weight and priority of each cluster named in the policy or rule; the rule overrides.

    What the rule leaves out stays as in the policy, else weight 1 and priority 10. Clusters that
    neither names are absent.
    """
    shares = {s.cluster: TrafficShare(s.weight, s.priority) for s in policy.traffic_split}
    for override in rule.spec.traffic_split if rule is not None else ():
        before = shares.get(override.cluster, TrafficShare())
        shares[override.cluster] = TrafficShare(
            before.weight if override.weight is None else override.weight,
            before.priority if override.priority is None else override.priority,
        )
    return shares
