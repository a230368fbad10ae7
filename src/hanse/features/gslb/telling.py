"""What people are told about configuration, policies and host rules, on the objects themselves."""

from collections.abc import Iterator

from hanse.features.gslb.policy import Bad, config_of, policies_of, policy_of
from hanse.model.kinds.gslb import NAMESPACE, GSLBConfig, GSLBHostRule
from hanse.model.objects import Place, ref_of
from hanse.model.plan import Patch
from hanse.model.snapshot import Snapshot

ACCEPTED = "success: the configuration is in use"


def told_of_policy(seen: Snapshot, *, named_monitors: bool) -> Iterator[Patch]:
    """Whether the configuration and the policy are in use."""
    config = config_of(seen)
    state = f"error: {config.error}" if isinstance(config, Bad) else ACCEPTED
    for one in seen.in_namespace(seen.local, GSLBConfig, NAMESPACE):
        change = {"status": {"state": state}}
        yield Patch(Place(seen.local, ref_of(one)), change, subresource="status")
    policy = policy_of(seen, named_monitors=named_monitors)
    error = policy.error if isinstance(policy, Bad) else None
    for said in policies_of(seen):
        wanted = {"status": {"errorStatus": error}}
        yield Patch(Place(seen.local, ref_of(said)), wanted, subresource="status")


def told_of_rule(rule: GSLBHostRule, error: str, seen: Snapshot) -> Patch:
    """Whether a host rule is in use."""
    status = {"status": "Rejected", "error": error} if error else _ACCEPTED
    return Patch(Place(seen.local, ref_of(rule)), {"status": status}, subresource="status")


_ACCEPTED = {"status": "Accepted", "error": None}
