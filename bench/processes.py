"""Measuring in processes of their own, so that one thing does not pay for another."""

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def apart(measure: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a module's function in a fresh process that does nothing else."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        return await asyncio.wrap_future(processes.submit(measure, *args, **kwargs))


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
