"""Laws of the comparison of desired and observed objects, for any objects of a rich kind."""

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.model.objects import (
    Kind,
    Meta,
    Object,
    OwnerReference,
    Value,
    apply_merge_patch,
    to_wire,
)
from hanse.model.ownership import APPLIED, EPOCH
from hanse.model.plan import Key
from hanse.runtime.compare import (
    object_patch,
    patch_has_effect,
    status_patch,
    with_applied_record,
)
from hanse.runtime.ownership import Owner, with_owner
from tests.support.builders import annotated, stored

OWNER = Owner("toy", Key("crate", "c", "default"), "lubeck")


class Slot(Value, frozen=True, kw_only=True):
    name: str = ""
    port: int = 0
    node_port: int = 0


class CrateSpec(Value, frozen=True, kw_only=True):
    size: int = 1
    hint: str | None = None
    address: str = ""
    tags: tuple[str, ...] = ()
    slots: tuple[Slot, ...] = ()
    limits: dict[str, str] = {}
    inner: Slot = Slot()
    options: dict[str, Any] = {}


class CrateStatus(Value, frozen=True, kw_only=True):
    ready: int = 0
    message: str = ""
    seals: tuple[str, ...] = ()


class Crate(Object, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind("toy.hanse.dev", "v1", "Crate", "crates")
    allocated: ClassVar[frozenset[str]] = frozenset(
        {"spec.address", "spec.slots.nodePort", "spec.inner.nodePort", "status.message"}
    )

    spec: CrateSpec = CrateSpec()
    template: dict[str, Any] = {}
    parts: tuple[dict[str, Any], ...] = ()
    status: CrateStatus = CrateStatus()


def crate(
    spec: CrateSpec,
    template: dict[str, Any],
    parts: tuple[dict[str, Any], ...],
    labels: dict[str, str],
    annotations: dict[str, str],
) -> Crate:
    meta = Meta(name="c", namespace="default", labels=labels, annotations=annotations)
    return Crate(metadata=meta, spec=spec, template=template, parts=parts)


words = st.text("abc", min_size=1, max_size=2)
maps = st.dictionaries(words, words, max_size=3)
open_values: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 2) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=5,
)
open_maps = st.dictionaries(words, open_values, max_size=3)
slots = st.builds(Slot, name=words, port=st.integers(0, 2))
specs = st.builds(
    CrateSpec,
    size=st.integers(0, 2),
    hint=st.none() | words,
    address=st.just("") | words,
    tags=st.lists(words, max_size=2).map(tuple),
    slots=st.lists(slots, max_size=2).map(tuple),
    limits=maps,
    inner=slots,
    options=open_maps,
)
crates = st.builds(
    crate,
    spec=specs,
    template=open_maps,
    parts=st.lists(open_maps, max_size=2).map(tuple),
    labels=maps,
    annotations=maps,
)
statuses = st.builds(
    CrateStatus,
    ready=st.integers(0, 2),
    message=st.just("") | words,
    seals=st.lists(words, max_size=2).map(tuple),
)


def applied(obj: Crate, epoch: int = 0) -> Crate:
    """The desired object as the reconciler compares and creates it."""
    return with_applied_record(with_owner(obj, OWNER, epoch=epoch))


def patched(obj: Crate, change: Any) -> Crate:
    """What a server makes of an object and a merge patch, before it fills anything in."""
    return msgspec.convert(apply_merge_patch(to_wire(obj), change), Crate)


def with_server_defaults(obj: Crate) -> Crate:
    """The object with everything that the server allocates or adds to open fields."""
    spec = replace(
        obj.spec,
        address=obj.spec.address or "10.0.0.9",
        slots=tuple(replace(slot, node_port=30080) for slot in obj.spec.slots),
        inner=replace(obj.spec.inner, node_port=30081),
        options=_with_additions(obj.spec.options),
    )
    return replace(
        obj,
        spec=spec,
        template=_with_additions(obj.template),
        parts=tuple(_with_additions(part) for part in obj.parts),
    )


