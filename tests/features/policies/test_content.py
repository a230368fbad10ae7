"""What is replicated of a policy, and when two policies say the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.features.policies.content import (
    FEDERATED,
    change_to,
    change_to_plain,
    content_of,
    digest_of,
    is_federated,
    made_of,
)
from hanse.features.policies.ledger import mark_in, mark_of
from hanse.features.policies.versions import Dot
from hanse.model.keys import Key
from hanse.model.kinds.antrea import ClusterNetworkPolicy
from hanse.model.merging import merge
from hanse.model.objects import Meta, Wire

KEY = Key("acnp", "deny")
MARK = mark_of(KEY, Dot("lubeck~1", 3), "abc")


def policy(spec: Wire, labels: dict[str, str] | None = None, **marks: str) -> ClusterNetworkPolicy:
    notes = {FEDERATED: "true", **marks}
    return ClusterNetworkPolicy(
        metadata=Meta(name="deny", labels=labels or {}, annotations=notes), spec=spec
    )


RULE: Wire = {"action": "Drop", "to": [{"group": "web"}]}


@pytest.mark.parametrize(
    ("filled", "same"),
    [
        pytest.param({"tier": "application"}, True, id="the default tier"),
        pytest.param({"tier": "emergency"}, False, id="another tier"),
        pytest.param({"egress": [{**RULE, "name": "egress-drop-1a2b3c4"}]}, True, id="rule name"),
        pytest.param({"egress": [{**RULE, "name": "no-web"}]}, False, id="a person's rule name"),
        pytest.param({"egress": [{**RULE, "enableLogging": False}]}, True, id="no logging"),
        pytest.param({"egress": [RULE, RULE]}, False, id="one more rule"),
        pytest.param({"ingress": []}, True, id="no rules"),
    ],
)
def test_what_admission_fills_in_makes_no_difference(filled: Wire, same: bool) -> None:
    plain = policy({"priority": 5, "egress": [RULE]})
    admitted = policy({"priority": 5, "egress": [RULE], **filled})

    assert (digest_of(content_of(plain)) == digest_of(content_of(admitted))) is same


def test_bookkeeping_is_not_replicated() -> None:
    noted = policy(
        {"priority": 5},
        {"team": "net", "hanse.dev/owner": "x"},
        **MARK,
        **{"kubectl.kubernetes.io/last-applied-configuration": "{}", "why": "because"},
    )

    content = content_of(noted)

    assert content.labels == {"team": "net"}
    assert content.annotations == {"why": "because"}


json_values: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pqr"), inner),
    max_leaves=6,
)
specs = st.dictionaries(st.sampled_from("xyz"), json_values)
marks = st.dictionaries(st.sampled_from(["team", "why"]), st.sampled_from(["1", "2"]))


@given(specs, marks, specs, marks)
def test_a_patch_leaves_exactly_what_is_wanted(
    wanted: Wire, labels: dict[str, str], standing: Wire, others: dict[str, str]
) -> None:
    content = content_of(policy(wanted, labels))
    before = policy(standing, others)

    change = change_to(content, before, MARK)
    spec = merge(before.spec, change.get("spec", {}))
    meta = change["metadata"]

    assert spec == wanted
    assert merge(others, meta["labels"]) == labels
    notes = merge(before.metadata.annotations, meta["annotations"])
    assert notes == {FEDERATED: "true", **MARK}


def test_what_is_made_elsewhere_says_the_same_and_which_version_it_is() -> None:
    content = content_of(policy({"priority": 5}, {"team": "net"}, why="because"))

    made = made_of(KEY, content, MARK)

    assert content_of(made) == content
    assert is_federated(made)
    mark = mark_in(KEY, made.metadata.annotations)
    assert mark is not None
    assert (mark.dot, mark.digest) == (Dot("lubeck~1", 3), "abc")
    assert mark_in(Key("acnp", "copy"), made.metadata.annotations) is None


def test_every_spelling_of_the_annotation_counts_and_goes_when_a_policy_is_orphaned() -> None:
    other = policy({})
    name = "federated.anp.antreaplus.vmware-tanzu.com"
    spelled = ClusterNetworkPolicy(metadata=Meta(name="deny", annotations={name: "true", **MARK}))

    assert is_federated(other)
    assert is_federated(spelled)
    after = merge(
        {"annotations": spelled.metadata.annotations}, change_to_plain(spelled)["metadata"]
    )
    assert after == {"annotations": {}}


@pytest.mark.parametrize("told", ["", "x", "a:b c d", "lubeck~1:x abc 12345678", ":1 a b"])
def test_a_mark_that_nobody_of_us_wrote_is_none(told: str) -> None:
    assert mark_in(KEY, {"ledger.hanse.dev/version": told}) is None
