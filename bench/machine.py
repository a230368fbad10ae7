"""Where and with what a run was made: machine, versions, commit, and how busy it was."""

import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct

from hanse import __version__
from hanse.local.real.programs import COREDNS, ETCD, KUBERNETES, KWOK

LIBRARIES = ("aiohttp", "msgspec", "uvloop", "dnspython", "cryptography", "click")
_ROOT = Path(__file__).parent.parent


class Machine(Struct, frozen=True):
    """What a result has to be read with."""

    date: str
    command: str
    commit: str
    cpu: str
    cores: int
    memory_mib: int
    system: str
    kernel: str
    load_at_start: float
    versions: dict[str, str]


def this_machine(command: str) -> Machine:
    """The machine as it is now."""
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        commit=_commit(),
        cpu=_field(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)") or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=int(_field(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)") or 0) // 1024,
        system=_field(Path("/etc/os-release"), r'PRETTY_NAME="(.+)"') or platform.system(),
        kernel=platform.release(),
        load_at_start=round(os.getloadavg()[0], 2),
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    pinned = {"kubernetes": KUBERNETES, "etcd": ETCD, "kwok": KWOK, "coredns": COREDNS}
    return {
        "hanse": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        **pinned,
        "knot": _said(("knotd", "--version"), r"version (\S+)"),
        "dnsperf": _said(("dnsperf", "-h"), r"[Vv]ersion (\S+)") or _packaged("dnsperf"),
    }


def _commit() -> str:
    """The commit, with a word if files that are tracked differ from it."""
    commit = _said(("git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"), r"(\w+)")
    changed = _said(("git", "-C", str(_ROOT), "status", "--short", "-uno"), r"(\S+)")
    return f"{commit or 'unknown'}{' with changes' if changed else ''}"


def _packaged(name: str) -> str:
    return _said(("dpkg-query", "--show", "--showformat=${Version}", name), r"(\S+)")


def _said(command: tuple[str, ...], pattern: str) -> str:
    """What a program says of itself; nothing if it is not there."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(pattern, done.stdout + (done.stderr if not done.returncode else ""))
    return found[1] if found else ""


def _field(file: Path, pattern: str) -> str:
    if not file.is_file():
        return ""
    found = re.search(pattern, file.read_text())
    return found[1].strip() if found else ""
