"""Find or build the programs of real clusters: `python -m hanse.local.real.build [PROGRAM ...]`."""

import argparse
import asyncio
import fcntl
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

from hanse.local.real.binaries import cache_folder, cached, find_available_programs
from hanse.local.real.errors import BuildFailed, RealClusterError
from hanse.local.real.programs import ALL, EXTRA, MODULES, Program
from hanse.local.real.progress import BuildReport, report_for
from hanse.local.real.toolchain import build_environment, find_go

MODULES_AT_ONCE = 2
"""Linking uses one core and downloading none: compiling a second module uses the rest."""


def main() -> None:
    """Find or build the named programs and print name, version and path; exits on an error.

    Without names all of `ALL`, and then those of single tests (`EXTRA`), of which one that cannot
    be built is only reported.
    """
    programs = _parse_arguments(sys.argv[1:])
    try:
        _print_paths(programs or ALL)
    except RealClusterError as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    for program in () if programs else EXTRA:
        try:
            _print_paths((program,))
        except RealClusterError as problem:
            sys.stderr.write(f"{program.name} is missing, and its test is skipped: {problem}\n")


def _print_paths(programs: Sequence[Program]) -> None:
    """Find or build programs, and write name, version and path of each to stdout, by tabs.

    Raises `BuildFailed` or `GoNotFound`.
    """
    paths = asyncio.run(find_or_build(programs, cache_folder()))
    for program in programs:
        sys.stdout.write(f"{program.name}\t{program.version}\t{paths[program.name]}\n")


async def find_or_build(
    programs: Sequence[Program], cache: Path, report: BuildReport | None = None
) -> dict[str, Path]:
    """Each program's path by name; missing ones are built into the cache, under its lock.

    Progress is reported, by default on stderr. Raises `BuildFailed` or `GoNotFound`.
    """
    found = await find_available_programs(programs, cache)
    if len(found) == len(programs):
        return found
    missing = tuple(program for program in programs if program.name not in found)
    with report or report_for(sys.stderr, len(missing)) as shown:
        async with _build_lock(cache, shown):
            await _build_missing(missing, cache, shown)
    return {**found, **{program.name: cached(program, cache) for program in missing}}


async def _build_missing(programs: Sequence[Program], cache: Path, report: BuildReport) -> None:
    """Build what is not cached yet: MODULES_AT_ONCE in parallel, each one's programs in sequence.

    Reports that it starts, and raises the first failure.
    """
    # Another process may have built some of them while this one waited for the lock.
    missing = [program for program in programs if not cached(program, cache).is_file()]
    if not missing:
        return
    report.message(f"into {cache}; the first time takes minutes")
    module_slots = asyncio.Semaphore(MODULES_AT_ONCE)
    by_module = {
        program.module: [p for p in missing if p.module == program.module] for program in missing
    }
    try:
        async with asyncio.TaskGroup() as group:
            for module, members in by_module.items():
                group.create_task(_build_module(members, cache, report, module_slots), name=module)
    except* RealClusterError as problems:
        raise problems.exceptions[0] from None


async def _build_module(
    programs: Sequence[Program],
    cache: Path,
    report: BuildReport,
    module_slots: asyncio.Semaphore,
) -> None:
    """Build a module's programs sequentially: they share most packages through Go's build cache.

    Raises `BuildFailed` or `GoNotFound`.
    """
    async with module_slots:
        for program in programs:
            go = await find_go(cache, program.go)
            report.started(f"{program.name} {program.version}")
            await _build(program, go, cache, report)
            report.finished(f"{program.name} {program.version}")


async def _build(program: Program, go: Path, cache: Path, report: BuildReport) -> None:
    """Compile a program and move it into the cache; raises `BuildFailed`.

    Go's output goes to a log in the cache and to the report; Go is stopped if this is cancelled.
    """
    target = cached(program, cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{program.name}.{os.getpid()}")
    log = cache / "logs" / f"{program.name}-{program.version}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    compiler = await asyncio.create_subprocess_exec(
        *(go, "build", "-v", "-ldflags", program.linker_flags, "-o", draft, program.package),
        cwd=MODULES / program.module,
        env=build_environment(go),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert compiler.stderr is not None
    try:
        with log.open("wb") as log_file:
            async for line in compiler.stderr:
                log_file.write(line)
                report.compiled(f"{program.name} {program.version}", line.decode().strip())
        if await compiler.wait() != 0:
            raise BuildFailed(program.name, log)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
        if compiler.returncode is None:
            compiler.terminate()
            await compiler.wait()


@asynccontextmanager
async def _build_lock(cache: Path, report: BuildReport) -> AsyncIterator[None]:
    """Hold the build lock of the cache in the block; waits without limit, and reports that once."""
    with _lock_file(cache) as lock:
        reported = False
        while not _try_lock(lock.fileno()):
            if not reported:
                report.message("another build is running; waiting for it")
                reported = True
            await asyncio.sleep(0.5)
        yield


def _lock_file(cache: Path) -> TextIO:
    """Open the lock file of the cache and create the folder; does not lock it."""
    cache.mkdir(parents=True, exist_ok=True)
    return (cache / "build.lock").open("w")


def _try_lock(descriptor: int) -> bool:
    """Lock the file exclusively, until it is closed, without waiting; False if it is locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parse_arguments(arguments: Sequence[str]) -> tuple[Program, ...]:
    """The programs named on the command line, empty without any; exits for an unknown name."""
    by_name = {program.name: program for program in (*ALL, *EXTRA)}
    parser = argparse.ArgumentParser(description="Find or build the programs of real clusters.")
    parser.add_argument("program", nargs="*", help=f"of {', '.join(by_name)}; default: all")
    names = parser.parse_args(arguments).program
    if unknown := [name for name in names if name not in by_name]:
        sys.exit(f"error: no program is named {unknown[0]}; there are {', '.join(by_name)}")
    return tuple(by_name[name] for name in names)


if __name__ == "__main__":
    main()
