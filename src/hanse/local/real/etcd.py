"""Saving a cluster's whole state to a file, and going back to it."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from hanse.local.real.config import ETCD_CLIENTS, ETCD_PEERS
from hanse.local.real.errors import SnapshotFailed
from hanse.local.real.programs import ETCDCTL, ETCDUTL


async def save(binaries: Mapping[str, Path], directory: Path, snapshot: Path) -> None:
    """Write the state of a running etcd to a file, whole or not at all."""
    await _run(
        binaries[ETCDCTL.name],
        *(f"--endpoints={ETCD_CLIENTS}", "snapshot", "save", _absolute(snapshot)),
        directory=directory,
    )


async def restore(binaries: Mapping[str, Path], directory: Path, snapshot: Path) -> None:
    """Replace the state of a stopped etcd by that of a snapshot."""
    restored = directory / "etcd.restored"
    shutil.rmtree(restored, ignore_errors=True)
    await _run(
        binaries[ETCDUTL.name],
        *("snapshot", "restore", _absolute(snapshot)),
        f"--data-dir={restored}",
        "--name=default",
        f"--initial-advertise-peer-urls={ETCD_PEERS}",
        f"--initial-cluster=default={ETCD_PEERS}",
        directory=directory,
    )
    shutil.rmtree(directory / "etcd", ignore_errors=True)
    restored.rename(directory / "etcd")


def _absolute(snapshot: Path) -> str:
    """The tools run in the cluster's folder, which is not where the caller is."""
    return str(snapshot.absolute())


async def _run(executable: Path, *arguments: str, directory: Path) -> None:
    running = await asyncio.create_subprocess_exec(
        executable,
        *arguments,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await running.communicate()
    if running.returncode != 0:
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SnapshotFailed(f"{executable.name} {arguments[1]} failed: {''.join(last)}")
