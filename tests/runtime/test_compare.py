"""The comparison of what is desired with what stands."""

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.model.kinds.core import ConfigMap, Service, ServicePort, ServiceSpec
from hanse.model.objects import K, Kind, Meta, Object, Value, apply_merge_patch, to_wire
from hanse.model.ownership import EPOCH
from hanse.model.plan import Key
from hanse.runtime.compare import object_patch, patch_has_effect, status_patch, with_applied_record
from hanse.runtime.ownership import Owner, with_owner
from tests.support.builders import annotated, configmap, labelled, stored

OWNER = Owner("toy", Key("copy", "shop", "default"), "lubeck")


class BoxSpec(Value, frozen=True, kw_only=True):
    size: int = 1
    sealed: bool = False
    tags: tuple[str, ...] = ()


class BoxStatus(Value, frozen=True, kw_only=True):
    weight: int = 0


class Box(Object, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind("toy.hanse.dev", "v1", "Box", "boxes")

    spec: BoxSpec = BoxSpec()
    template: dict[str, Any] = {}
    status: BoxStatus = BoxStatus()


def written(obj: K) -> K:
    return with_applied_record(with_owner(obj, OWNER))


def applied(obj: K, change: Any) -> K:
    """The object after a merge patch."""
    body = apply_merge_patch(to_wire(obj), change)
    return msgspec.convert(body, type(obj))


def box(**fields: Any) -> Box:
    return Box(metadata=Meta(name="box", namespace="default"), **fields)


def test_nothing_is_written_when_nothing_differs() -> None:
    desired = written(configmap("shop", open="yes"))

    assert object_patch(desired, stored(desired)) == {}


def test_a_field_that_somebody_changed_from_its_default_is_put_back() -> None:
    desired = written(box())
    observed = stored(replace(desired, spec=BoxSpec(sealed=True, size=4)))

    assert object_patch(desired, observed) == {"spec": {"sealed": None, "size": None}}


def test_what_the_server_allocates_is_left_alone() -> None:
    ports = (ServicePort(port=80, name="web"),)
    desired = written(
        Service(metadata=Meta(name="s", namespace="d"), spec=ServiceSpec(ports=ports))
    )
    given_ports = (ServicePort(port=80, name="web", target_port=80, node_port=30080),)
    spec = replace(
        desired.spec,
        ports=given_ports,
        cluster_ip="10.0.0.9",
        cluster_ips=("10.0.0.9",),
        ip_families=("IPv4",),
        ip_family_policy="SingleStack",
    )

    assert object_patch(desired, stored(replace(desired, spec=spec))) == {}


def test_others_labels_and_annotations_are_kept_and_ours_taken_back() -> None:
    first = written(labelled(configmap("shop"), ours="1", old="2"))
    observed = stored(annotated(labelled(first, theirs="3"), {"note": "by hand"}))
    desired = written(labelled(configmap("shop"), ours="1"))

    change = object_patch(desired, observed)
    after = applied(observed, change)

    assert after.metadata.labels.get("theirs") == "3"
    assert after.metadata.annotations.get("note") == "by hand"
    assert "old" not in after.metadata.labels
    assert object_patch(desired, after) == {}


def test_a_key_that_we_never_set_is_removed_from_data() -> None:
    desired = written(configmap("shop", open="yes"))
    observed = stored(replace(desired, data={"open": "yes", "extra": "x"}))

    assert object_patch(desired, observed) == {"data": {"extra": None}}


def test_a_new_leader_takes_over_without_a_write() -> None:
    older = with_applied_record(with_owner(configmap("shop"), OWNER, epoch=3))
    newer = with_applied_record(with_owner(configmap("shop"), OWNER, epoch=4))

    assert object_patch(newer, stored(older)) == {}


def test_a_change_carries_the_new_epoch() -> None:
    older = with_applied_record(with_owner(configmap("shop", a="1"), OWNER, epoch=3))
    newer = with_applied_record(with_owner(configmap("shop", a="2"), OWNER, epoch=4))

    assert object_patch(newer, stored(older)) == {
        "data": {"a": "2"},
        "metadata": {"annotations": {EPOCH: "4"}},
    }


def test_defaults_that_the_server_fills_into_an_open_part_are_no_difference() -> None:
    desired = written(box(template={"spec": {"containers": [{"name": "a"}]}}))
    filled = {"spec": {"containers": [{"name": "a", "pull": "Always"}], "grace": 30}}

    assert object_patch(desired, stored(replace(desired, template=filled))) == {}


def test_a_field_taken_out_of_an_open_part_is_removed() -> None:
    first = written(box(template={"spec": {"grace": 5, "host": "x", "deep": {"a": 1}}}))
    desired = written(box(template={"spec": {"host": "x", "deep": {"b": 2}}}))

    after = applied(stored(first), object_patch(desired, stored(first)))

    assert after.template == {"spec": {"host": "x", "deep": {"b": 2}}}
    assert object_patch(desired, after) == {}


def test_status_is_compared_by_itself() -> None:
    desired = written(box(status=BoxStatus(weight=9)))
    observed = stored(replace(desired, status=BoxStatus()))

    assert object_patch(desired, observed) == {}
    assert status_patch(desired, observed) == {"status": {"weight": 9}}


def test_no_status_desired_means_none_is_taken_away() -> None:
    assert status_patch(written(box()), stored(written(box(status=BoxStatus(weight=9))))) == {}


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        pytest.param({"data": {"a": "1"}}, False, id="as it is"),
        pytest.param({"data": {"a": "2"}}, True, id="another value"),
        pytest.param({"data": {"b": None}}, False, id="removing what is not there"),
        pytest.param({"data": {"a": None}}, True, id="removing"),
        pytest.param({"metadata": {"labels": {}}}, False, id="nothing at all"),
    ],
)
def test_a_patch_is_sent_only_if_it_changes_something(change: Any, needed: bool) -> None:
    assert patch_has_effect(change, stored(configmap("shop", a="1"))) is needed


_words = st.text("abc", min_size=1, max_size=2)
_maps = st.dictionaries(_words, _words, max_size=3)
_open: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 3) | _words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=6,
)
_boxes = st.builds(
    box,
    spec=st.builds(
        BoxSpec,
        size=st.integers(0, 3),
        sealed=st.booleans(),
        tags=st.lists(_words, max_size=2).map(tuple),
    ),
    template=st.dictionaries(_words, _open, max_size=3),
)


@given(first=_boxes, second=_boxes, labels=_maps, more=_maps)
def test_the_difference_after_applying_is_empty(
    first: Box, second: Box, labels: dict[str, str], more: dict[str, str]
) -> None:
    observed = stored(written(replace(first, metadata=replace(first.metadata, labels=labels))))
    desired = written(replace(second, metadata=replace(second.metadata, labels=more)))

    after = applied(observed, object_patch(desired, observed))

    assert object_patch(desired, after) == {}
    assert after.spec == desired.spec
    assert after.template == desired.template
    assert set(after.metadata.labels) == set(desired.metadata.labels)


@given(target=_open, patch=_open)
def test_merging_twice_is_merging_once(target: Any, patch: Any) -> None:
    once = apply_merge_patch(target, patch)

    assert apply_merge_patch(once, patch) == once


def test_configmaps_keep_their_type() -> None:
    assert isinstance(written(configmap("shop")), ConfigMap)
