"""Storage: objects, versions, history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinykube.resources import Object
from tinykube.storage import (
    Change,
    Compacted,
    KeyExists,
    KeyNotFound,
    Restored,
    Storage,
    StorageEvent,
)


def config_map(name: str, namespace: str = "default", **fields: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def names(storage: Storage, namespace: str = "") -> list[str]:
    return [obj["metadata"]["name"] for obj in storage.objects("things", namespace)]


def test_every_write_raises_one_version_for_the_whole_cluster() -> None:
    storage = Storage()

    first = storage.create("things", config_map("a"))
    second = storage.create("others", config_map("b"))
    third = storage.replace("things", config_map("a", colour="red"))

    versions = [obj["metadata"]["resourceVersion"] for obj in (first, second, third)]
    assert versions == ["1", "2", "3"]
    assert storage.version == 3


def test_a_stored_object_is_replaced_and_never_changed() -> None:
    storage = Storage()
    before = storage.create("things", config_map("a", colour="red"))

    storage.replace("things", config_map("a", colour="blue"))

    assert before["colour"] == "red"
    assert before["metadata"]["resourceVersion"] == "1"


def test_a_name_can_be_taken_once() -> None:
    storage = Storage()
    storage.create("things", config_map("a"))

    with pytest.raises(KeyExists):
        storage.create("things", config_map("a"))

    assert storage.version == 1


def test_a_missing_object_cannot_be_replaced_or_removed() -> None:
    storage = Storage()

    with pytest.raises(KeyNotFound):
        storage.replace("things", config_map("a"))
    with pytest.raises(KeyNotFound):
        storage.remove("things", "default", "a")


def test_lists_are_sorted_by_whole_keys() -> None:
    storage = Storage()
    for namespace, name in (("a", "z"), ("a-b", "m"), ("a", "b")):
        storage.create("things", config_map(name, namespace))

    # a dash comes before the slash that ends a namespace
    assert names(storage) == ["m", "b", "z"]
    assert names(storage, "a") == ["b", "z"]
    assert storage.count("things") == 3
    assert storage.count("things", "a-b") == 1


def test_changes_since_a_version_come_oldest_first() -> None:
    storage = Storage()
    storage.create("things", config_map("a"))
    storage.replace("things", config_map("a", colour="red"))
    storage.remove("things", "default", "a")

    assert [change.type for change in storage.since("things", 0)] == [
        "ADDED",
        "MODIFIED",
        "DELETED",
    ]
    assert [change.version for change in storage.since("things", 2)] == [3]


def test_a_removal_carries_the_last_state_and_its_own_version() -> None:
    storage = Storage()
    storage.create("things", config_map("a", colour="red"))

    gone = storage.remove("things", "default", "a")

    assert gone["colour"] == "red"
    assert gone["metadata"]["resourceVersion"] == "2"


def test_history_is_bounded_and_the_error_has_its_start() -> None:
    storage = Storage(history=2)
    for name in ("a", "b", "c"):
        storage.create("things", config_map(name))

    with pytest.raises(Compacted) as refused:
        storage.since("things", 0)

    assert refused.value.oldest == 1
    assert [change.version for change in storage.since("things", 1)] == [2, 3]


def test_lost_history_makes_every_follower_list_again() -> None:
    storage = Storage()
    storage.create("things", config_map("a"))
    storage.create("things", config_map("b"))

    storage.compact()

    with pytest.raises(Compacted):
        storage.since("things", 1)
    with pytest.raises(Compacted):
        storage.since("never seen", 1)
    assert storage.since("things", 2) == []


def test_a_listener_gets_the_changes_of_its_store_until_it_unsubscribes() -> None:
    storage = Storage()
    heard: list[StorageEvent] = []
    stop = storage.subscribe(heard.append, "things")

    storage.create("things", config_map("a"))
    storage.create("others", config_map("b"))
    stop()
    storage.create("things", config_map("c"))

    assert [n.object["metadata"]["name"] for n in heard if isinstance(n, Change)] == ["a"]


def test_a_restored_backup_brings_back_objects_and_version() -> None:
    storage = Storage()
    storage.create("things", config_map("a"))
    backup = storage.snapshot()
    storage.create("things", config_map("b"))
    storage.remove("things", "default", "a")
    heard: list[StorageEvent] = []
    storage.subscribe(heard.append)

    storage.restore(backup)

    assert names(storage) == ["a"]
    assert storage.version == 1
    assert heard == [Restored(1)]
    with pytest.raises(Compacted):
        storage.since("things", 0)


@given(
    st.lists(
        st.tuples(st.sampled_from("cud"), st.sampled_from(["a", "b", "c"]), st.sampled_from("xy")),
        max_size=30,
    )
)
def test_any_past_version_in_the_history_can_be_listed(steps: list[tuple[str, str, str]]) -> None:
    storage = Storage()
    seen: dict[int, list[Object]] = {0: []}
    for verb, name, namespace in steps:
        present = storage.get("things", namespace, name) is not None
        if verb == "c" and not present:
            storage.create("things", config_map(name, namespace))
        elif verb == "u" and present:
            storage.replace("things", config_map(name, namespace, at=str(storage.version)))
        elif verb == "d" and present:
            storage.remove("things", namespace, name)
        seen[storage.version] = list(storage.objects("things"))

    for version, objects in seen.items():
        assert storage.objects_at("things", "", version) == objects
        inside = [obj for obj in objects if obj["metadata"]["namespace"] == "x"]
        assert storage.objects_at("things", "x", version) == inside
