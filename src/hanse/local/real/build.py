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

from hanse.local.real.binaries import cache_folder, cached, find_program
from hanse.local.real.errors import BuildFailed, RealClusterError
from hanse.local.real.programs import ALL, MODULES, Program
from hanse.local.real.progress import BuildReport, report_for
from hanse.local.real.toolchain import build_environment, find_go

MODULES_AT_ONCE = 2
"""Linking uses one core and downloading none: a second module's compiler fills the gap."""


def main() -> None:
    chosen = _chosen(sys.argv[1:])
    try:
        paths = asyncio.run(find_or_build(chosen, cache_folder()))
    except RealClusterError as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    for program in chosen:
        sys.stdout.write(f"{program.name}\t{program.version}\t{paths[program.name]}\n")


async def find_or_build(
    programs: Sequence[Program], cache: Path, report: BuildReport | None = None
) -> dict[str, Path]:
    """Each program's path by its name, built first if there is none that fits."""
    found = await _found(programs, cache)
    if len(found) == len(programs):
        return found
    missing = tuple(program for program in programs if program.name not in found)
    with report or report_for(sys.stderr, len(missing)) as told:
        async with _only_builder(cache, told):
            await _build_missing(missing, cache, told)
    return {**found, **{program.name: cached(program, cache) for program in missing}}


async def _found(programs: Sequence[Program], cache: Path) -> dict[str, Path]:
    paths = await asyncio.gather(*(find_program(program, cache) for program in programs))
    return {
        program.name: path
        for program, path in zip(programs, paths, strict=True)
        if path is not None
    }


async def _build_missing(programs: Sequence[Program], cache: Path, report: BuildReport) -> None:
    # The lock may have been waited for while its holder built the same.
    left = [program for program in programs if not cached(program, cache).is_file()]
    if not left:
        return
    go = await find_go(cache)
    report.say(f"with {go}, into {cache}; the first time takes minutes")
    turns = asyncio.Semaphore(MODULES_AT_ONCE)
    by_module = {
        program.module: [p for p in left if p.module == program.module] for program in left
    }
    try:
        async with asyncio.TaskGroup() as group:
            for module, members in by_module.items():
                group.create_task(_build_module(members, go, cache, report, turns), name=module)
    except* RealClusterError as problems:
        raise problems.exceptions[0] from None


async def _build_module(
    programs: Sequence[Program],
    go: Path,
    cache: Path,
    report: BuildReport,
    turns: asyncio.Semaphore,
) -> None:
    """One after the other, for they share most of their packages through Go's build cache."""
    async with turns:
        for program in programs:
            report.started(f"{program.name} {program.version}")
            await _build(program, go, cache, report)
            report.finished(f"{program.name} {program.version}")


async def _build(program: Program, go: Path, cache: Path, report: BuildReport) -> None:
    target = cached(program, cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{program.name}.{os.getpid()}")
    log = cache / "logs" / f"{program.name}-{program.version}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    compiling = await asyncio.create_subprocess_exec(
        *(go, "build", "-v", "-ldflags", program.linker_flags, "-o", draft, program.package),
        cwd=MODULES / program.module,
        env=build_environment(go),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert compiling.stderr is not None
    try:
        with log.open("wb") as kept:
            async for line in compiling.stderr:
                kept.write(line)
                report.compiled(f"{program.name} {program.version}", line.decode().strip())
        if await compiling.wait() != 0:
            raise BuildFailed(program.name, log)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
        if compiling.returncode is None:
            compiling.terminate()
            await compiling.wait()


@asynccontextmanager
async def _only_builder(cache: Path, report: BuildReport) -> AsyncIterator[None]:
    """Hold the cache's lock, so that two builders never do the same work twice."""
    with _lock_file(cache) as lock:
        told = False
        while not _locked(lock.fileno()):
            if not told:
                report.say("another build is running; waiting for it")
                told = True
            await asyncio.sleep(0.5)
        yield


def _lock_file(cache: Path) -> TextIO:
    cache.mkdir(parents=True, exist_ok=True)
    return (cache / "build.lock").open("w")


def _locked(opened: int) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _chosen(arguments: Sequence[str]) -> tuple[Program, ...]:
    by_name = {program.name: program for program in ALL}
    parser = argparse.ArgumentParser(description="Find or build the programs of real clusters.")
    parser.add_argument("program", nargs="*", help=f"of {', '.join(by_name)}; default: all")
    names = parser.parse_args(arguments).program or list(by_name)
    if unknown := [name for name in names if name not in by_name]:
        sys.exit(f"error: no program is named {unknown[0]}; there are {', '.join(by_name)}")
    return tuple(by_name[name] for name in names)


if __name__ == "__main__":
    main()
