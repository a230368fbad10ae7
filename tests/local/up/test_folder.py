"""The folder of a local federation: its lock, saved objects and permissions."""

import os
import stat
from pathlib import Path

import pytest

from hanse.local.up.errors import CorruptSnapshot, FolderLocked
from hanse.local.up.folder import Folder
from tinykube.storage import Snapshot

SNAPSHOT = Snapshot(
    7, {"configmaps": [{"metadata": {"name": "a", "namespace": "b"}, "data": {"n": 1}}]}
)


def test_a_folder_is_locked_by_one_process(tmp_path: Path) -> None:
    with (
        Folder(tmp_path / "fleet", keep=False).locked(),
        pytest.raises(FolderLocked, match=f"as process {os.getpid()}; stop it with"),
        Folder(tmp_path / "fleet", keep=False).locked(),
    ):
        pass

    with Folder(tmp_path / "fleet", keep=False).locked():
        pass


def test_a_new_folder_is_closed_to_others_and_to_git(tmp_path: Path) -> None:
    with Folder(tmp_path / "fleet", keep=False).locked():
        assert stat.S_IMODE((tmp_path / "fleet").stat().st_mode) == 0o700
        assert (tmp_path / "fleet/.gitignore").read_text() == "*\n"


def test_saved_objects_are_loaded_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=True)
    assert folder.load("rome") is None

    folder.save("rome", SNAPSHOT)

    assert folder.load("rome") == SNAPSHOT
    assert stat.S_IMODE((tmp_path / "clusters/rome.json").stat().st_mode) == 0o600


def test_without_keep_nothing_is_saved(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=False)

    folder.save("rome", SNAPSHOT)

    assert list(tmp_path.iterdir()) == []
    assert folder.load("rome") is None


def test_a_file_that_cannot_be_read_is_named_with_the_remedy(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=True)
    folder.save("rome", SNAPSHOT)
    (tmp_path / "clusters/rome.json").write_text('{"version": "seven"}')

    with pytest.raises(
        CorruptSnapshot, match=r"rome\.json: .*; move the file away to start without it"
    ):
        folder.load("rome")
