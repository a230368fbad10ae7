"""Admission at the broker: what a member may say of the permit that it hands on."""

import pytest

from hanse.features.statefulsets.write_rules import MEMBER_RULES
from hanse.model.admission_policies import PolicyScope, policy_manifests
from hanse.model.objects import Wire
from tinykube.expressions import Scope
from tinykube.policies import compile_policy

ON = {"to": "hamburg", "pods": 1, "number": 1}
OTHER = {"to": "lubeck", "pods": 1, "number": 1}
RECEIVED = {"name": "hamburg", "setUID": "u", "received": [{"name": "bergen", "number": 1}]}
FROM_LUBECK = {
    "name": "lubeck",
    "setUID": "u",
    "handedOn": {"to": "bergen", "pods": 1, "number": 2},
}


def own(**fields: object) -> Wire:
    return {"name": "bergen", "setUID": "u", **fields}


def allowed(before: list[Wire] | None, after: list[Wire]) -> bool:
    """Whether bergen may change the permits of a record, or create it with them."""
    (rule,) = (rule for rule in MEMBER_RULES if rule.name == "shares")
    wire = policy_manifests((rule,), PolicyScope("broker", ("accounts:",)))[0].wire
    about = [one for one in wire["spec"]["validations"] if "handedOn" in one["expression"]]
    assert about, "there is a rule"
    policy = compile_policy({**wire, "spec": {**wire["spec"], "validations": about}})
    metadata = {"name": "store", "ownerReferences": [{"uid": "u"}]}

    def record(permits: list[Wire]) -> Wire:
        return {"metadata": metadata, "spec": {"permits": permits}}

    scope = Scope(
        {
            "object": record(after),
            "oldObject": record(before) if before is not None else None,
            "request": {"operation": "UPDATE" if before is not None else "CREATE"},
            "variables": {"me": "bergen"},
        }
    )
    return all(one.expression.evaluate(scope) for one in policy.validations)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([own(pods=1)], [own(pods=0, returned=1, handedOn=ON)], id="what it held"),
        pytest.param([own(handedOn=ON)], [own(handedOn=ON, pods=1)], id="another beside it"),
        pytest.param(
            [own(handedOn=ON), RECEIVED], [own(pods=1), RECEIVED], id="over once it is received"
        ),
        pytest.param(
            [own(handedOn=ON, pods=1), RECEIVED],
            [own(handedOn={**ON, "to": "visby", "number": 2}), RECEIVED],
            id="the next one",
        ),
        pytest.param(
            [own(), FROM_LUBECK],
            [own(handedOn=ON, received=[{"name": "lubeck", "number": 2}]), FROM_LUBECK],
            id="what it was handed",
        ),
        pytest.param([own()], [own(pods=1)], id="a permit"),
        pytest.param([], [own(pods=1)], id="its first"),
        pytest.param(
            [{**own(handedOn=ON), "setUID": "old"}], [own(pods=1)], id="that of a former set ends"
        ),
        pytest.param(None, [own(pods=1)], id="in a new record"),
    ],
)
def test_a_permit_is_handed_on_once_and_stands_until_it_is_received(
    before: list[Wire] | None, after: list[Wire]
) -> None:
    assert allowed(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([own()], [own(handedOn=ON)], id="nobody held it"),
        pytest.param([], [own(handedOn=ON)], id="nor was there an entry"),
        pytest.param(None, [own(handedOn=ON)], id="nor a record"),
        pytest.param([own(pods=0)], [own(pods=1, handedOn=ON)], id="what it takes now"),
        pytest.param([own(handedOn=ON)], [own()], id="taken back"),
        pytest.param([own(handedOn=ON)], [], id="with the entry"),
        pytest.param([own(handedOn=ON)], [own(handedOn=OTHER)], id="given to another"),
        pytest.param(
            [own(handedOn=ON)], [{**own(), "setUID": "other"}], id="by the uid of another set"
        ),
        pytest.param([own(pods=1)], [own(handedOn={**ON, "to": "bergen"})], id="to itself"),
        pytest.param(
            [own(received=[{"name": "lubeck", "number": 2}]), FROM_LUBECK],
            [own(handedOn=ON, received=[{"name": "lubeck", "number": 2}]), FROM_LUBECK],
            id="what it was handed and has used",
        ),
    ],
)
def test_a_permit_that_nobody_held_is_not_handed_on_and_none_is_taken_back(
    before: list[Wire] | None, after: list[Wire]
) -> None:
    assert not allowed(before, after)
