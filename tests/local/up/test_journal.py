"""The objects of an embedded cluster on disk: each write, whatever happens to the process."""

import resource
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hanse.local.up.errors import CorruptSnapshot
from hanse.local.up.journal import Journal
from tinykube.resources import Object
from tinykube.storage import Snapshot, Storage

STORE = "configmaps"


def configmap(name: str, size: int = 1) -> Object:
    return {"metadata": {"name": name, "namespace": "shop"}, "data": {"x": "y" * size}}


def names(snapshot: Snapshot | None) -> list[str]:
    assert snapshot is not None
    return sorted(one["metadata"]["name"] for one in snapshot.objects.get(STORE, ()))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path, "rome")) as opened:
        yield opened


@pytest.fixture
def storage(journal: Journal) -> Storage:
    """A storage whose every write goes to the journal."""
    storage = Storage()
    storage.subscribe(journal.append)
    journal.write_snapshot(journal.begin_snapshot(storage))
    return storage


def load(folder: Path) -> Snapshot | None:
    """What the next process loads."""
    return Journal(folder, "rome").load()


def is_failing(journal: Journal) -> bool:
    return journal.error is not None and journal.is_snapshot_due


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_there_is_nothing_to_load_at_first(tmp_path: Path) -> None:
    assert load(tmp_path) is None


def test_each_write_is_there_for_a_process_that_follows_one_that_was_killed(
    tmp_path: Path, storage: Storage
) -> None:
    storage.create(STORE, configmap("kept"))
    storage.create(STORE, configmap("gone"))
    storage.replace(STORE, configmap("kept", size=2))
    storage.remove(STORE, "shop", "gone")

    loaded = load(tmp_path)

    assert loaded == storage.snapshot()
    assert names(loaded) == ["kept"]


def test_a_snapshot_replaces_the_logs_before_it(
    tmp_path: Path, storage: Storage, journal: Journal
) -> None:
    storage.create(STORE, configmap("a"))
    snapshot = journal.begin_snapshot(storage)
    storage.create(STORE, configmap("b"))  # while the snapshot is written
    assert names(load(tmp_path)) == ["a", "b"], "killed before it was written"

    journal.write_snapshot(snapshot)

    assert sorted(f.name for f in tmp_path.iterdir()) == ["rome.1.log", "rome.json"]
    assert names(load(tmp_path)) == ["a", "b"]
    assert stat.S_IMODE((tmp_path / "rome.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "rome.1.log").stat().st_mode) == 0o600


def test_a_line_that_was_not_written_to_its_end_is_left_out(
    tmp_path: Path, storage: Storage
) -> None:
    storage.create(STORE, configmap("a"))
    storage.create(STORE, configmap("b"))
    log = tmp_path / "rome.0.log"
    log.write_bytes(log.read_bytes()[:-10])

    assert names(load(tmp_path)) == ["a"]


def test_a_full_disk_keeps_what_was_saved_until_there_is_room_again(
    tmp_path: Path, storage: Storage, journal: Journal
) -> None:
    storage.create(STORE, configmap("before"))

    with files_limited_to(1000):
        storage.create(STORE, configmap("large", size=5000))
        storage.create(STORE, configmap("small"))
        journal.write_snapshot(journal.begin_snapshot(storage))
        storage.create(STORE, configmap("later"))
    assert is_failing(journal)
    assert names(load(tmp_path)) == ["before"], "all, or all until something"
    assert not [f for f in tmp_path.iterdir() if f.name.startswith(".")], "no half-written file"

    journal.write_snapshot(journal.begin_snapshot(storage))
    storage.create(STORE, configmap("after"))

    assert not is_failing(journal)
    assert names(load(tmp_path)) == ["after", "before", "large", "later", "small"]


def test_a_restored_storage_needs_a_snapshot(
    tmp_path: Path, storage: Storage, journal: Journal
) -> None:
    backup = storage.snapshot()
    storage.create(STORE, configmap("a"))

    storage.restore(backup)

    assert journal.is_snapshot_due
    journal.write_snapshot(journal.begin_snapshot(storage))
    assert names(load(tmp_path)) == []


def test_logs_of_a_snapshot_that_a_user_moved_away_are_not_mixed_into_a_new_one(
    tmp_path: Path, storage: Storage
) -> None:
    storage.create(STORE, configmap("old"))
    (tmp_path / "rome.json").unlink()
    assert load(tmp_path) is None

    with closing(Journal(tmp_path, "rome")) as other:
        anew = Storage()
        anew.subscribe(other.append)
        other.write_snapshot(other.begin_snapshot(anew))
        anew.create(STORE, configmap("new"))

    assert names(load(tmp_path)) == ["new"]


@pytest.mark.usefixtures("storage")
def test_a_file_that_cannot_be_read_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "rome.json").write_text('{"version": "seven"}')

    with pytest.raises(
        CorruptSnapshot, match=r"rome\.json: .*; move the file away to start without it"
    ):
        load(tmp_path)