def _with_additions(value: Any) -> Any:
    if isinstance(value, dict):
        return {**{name: _with_additions(inner) for name, inner in value.items()}, "added": 1}
    if isinstance(value, list):
        return [_with_additions(inner) for inner in value]
    return value


def without_allocated(spec: CrateSpec) -> CrateSpec:
    return replace(
        spec,
        address="",
        slots=tuple(replace(slot, node_port=0) for slot in spec.slots),
        inner=replace(spec.inner, node_port=0),
    )


@given(obj=crates)
def test_an_object_does_not_differ_from_itself(obj: Crate) -> None:
    desired = applied(obj)

    assert object_patch(desired, stored(desired)) == {}


@given(obj=crates)
def test_what_the_server_fills_in_is_no_difference(obj: Crate) -> None:
    desired = applied(obj)

    assert object_patch(desired, stored(with_server_defaults(desired))) == {}


@given(first=crates, second=crates)
def test_a_patched_object_is_as_desired_and_differs_no_more(first: Crate, second: Crate) -> None:
    observed, desired = stored(with_server_defaults(applied(first))), applied(second)

    after = patched(observed, object_patch(desired, observed))

    assert object_patch(desired, after) == {}
    assert without_allocated(replace(after.spec, options={})) == without_allocated(
        replace(desired.spec, options={})
    )
    if desired.spec.address:
        assert after.spec.address == desired.spec.address
    assert after.metadata.labels == desired.metadata.labels
    assert after.metadata.annotations == desired.metadata.annotations


@given(first=crates, second=crates)
def test_open_fields_that_we_change_become_exactly_as_desired(first: Crate, second: Crate) -> None:
    assume(
        (first.spec.options, first.template, first.parts)
        != (second.spec.options, second.template, second.parts)
    )
    observed, desired = stored(with_server_defaults(applied(first))), applied(second)

    after = patched(observed, object_patch(desired, observed))

    assert after.template == desired.template
    assert after.parts == desired.parts
    assert after.spec.options == desired.spec.options


@given(obj=crates, template=open_maps)
def test_an_open_field_that_lacks_what_we_set_is_set_again(obj: Crate, template: Any) -> None:
    desired = applied(replace(obj, template={**obj.template, "ours": {"deep": ["x", "y"]}}))
    observed = stored(replace(desired, template=template))
    assume(template.get("ours") != {"deep": ["x", "y"]})

    after = patched(observed, object_patch(desired, observed))

    assert after.template == desired.template
    assert object_patch(desired, after) == {}


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param({"list": ["a"]}, id="a shorter list"),
        pytest.param({"list": ["a", "b", "c"]}, id="a longer list"),
        pytest.param({"list": ["b", "a"]}, id="another order"),
        pytest.param({"list": "ab"}, id="no list"),
        pytest.param({}, id="no field"),
    ],
)
def test_a_list_in_an_open_field_is_compared_element_by_element(observed: dict[str, Any]) -> None:
    desired = applied(Crate(metadata=Meta(name="c"), template={"list": ["a", "b"]}))

    change = object_patch(desired, stored(replace(desired, template=observed)))

    assert patched(replace(desired, template=observed), change).template == {"list": ["a", "b"]}
    assert change["template"]["list"] == ["a", "b"]


@given(obj=crates, theirs=maps, notes=maps)
def test_labels_and_annotations_of_others_stay(
    obj: Crate, theirs: dict[str, str], notes: dict[str, str]
) -> None:
    theirs = {f"theirs/{name}": value for name, value in theirs.items()}
    notes = {f"notes/{name}": value for name, value in notes.items()}
    desired = applied(obj)
    meta = desired.metadata
    others = replace(
        meta, labels={**meta.labels, **theirs}, annotations={**meta.annotations, **notes}
    )

    assert object_patch(desired, stored(replace(desired, metadata=others))) == {}


