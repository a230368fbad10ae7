"""Finding the programs of real clusters: in KUBEBUILDER_ASSETS, on PATH, or in the cache."""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hanse.local.real.errors import ProgramMissing
from hanse.local.real.programs import Program

_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The cache folder of Hanse: `hanse` in XDG_CACHE_HOME, by default in `~/.cache`."""
    xdg_cache = environment.get("XDG_CACHE_HOME")
    return (Path(xdg_cache) if xdg_cache else Path.home() / ".cache") / "hanse"


def cached(program: Program, cache: Path) -> Path:
    """The path at which a program is built into the cache; it may not exist yet."""
    return cache / f"{program.name}-{program.version}" / program.name


async def find_program(
    program: Program, cache: Path, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """The installed program if its minor version fits, else the cached build, else None.

    Installed are those of `installed_paths`, in their order; nothing is built.
    """
    built = cached(program, cache)
    for candidate in installed_paths(program, environment):
        if version_matches(program, await _run_version_command(program, candidate)):
            return candidate
    return built if built.is_file() else None


async def find_available_programs(programs: Sequence[Program], cache: Path) -> dict[str, Path]:
    """The paths of those programs that are installed or built, by name."""
    paths = await asyncio.gather(*(find_program(program, cache) for program in programs))
    found = zip(programs, paths, strict=True)
    return {program.name: path for program, path in found if path is not None}


async def find_programs(programs: Sequence[Program], cache: Path) -> dict[str, Path]:
    """Each program's path by its name; raises `ProgramMissing` if one is absent."""
    found = await find_available_programs(programs, cache)
    if missing := [program.name for program in programs if program.name not in found]:
        raise ProgramMissing(f"not built yet: {', '.join(missing)}; run `make kube-binaries` first")
    return found


def installed_paths(program: Program, environment: Mapping[str, str]) -> list[Path]:
    """The program in KUBEBUILDER_ASSETS, and the first one on PATH, as far as they exist."""
    search_paths = (environment.get("KUBEBUILDER_ASSETS", ""), environment.get("PATH", ""))
    found = (shutil.which(program.name, path=path) for path in search_paths if path)
    return [Path(path) for path in found if path]


def version_matches(program: Program, version_text: str) -> bool:
    """Whether the first version X.Y.Z in a text has the program's major and minor version.

    False if the text, the output of a version command, has none.
    """
    found, required = _VERSION.search(version_text), _VERSION.search(program.version)
    return found is not None and required is not None and found.groups() == required.groups()


async def _run_version_command(program: Program, path: Path) -> str:
    """The output, also of stderr, of the version command, whatever its exit code.

    After 10 seconds it is killed and the output empty.
    """
    process = await asyncio.create_subprocess_exec(
        path,
        *program.version_arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(10):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return output.decode("utf-8", "replace")
