"""What is known of one kind: however news interleave, the newest wins and nothing is made up."""

from collections.abc import Iterable
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hanse.kube.errors import Unreachable
from hanse.kube.store import Store, StoreChange
from hanse.kube.watch_events import (
    Applied,
    Deleted,
    DeletedUnreadable,
    Interrupted,
    Listed,
    NotServed,
    Progress,
    Unreadable,
)
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta
from hanse.model.snapshot import Index


def decode_twice(**texts: str) -> tuple[ConfigMap, ConfigMap]:
    """Two objects with the same labels and annotations, each decoded by itself."""
    meta = {"namespace": "shop", "labels": texts, "annotations": texts}
    one, other = (msgspec.json.encode({"metadata": {"name": name, **meta}}) for name in ("a", "b"))
    return msgspec.json.decode(one, type=ConfigMap), msgspec.json.decode(other, type=ConfigMap)


def words_of(obj: ConfigMap) -> list[str]:
    meta = obj.metadata
    return [
        meta.namespace,
        *(w for m in (meta.labels, meta.annotations) for p in m.items() for w in p),
    ]


def test_strings_that_objects_share_are_interned() -> None:
    annotations = {
        "multicluster.kubernetes.io/source-cluster": "lubeck in the north",
        "tier": "back end",
    }
    one, other = decode_twice(**annotations)
    store: Store[ConfigMap] = Store()

    store.apply_event(Listed((one, other), "1"))

    kept, again = (words_of(obj) for obj in store.all())
    assert kept == again
    assert all(word is same for word, same in zip(kept, again, strict=True))


def test_a_long_annotation_is_not_interned() -> None:
    one, other = decode_twice(notes="x" * 5_000)
    store: Store[ConfigMap] = Store()

    store.apply_event(Listed((one, other), "1"))

    notes, others = (obj.metadata.annotations["notes"] for obj in store.all())
    assert notes == others == "x" * 5_000
    assert notes is not others


def thing(
    name: str, version: int, *, uid: str = "", owner: str = "", space: str = "s"
) -> ConfigMap:
    return ConfigMap(
        metadata=Meta(
            name=name,
            namespace=space,
            uid=uid or f"uid-{name}",
            resource_version=str(version),
            labels={"owner": owner} if owner else {},
        )
    )


BY_OWNER: Index[ConfigMap] = Index(
    ConfigMap, "owner", lambda o: filter(None, [o.metadata.labels.get("owner")])
)


def filled(*things: ConfigMap, version: int = 10) -> Store[ConfigMap]:
    store = Store([BY_OWNER])
    store.apply_event(Listed(things, str(version)))
    return store


def names(things: Iterable[ConfigMap]) -> set[str]:
    return {one.name for one in things}


def test_it_is_synced_by_its_first_list() -> None:
    store: Store[ConfigMap] = Store()

    before = store.synced
    store.apply_event(Listed((), "1"))

    assert (before, store.synced) == (False, True)


def test_objects_are_found_by_name_namespace_and_index() -> None:
    store = filled(
        thing("a", 1, owner="x"), thing("b", 2, owner="x", space="t"), thing("c", 3, owner="y")
    )

    assert store.get("t", "b") == thing("b", 2, owner="x", space="t")
    assert names(store.in_namespace("s")) == {"a", "c"}
    assert names(store.by("owner", "x")) == {"a", "b"}
    assert (store.count("owner", "x"), store.count("owner", "z")) == (2, 0)


def test_an_index_follows_what_changes() -> None:
    store = filled(thing("a", 1, owner="x"))

    store.apply_event(Applied(thing("a", 11, owner="y")))
    moved = (names(store.by("owner", "x")), names(store.by("owner", "y")))
    store.apply_event(Deleted(thing("a", 12, owner="y")))

    assert moved == (set(), {"a"})
    assert names(store.by("owner", "y")) == set()
    assert list(store.in_namespace("s")) == []


