"""Where the programs are: given by the person, installed, or built before into the cache."""

import asyncio
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from hanse.local.real.errors import ProgramMissing
from hanse.local.real.programs import Program

_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where this person's programs keep what can be made again."""
    given = environment.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "hanse"


def cached(program: Program, cache: Path) -> Path:
    """Where a program is once it is built."""
    return cache / f"{program.name}-{program.version}" / program.name


async def find_program(
    program: Program, cache: Path, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """The program from `KUBEBUILDER_ASSETS`, `PATH` or the cache, if its version fits."""
    built = cached(program, cache)
    for candidate in installed_paths(program, environment):
        if version_matches(program, await _version_text(program, candidate)):
            return candidate
    return built if built.is_file() else None


async def find_programs(programs: Iterable[Program], cache: Path) -> dict[str, Path]:
    """Each program's path by its name; raises `ProgramMissing` if one is absent."""
    wanted = tuple(programs)
    found = await asyncio.gather(*(find_program(program, cache) for program in wanted))
    missing = [program.name for program, path in zip(wanted, found, strict=True) if path is None]
    if missing:
        raise ProgramMissing(f"not built yet: {', '.join(missing)}; run `make kube-binaries` first")
    return {
        program.name: path for program, path in zip(wanted, found, strict=True) if path is not None
    }


def installed_paths(program: Program, environment: Mapping[str, str]) -> list[Path]:
    """Where a program of that name is installed, the most deliberate place first."""
    places = (environment.get("KUBEBUILDER_ASSETS", ""), environment.get("PATH", ""))
    found = (shutil.which(program.name, path=place) for place in places if place)
    return [Path(path) for path in found if path]


def version_matches(program: Program, version_text: str) -> bool:
    """Whether a program that says this of itself has the minor version we run."""
    said, wanted = _VERSION.search(version_text), _VERSION.search(program.version)
    return said is not None and wanted is not None and said.groups() == wanted.groups()


async def _version_text(program: Program, path: Path) -> str:
    asked = await asyncio.create_subprocess_exec(
        path,
        *program.ask_version,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(10):
            said, _ = await asked.communicate()
    except TimeoutError:
        asked.kill()
        await asked.wait()
        return ""
    return said.decode("utf-8", "replace")
