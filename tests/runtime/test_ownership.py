import pytest
from msgspec.structs import replace

from hanse.model.kinds.core import ConfigMap
from hanse.model.ownership import OWNER, OWNER_KEY
from hanse.model.plan import Key
from hanse.runtime.ownership import (
    Owner,
    OwnershipIndex,
    epoch_of,
    owner_of,
    sources_of,
    with_owner,
)
from tests.support.builders import annotated, configmap, labelled, stored

OWNER_ONE = Owner("toy", Key("copy", "shop", "default"), "lubeck")


def test_an_object_with_our_marks_is_ours() -> None:
    obj = with_owner(configmap("shop"), OWNER_ONE, frozenset({"b", "a"}), epoch=7)

    assert owner_of(obj) == OWNER_ONE
    assert sources_of(obj) == {"a", "b"}
    assert epoch_of(obj) == 7


def _renamed(obj: ConfigMap) -> ConfigMap:
    return replace(obj, metadata=replace(obj.metadata, name="another"))


def _moved(obj: ConfigMap) -> ConfigMap:
    return replace(obj, metadata=replace(obj.metadata, namespace="elsewhere"))


def _relabelled(obj: ConfigMap) -> ConfigMap:
    labels = {**obj.metadata.labels, OWNER: "toy-0000000000000000"}
    return replace(obj, metadata=replace(obj.metadata, labels=labels))


def _garbled(obj: ConfigMap) -> ConfigMap:
    return annotated(obj, {OWNER_KEY: "{not json"})


@pytest.mark.parametrize("spoil", [_renamed, _moved, _relabelled, _garbled])
def test_copied_or_garbled_marks_do_not_make_an_object_ours(spoil: object) -> None:
    obj = with_owner(configmap("shop"), OWNER_ONE)

    assert callable(spoil)
    assert owner_of(spoil(obj)) is None


def test_an_object_that_lost_its_label_is_still_ours_and_gets_it_again() -> None:
    obj = with_owner(configmap("shop"), OWNER_ONE)
    unlabelled = replace(obj, metadata=replace(obj.metadata, labels={}))

    assert owner_of(unlabelled) == OWNER_ONE
    assert with_owner(configmap("shop"), OWNER_ONE, observed=unlabelled) == obj


def test_our_bookkeeping_is_never_replicated() -> None:
    marked = with_owner(configmap("shop"), OWNER_ONE, frozenset({"bergen"}), epoch=3)
    other = Owner("toy", Key("copy", "shop", "default"), "hamburg")

    again = with_owner(marked, other)

    assert owner_of(again) == other
    assert sources_of(again) == frozenset()
    assert epoch_of(again) == 0


def test_a_label_fits_whatever_the_key() -> None:
    long = Owner("statefulsets", Key("set", "n" * 253, "s" * 63), "c" * 63)

    assert len(long.label) <= 63


def test_the_index_follows_creation_change_of_owner_and_deletion() -> None:
    owned = OwnershipIndex()
    other = Owner("toy", Key("copy", "inn", "default"), "lubeck")
    first = stored(with_owner(configmap("shop"), OWNER_ONE))
    second = stored(with_owner(configmap("shop"), other))

    owned.update("lubeck", None, first)
    assert [o for _, _, o in owned.of("toy", OWNER_ONE.key)] == [first]
    assert owned.count("lubeck", "toy") == 1

    owned.update("lubeck", first, second)
    assert list(owned.of("toy", OWNER_ONE.key)) == []
    assert owned.count("lubeck", "toy") == 1

    owned.update("lubeck", second, None)
    assert owned.count("lubeck", "toy") == 0
    assert list(owned.items()) == []


def test_a_label_alone_counts_for_nothing() -> None:
    owned = OwnershipIndex()

    owned.update("lubeck", None, labelled(configmap("shop"), hanse__dev_owner=OWNER_ONE.label))

    assert list(owned.items()) == []