def test_an_older_event_does_not_undo_a_newer_one() -> None:
    store = filled()
    store.put(thing("a", 30))

    late = store.apply_event(Applied(thing("a", 20)))
    known = store.get("s", "a")

    assert list(late) == []
    assert known is not None
    assert known.metadata.resource_version == "30"


def test_what_we_wrote_survives_a_list_from_before() -> None:
    store = filled()
    store.put(thing("a", 30))

    changed = store.apply_event(Listed((), "25"))

    assert list(changed) == []
    assert names(store.all()) == {"a"}


def test_what_we_deleted_is_kept_until_the_watch_has_delivered_earlier_events() -> None:
    store = filled(thing("a", 9))
    store.mark_deleting(thing("a", 9))

    ending = store.is_deleting(thing("a", 9))
    first = list(store.apply_event(Applied(thing("b", 12))))
    then = list(store.apply_event(Deleted(thing("a", 13))))

    assert ending
    assert first == [StoreChange(None, thing("b", 12))]
    assert then == [StoreChange(thing("a", 9), None)]
    assert not store.is_deleting(thing("a", 9))


def test_a_list_newer_than_our_deletion_confirms_it() -> None:
    store = filled(thing("a", 9))
    store.mark_deleting(thing("a", 9))

    before = list(store.apply_event(Listed((thing("a", 9),), "11")))
    still = store.is_deleting(thing("a", 9))
    after = list(store.apply_event(Listed((), "14")))

    assert (before, still) == ([], True)
    assert after == [StoreChange(thing("a", 9), None, live=False)]
    assert not store.is_deleting(thing("a", 9))


def test_what_we_deleted_and_a_restore_brought_back_is_there_again() -> None:
    store = filled(thing("a", 9), version=50)
    store.mark_deleting(thing("a", 9))

    store.apply_event(Listed((thing("a", 9),), "20"))

    assert store.rewinds == 1
    assert not store.is_deleting(thing("a", 9))


def test_the_end_of_what_is_not_here_is_not_waited_for() -> None:
    store = filled(thing("a", 9, uid="another"))

    store.mark_deleting(thing("a", 8))

    assert not store.is_deleting(thing("a", 8))


def test_a_forgotten_object_is_not_restored_by_an_older_event() -> None:
    store = filled(thing("a", 9))

    gone = store.forget(thing("a", 9))
    late = store.apply_event(Applied(thing("a", 9)))
    in_a_list = store.apply_event(Listed((thing("a", 9),), "11"))

    assert gone == (StoreChange(thing("a", 9), None),)
    assert (list(late), list(in_a_list)) == ([], [])
    assert len(store) == 0


def test_a_deletion_of_an_earlier_object_of_the_name_leaves_the_new_one() -> None:
    store = filled()
    store.put(thing("a", 30, uid="new"))

    store.apply_event(Deleted(thing("a", 20, uid="old")))

    assert names(store.all()) == {"a"}


def test_a_list_reports_missing_objects_as_deletions_not_seen_on_a_watch() -> None:
    store = filled(thing("a", 1), thing("b", 2))

    [change] = store.apply_event(Listed((thing("b", 2),), "20"))

    assert change == StoreChange(thing("a", 1), None, live=False)


def test_a_list_older_than_what_was_seen_is_a_restore_and_counts() -> None:
    store = filled(thing("a", 40), thing("b", 41), version=50)

    changed = list(store.apply_event(Listed((thing("a", 4),), "20")))

    assert store.rewinds == 1
    assert StoreChange(thing("b", 41), None, live=False) in changed
    assert StoreChange(thing("a", 40), thing("a", 4), live=False) in changed
    assert store.version == 20


def test_an_object_older_than_what_was_seen_of_it_is_a_restore_however_new_the_list_is() -> None:
    store = filled(thing("a", 40), thing("b", 41), version=50)

    changed = list(store.apply_event(Listed((thing("a", 4), thing("b", 41)), "1000")))

    assert store.rewinds == 1
    assert changed == [StoreChange(thing("a", 40), thing("a", 4), live=False)]
    assert store.version == 1000