@given(first=crates, second=crates, theirs=maps)
def test_labels_that_we_applied_before_are_removed_and_no_others(
    first: Crate, second: Crate, theirs: dict[str, str]
) -> None:
    theirs = {f"theirs/{name}": value for name, value in theirs.items()}
    before, desired = applied(first), applied(second)
    labels = {**before.metadata.labels, **theirs}
    observed = stored(replace(before, metadata=replace(before.metadata, labels=labels)))

    change = object_patch(desired, observed)
    removed = {n for n, v in change.get("metadata", {}).get("labels", {}).items() if v is None}

    assert removed == first.metadata.labels.keys() - second.metadata.labels.keys()
    assert patched(observed, change).metadata.labels == {**desired.metadata.labels, **theirs}


@given(first=crates, second=crates)
def test_a_patch_has_an_effect_and_names_only_what_differs(first: Crate, second: Crate) -> None:
    observed, desired = stored(applied(first)), applied(second)

    change = object_patch(desired, observed)

    assert patch_has_effect(change, observed) == bool(change)
    assert "status" not in change
    spec = change.get("spec", {})
    for field, encoded in (("size", "size"), ("hint", "hint"), ("tags", "tags")):
        differs = getattr(desired.spec, field) != getattr(observed.spec, field)
        assert (encoded in spec) == differs, field
    for name, value in (spec.get("limits") or {}).items():
        assert desired.spec.limits.get(name) == value != observed.spec.limits.get(name, "")


@given(obj=crates, size=st.integers(2, 4))
def test_a_field_that_is_not_desired_is_reset_to_its_default(obj: Crate, size: int) -> None:
    desired = applied(replace(obj, spec=replace(obj.spec, size=1, hint=None, tags=(), limits={})))
    changed = replace(desired.spec, size=size, hint="x", tags=("t",), limits={"cpu": "1"})

    change = object_patch(desired, stored(replace(desired, spec=changed)))

    assert change == {"spec": {"size": None, "hint": None, "tags": None, "limits": {"cpu": None}}}


def test_an_empty_string_is_as_good_as_none() -> None:
    desired = applied(Crate(metadata=Meta(name="c"), spec=CrateSpec(hint=None)))
    observed = stored(replace(desired, spec=replace(desired.spec, hint="")))

    assert object_patch(desired, observed) == {}


@given(obj=crates)
def test_lists_are_replaced_as_a_whole(obj: Crate) -> None:
    tags = ("first", *obj.spec.tags)
    ports = (Slot(name="new", port=1), *obj.spec.slots)
    desired = applied(replace(obj, spec=replace(obj.spec, tags=tags, slots=ports)))
    before = replace(obj.spec, tags=tags[::-1], slots=ports[::-1])
    assume(tags != tags[::-1] and ports != ports[::-1])

    change = object_patch(desired, stored(replace(desired, spec=before)))

    assert change == {
        "spec": {"tags": tags, "slots": msgspec.to_builtins(ports)},
    }


@given(obj=crates, field=st.sampled_from(["name", "port"]))
def test_what_the_server_allocates_in_a_list_hides_no_difference(obj: Crate, field: str) -> None:
    slot = Slot(name="web", port=8)
    desired = applied(replace(obj, spec=replace(obj.spec, slots=(slot,))))
    other = replace(slot, node_port=30080, **{field: "x" if field == "name" else 9})
    observed = stored(replace(desired, spec=replace(desired.spec, slots=(other,))))

    assert object_patch(desired, observed) == {"spec": {"slots": (msgspec.to_builtins(slot),)}}


@given(obj=crates, other=statuses, desired_status=statuses)
def test_status_is_patched_by_itself_until_it_is_as_desired(
    obj: Crate, other: CrateStatus, desired_status: CrateStatus
) -> None:
    desired = applied(replace(obj, status=desired_status))
    observed = stored(replace(desired, status=other))

    change = status_patch(desired, observed)
    after = patched(observed, change)

    assert object_patch(desired, observed) == {}
    assert change.keys() <= {"status"}
    assert status_patch(desired, after) == {}
    if desired_status == CrateStatus():
        assert change == {}
    else:
        assert after.status.ready == desired_status.ready
        assert after.status.seals == desired_status.seals
        assert after.status.message == (desired_status.message or other.message)
    assert patch_has_effect(change, observed) == bool(change)


