"""Measuring in processes of their own, so that one thing does not pay for another."""

import asyncio
import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from msgspec import Struct

P = ParamSpec("P")
T = TypeVar("T")


def as_installed() -> dict[str, str]:
    """The environment of a program that keeps its byte code, as one that was installed has it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


async def apart(measure: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a module's function in a fresh process that does nothing else, and ends with us."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_report, args=(theirs, measure, args, kwargs))
    process.start()
    theirs.close()
    try:
        answer = await asyncio.get_running_loop().run_in_executor(None, _received, ours)
    finally:
        process.kill()  # it has answered, or is not wanted any more
        process.join()
        ours.close()
    match answer:
        case _Broke(how):
            raise RuntimeError(f"{measure.__name__} broke in its process: {how}")
        case _:
            return cast(T, answer)


class _Broke(Struct, frozen=True):
    how: str


def _report(answer: Connection, measure: Callable[..., object], args: Any, kwargs: Any) -> None:
    try:
        answer.send(measure(*args, **kwargs))
    except BaseException:  # noqa: BLE001 - told to the process that waits
        answer.send(_Broke(traceback.format_exc()))


def _received(answers: Connection) -> object:
    try:
        return answers.recv()
    except EOFError:
        return _Broke("it ended without an answer")


def resident(process: int | str = "self") -> float:
    """Memory of a process in MiB, as the system counts it."""
    return _status(process, "VmRSS")


def most_resident(process: int | str = "self") -> float:
    """The most memory that a process ever had, in MiB."""
    return _status(process, "VmHWM")


def seconds_of(process: int) -> float:
    """CPU time of another process, of all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(process: int | str, name: str) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024
