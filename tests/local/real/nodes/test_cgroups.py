"""Control groups of nodes: those of processes that have ended are removed."""

import os
from pathlib import Path

import pytest

from hanse.local.real.nodes.cgroups import cgroup_parent, remove_groups, remove_stale


def _group(root: Path, hierarchy: str, pid: int) -> Path:
    group = root / hierarchy / cgroup_parent(pid).strip("/") / "lubeck-1" / "container"
    group.mkdir(parents=True)
    return group


def test_only_the_groups_of_processes_that_have_ended_are_stale(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "17").mkdir(parents=True)
    running = _group(tmp_path / "v1", "cpu", 17)
    ended = _group(tmp_path / "v1", "cpu", 99)

    remove_stale(proc, tmp_path / "v1")

    assert running.is_dir()
    assert not ended.parent.parent.exists()


@pytest.mark.parametrize("hierarchy", ["cpu", "."])
async def test_the_groups_of_a_process_are_removed_in_every_hierarchy(
    tmp_path: Path, hierarchy: str
) -> None:
    _group(tmp_path, hierarchy, os.getpid())

    await remove_groups(os.getpid(), tmp_path)

    assert not (tmp_path / hierarchy / "hanse").exists()
