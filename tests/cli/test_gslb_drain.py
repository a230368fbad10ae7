"""`hanse gslb drain`: the change of the policy, and the way back."""

from typing import Any

import msgspec
import pytest

from hanse.cli.errors import InputError
from hanse.cli.gslb.drain import DRAINED, DrainRequest, plan_drain
from hanse.model.kinds.gslb import GlobalDeploymentPolicy, GSLBHostRule
from hanse.model.objects import apply_merge_patch


def policy_of(**more: Any) -> GlobalDeploymentPolicy:
    wire = {
        "metadata": {"name": "gdp", "namespace": "avi-system"},
        "spec": {
            "matchClusters": [{"cluster": "lubeck"}, {"cluster": "hamburg"}],
            "trafficSplit": [{"cluster": "lubeck", "weight": 3, "priority": 20}],
            **more,
        },
    }
    return msgspec.convert(wire, GlobalDeploymentPolicy)


def after(policy: GlobalDeploymentPolicy, request: DrainRequest) -> GlobalDeploymentPolicy:
    plan = plan_drain(request, policy, ())
    assert plan.change is not None
    wire = apply_merge_patch(msgspec.to_builtins(policy), plan.change)
    return msgspec.convert(wire, GlobalDeploymentPolicy)


def shares(policy: GlobalDeploymentPolicy) -> dict[str, tuple[int, int]]:
    return {s.cluster: (s.weight, s.priority) for s in policy.spec.traffic_split}


@pytest.mark.parametrize("site", ["lubeck", "hamburg"])
def test_a_drained_site_has_the_lowest_priority_and_gets_back_the_one_it_had(site: str) -> None:
    before = policy_of()

    drained = after(before, DrainRequest(site))
    back = after(drained, DrainRequest(site, back=True))

    assert shares(drained)[site][1] == 0
    assert shares(back)[site] == shares(before).get(site, (1, 10))
    assert DRAINED not in back.metadata.annotations


def test_the_last_site_is_not_drained() -> None:
    drained = after(policy_of(), DrainRequest("lubeck"))

    with pytest.raises(InputError, match="no other cluster would serve"):
        plan_drain(DrainRequest("hamburg"), drained, ())


def test_a_rule_with_a_priority_of_its_own_is_named() -> None:
    wire = {
        "metadata": {"name": "rule", "namespace": "avi-system"},
        "spec": {"fqdn": "a.test", "trafficSplit": [{"cluster": "hamburg", "priority": 30}]},
    }
    rule = msgspec.convert(wire, GSLBHostRule)

    plan = plan_drain(DrainRequest("hamburg"), policy_of(), [rule])

    drains, note = plan.lines(dry_run=False)
    assert drains.startswith("give hamburg the lowest priority")
    assert "a.test is not drained" in note
    assert plan.lines(dry_run=True) == [f"would {drains}", note]


def test_what_is_done_already_is_not_done_again() -> None:
    drained = after(policy_of(), DrainRequest("lubeck"))

    done = plan_drain(DrainRequest("lubeck"), drained, ())
    assert done.change is None
    assert done.lines(dry_run=True) == ["lubeck is drained already; nothing to do"]
    assert plan_drain(DrainRequest("hamburg", back=True), drained, ()).change is None
    with pytest.raises(InputError, match="the policy matches no cluster 'oslo'"):
        plan_drain(DrainRequest("oslo"), drained, ())
