"""The folder of a local federation: its lock, saved objects and permissions."""

import os
import stat
from pathlib import Path

import pytest

from hanse.local.up.errors import FolderLocked
from hanse.local.up.folder import Folder


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


def test_objects_are_kept_only_where_that_was_asked_for(tmp_path: Path) -> None:
    assert Folder(tmp_path, keep=False).journal("rome") is None
    assert Folder(tmp_path, keep=True).journal("rome") is not None
