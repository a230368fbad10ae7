"""The control groups of nodes, which outlive their processes and have to be removed."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PARENT = "hanse"
_ATTEMPTS = 100
"""Killed processes leave their group a little later."""


def cgroup_parent(pid: int) -> str:
    """The path of the control group of all nodes that a process runs."""
    return f"/{_PARENT}/{pid}"


def remove_stale(proc: Path = Path("/proc"), root: Path = _ROOT) -> None:
    """Remove the control groups of nodes whose process has ended, such as one that was killed.

    Processes are known by their pid in `proc`; a group that still has processes stays.
    """
    for parent in _hierarchies(root):
        for group in parent.glob("*"):
            if group.is_dir() and not (proc / group.name).exists():
                _remove(group)


async def remove_groups(pid: int, root: Path = _ROOT) -> None:
    """Remove the control groups of all nodes that a process ran, once their processes have ended.

    Waits for that, and gives up after 100 attempts; our parent group goes, too, unless it has
    others.
    """
    for parent in _hierarchies(root):
        for _ in range(_ATTEMPTS):
            _remove(parent / str(pid))
            if not (parent / str(pid)).exists():
                break
            await asyncio.sleep(0.05)
        with suppress(OSError):
            parent.rmdir()  # unless another process runs nodes, too


def _hierarchies(root: Path) -> list[Path]:
    """Our parent group in each hierarchy: one with cgroups v2, many with v1."""
    return [found for found in (root / _PARENT, *root.glob(f"*/{_PARENT}")) if found.is_dir()]


def _remove(group: Path) -> None:
    """Remove a group and those in it; one that still has processes stays."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()