@given(obj=crates, epochs=st.tuples(st.integers(1, 3), st.integers(4, 6)))
def test_a_new_epoch_alone_is_not_written_and_goes_with_any_change(
    obj: Crate, epochs: tuple[int, int]
) -> None:
    older, newer = epochs
    obj = replace(obj, metadata=replace(obj.metadata, labels={"tier": "1"}))
    observed = stored(applied(obj, older))
    changed = replace(obj, spec=replace(obj.spec, size=9))
    relabelled = replace(obj, metadata=replace(obj.metadata, labels={"tier": "2"}))

    assert object_patch(applied(obj, newer), observed) == {}
    for desired in (changed, relabelled):
        change = object_patch(applied(desired, newer), observed)
        assert change["metadata"]["annotations"][EPOCH] == str(newer)


@given(obj=crates, finalizers=st.lists(words, min_size=1, max_size=2, unique=True).map(tuple))
def test_finalizers_and_owner_references_are_set_and_never_taken_away(
    obj: Crate, finalizers: tuple[str, ...]
) -> None:
    owners = (OwnerReference(api_version="v1", kind="Pod", name="p", uid="u"),)
    with_both = replace(obj.metadata, finalizers=finalizers, owner_references=owners)
    plain, full = applied(obj), applied(replace(obj, metadata=with_both))

    assert object_patch(plain, stored(full)) == {}
    assert object_patch(full, stored(full)) == {}
    assert object_patch(full, stored(plain))["metadata"] == {
        "finalizers": finalizers,
        "ownerReferences": msgspec.to_builtins(owners),
    }


@given(obj=crates, text=st.sampled_from(["", "{", "[]", '{"labels": 3}', "null"]))
def test_an_unreadable_record_of_what_we_applied_removes_nothing(obj: Crate, text: str) -> None:
    desired = applied(replace(obj, metadata=replace(obj.metadata, labels={"ours": "1"})))
    observed = annotated(replace(desired, metadata=replace(desired.metadata)), {APPLIED: text})
    labels = {**observed.metadata.labels, "old": "2"}
    observed = stored(replace(observed, metadata=replace(observed.metadata, labels=labels)))

    after = patched(observed, object_patch(desired, observed))

    assert after.metadata.labels["old"] == "2"
    assert after.metadata.annotations[APPLIED] == desired.metadata.annotations[APPLIED]


@given(obj=crates)
def test_our_own_marks_are_not_in_the_record_of_what_we_applied(obj: Crate) -> None:
    desired = applied(obj, epoch=4)
    record = msgspec.json.decode(desired.metadata.annotations.get(APPLIED, "{}"))

    assert record.get("labels", []) == sorted(obj.metadata.labels)
    assert record.get("annotations", []) == sorted(obj.metadata.annotations)
    has_open = bool(obj.spec.options or obj.template or obj.parts)
    assert ("open" in record) or not has_open


@given(obj=crates, name=words, value=words)
def test_a_patch_has_an_effect_only_on_fields_that_the_kind_has(
    obj: Crate, name: str, value: str
) -> None:
    observed = stored(applied(obj))

    assert not patch_has_effect({}, observed)
    assert not patch_has_effect(msgspec.to_builtins(observed, str_keys=True), observed)
    assert not patch_has_effect({"spec": {"unknown": value}}, observed)
    assert not patch_has_effect({"spec": {"limits": {"absent": None}}}, observed)
    assert patch_has_effect({"spec": {"size": obj.spec.size + 1}}, observed)
    same = obj.spec.limits.get(name) == value
    assert patch_has_effect({"spec": {"limits": {name: value}}}, observed) is not same
