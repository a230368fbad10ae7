"""What is replicated of a policy, and when two policies say the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.features.policies.content import (
    FEDERATED,
    build_policy,
    content_digest,
    is_federated,
    patch_to_content,
    patch_to_unfederated,
    replicated_content,
)
from hanse.features.policies.ledger import parse_version_annotation, version_annotation
from hanse.features.policies.versions import Dot
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy
from hanse.model.objects import Meta, Wire, apply_merge_patch
from hanse.model.plan import Key

KEY = Key("acnp", "deny")
MARK = version_annotation(KEY, Dot("lubeck~1", 3), "abc")


def policy(
    spec: Wire, labels: dict[str, str] | None = None, **marks: str
) -> AntreaClusterNetworkPolicy:
    notes = {FEDERATED: "true", **marks}
    return AntreaClusterNetworkPolicy(
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

    assert (
        content_digest(replicated_content(plain)) == content_digest(replicated_content(admitted))
    ) is same


def test_bookkeeping_is_not_replicated() -> None:
    noted = policy(
        {"priority": 5},
        {"team": "net", "hanse.dev/owner": "x"},
        **MARK,
        **{"kubectl.kubernetes.io/last-applied-configuration": "{}", "why": "because"},
    )

    content = replicated_content(noted)

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
    content = replicated_content(policy(wanted, labels))
    before = policy(standing, others)

    change = patch_to_content(content, before, MARK)
    spec = apply_merge_patch(before.spec, change.get("spec", {}))
    meta = change["metadata"]

    assert spec == wanted
    assert apply_merge_patch(others, meta["labels"]) == labels
    notes = apply_merge_patch(before.metadata.annotations, meta["annotations"])
    assert notes == {FEDERATED: "true", **MARK}


def test_what_is_made_elsewhere_says_the_same_and_which_version_it_is() -> None:
    content = replicated_content(policy({"priority": 5}, {"team": "net"}, why="because"))

    made = build_policy(KEY, content, MARK)

    assert replicated_content(made) == content
    assert is_federated(made)
    mark = parse_version_annotation(KEY, made.metadata.annotations)
    assert mark is not None
    assert (mark.dot, mark.digest) == (Dot("lubeck~1", 3), "abc")
    assert parse_version_annotation(Key("acnp", "copy"), made.metadata.annotations) is None


def test_every_spelling_of_the_annotation_counts_and_goes_when_a_policy_is_orphaned() -> None:
    other = policy({})
    name = "federated.anp.antreaplus.vmware-tanzu.com"
    spelled = AntreaClusterNetworkPolicy(
        metadata=Meta(name="deny", annotations={name: "true", **MARK})
    )

    assert is_federated(other)
    assert is_federated(spelled)
    after = apply_merge_patch(
        {"annotations": spelled.metadata.annotations}, patch_to_unfederated(spelled)["metadata"]
    )
    assert after == {"annotations": {}}


@pytest.mark.parametrize("value", ["", "x", "a:b c d", "lubeck~1:x abc 12345678", ":1 a b"])
def test_a_version_annotation_that_we_did_not_write_is_ignored(value: str) -> None:
    assert parse_version_annotation(KEY, {"ledger.hanse.dev/version": value}) is None