def test_a_list_that_lacks_what_was_written_at_its_version_is_a_restore() -> None:
    store = filled(thing("a", 40), version=30)

    changed = list(store.apply_event(Listed((), "40")))

    assert store.rewinds == 1
    assert changed == [StoreChange(thing("a", 40), None, live=False)]


def test_a_bookmark_counts_as_seen() -> None:
    store = filled(version=10)

    store.apply_event(Progress("90"))
    store.apply_event(Listed((), "80"))

    assert store.rewinds == 1


def test_an_outage_and_a_missing_kind_leave_everything_as_it_is() -> None:
    store = filled(thing("a", 1))

    store.apply_event(Interrupted(Unreachable("away")))
    store.apply_event(NotServed())

    assert names(store.all()) == {"a"}
    assert store.synced


def test_an_object_that_becomes_unreadable_stays_as_it_was_last_read() -> None:
    store = filled(thing("a", 1))

    on_a_watch = store.apply_event(Unreadable("s", "a", "bad", "20"))
    in_a_list = store.apply_event(Listed((), "30", (Unreadable("s", "a", "bad"),)))

    assert (list(on_a_watch), list(in_a_list)) == ([], [])
    assert names(store.all()) == {"a"}
    assert list(store.unreadable) == [("s", "a")]


def test_an_unreadable_object_that_is_repaired_or_deleted_is_forgotten() -> None:
    store = filled(thing("a", 1), thing("b", 2))
    store.apply_event(Unreadable("s", "a", "bad", "20"))
    store.apply_event(Unreadable("s", "b", "bad", "21"))

    store.apply_event(Applied(thing("a", 22)))
    [gone] = store.apply_event(DeletedUnreadable("s", "b", "23"))

    assert store.unreadable == {}
    assert gone == StoreChange(thing("b", 2), None)


class Write(msgspec.Struct, frozen=True):
    """One change in a cluster's history: a version of an object, or its end."""

    name: str
    exists: bool


WRITES = st.lists(st.builds(Write, st.sampled_from("abc"), st.booleans()), max_size=12)


def history(writes: list[Write]) -> list[Applied[ConfigMap] | Deleted[ConfigMap]]:
    """What a watch tells of these writes; each object of a name has a uid of its own."""
    events: list[Applied[ConfigMap] | Deleted[ConfigMap]] = []
    lives: dict[str, str] = {}
    for version, write in enumerate(writes, start=1):
        if write.exists:
            uid = lives.setdefault(write.name, f"{write.name}-{version}")
            events.append(Applied(thing(write.name, version, uid=uid, owner=str(version % 2))))
        elif write.name in lives:
            events.append(Deleted(thing(write.name, version, uid=lives.pop(write.name))))
    return events


def present_after(
    events: Iterable[Applied[ConfigMap] | Deleted[ConfigMap]],
) -> dict[str, ConfigMap]:
    found: dict[str, ConfigMap] = {}
    for event in events:
        if isinstance(event, Applied):
            found[event.object.name] = event.object
        else:
            found.pop(event.object.name, None)
    return found


@given(WRITES, st.integers())
def test_however_responses_and_lists_fall_the_end_is_the_truth(
    writes: list[Write], seed: int
) -> None:
    chance = Random(seed)
    events = history(writes)
    store = filled(version=0)

    for position, event in enumerate(events):
        ahead = chance.choice(events[position:])
        if isinstance(ahead, Applied) and chance.random() < 0.3:
            store.put(ahead.object)  # the answer to a write of ours, before the watch tells it
        store.apply_event(event)
        if chance.random() < 0.2:
            present = present_after(events[: position + 1])
            store.apply_event(
                Listed(tuple(present.values()), event.object.metadata.resource_version)
            )

    truth = present_after(events)
    assert {one.name: one for one in store.all()} == truth
    assert store.rewinds == 0
    for owner in ("0", "1"):
        owned = {name for name, one in truth.items() if one.metadata.labels["owner"] == owner}
        assert names(store.by("owner", owner)) == owned
