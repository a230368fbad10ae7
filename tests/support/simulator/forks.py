"""Plays schedules in forks of fleets that have started: a start costs more than most schedules.

A process for each set of parts starts a fleet once and waits, its virtual time standing still; each
schedule is played in a fork of it. The outcome is that of the schedule played alone.
"""

import asyncio
import gc
import os
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection, Pipe
from typing import NoReturn

from msgspec import Struct

from tests.support.simulator.behaviour import Behaviour, observed
from tests.support.simulator.loop import run
from tests.support.simulator.part import Part
from tests.support.simulator.runner import (
    PARTS,
    Failure,
    Run,
    describe_sent,
    failure_on,
    quiet_logs,
    started,
)
from tests.support.simulator.schedule import Schedule

MOST_FLEETS = 6
"""Started fleets that are kept; of others the one that was used longest ago ends."""


class Wanted(Struct, frozen=True):
    """A schedule, and what is to be told of it."""

    schedule: Schedule
    observed: bool = False
    traced: bool = False


class Outcome(Struct, frozen=True):
    """What became of a schedule."""

    failure: Failure | None
    behaviour: Behaviour = frozenset()
    trace: tuple[str, ...] = ()


class StartedFleet:
    """A process with a started fleet, in whose forks schedules are played."""

    def __init__(self, parts: Sequence[type[Part]]) -> None:
        self._connection, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _serve(parts, theirs)
        theirs.close()

    def play(self, wanted: Wanted) -> Outcome:
        """Play a schedule in a fork; raises `RuntimeError` if it cannot be played to its end."""
        self._connection.send(wanted)
        try:
            outcome = self._connection.recv()
        except EOFError:
            raise RuntimeError(f"no fleet has started to play {wanted.schedule}") from None
        if isinstance(outcome, Outcome):
            return outcome
        raise RuntimeError(f"{outcome}\n{wanted.schedule}")

    def end(self) -> None:
        """End the process; younger ones hold its connection, so that closing it is not enough."""
        with suppress(BrokenPipeError):
            self._connection.send(None)
        self._connection.close()
        os.waitpid(self._pid, 0)


class StartedFleets:
    """Started fleets by their parts."""

    def __init__(self) -> None:
        self._fleets: dict[tuple[type[Part], ...], StartedFleet] = {}

    def play(self, wanted: Wanted, parts: Sequence[type[Part]] = PARTS) -> Outcome:
        """Play a schedule with the features of these parts."""
        key = PARTS if parts is PARTS else tuple(parts)
        fleet = self._fleets.pop(key, None) or StartedFleet(parts)
        self._fleets[key] = fleet  # the last that was used
        while len(self._fleets) > MOST_FLEETS:
            self._fleets.pop(next(iter(self._fleets))).end()
        return fleet.play(wanted)

    def failure_of(self, schedule: Schedule, parts: Sequence[type[Part]] = PARTS) -> Failure | None:
        """The law that a schedule breaks, if any."""
        return self.play(Wanted(schedule), parts).failure

    def end(self) -> None:
        """End all processes."""
        while self._fleets:
            self._fleets.popitem()[1].end()


def _serve(parts: Sequence[type[Part]], connection: Connection) -> NoReturn:
    """The process of a started fleet: nothing of the one it was forked from goes on in it."""
    try:
        quiet_logs()
        run(_answer(parts, connection))
    finally:
        os._exit(0)


async def _answer(parts: Sequence[type[Part]], connection: Connection) -> None:
    loop = asyncio.get_running_loop()
    async with started(parts) as game:
        gc.collect()
        gc.freeze()  # so that collections in forks do not copy it
        while True:
            try:
                wanted = connection.recv()
            except EOFError:
                wanted = None
            if wanted is None:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                asyncio._set_running_loop(loop)  # it is a process's own: asyncio forgets it
                await _play(game, wanted, connection)
            if _has_failed(pid):
                connection.send("the process of the schedule ended")


def _has_failed(pid: int) -> bool:
    """Wait for a process, while virtual time stands still."""
    return os.waitpid(pid, 0)[1] != 0


async def _play(game: Run, wanted: Wanted, connection: Connection) -> NoReturn:
    """Play a schedule in a process of its own, which ends with it."""
    try:
        network = game.fleet.network
        network.sent = network.watched = []
        with observed() if wanted.observed else nullcontext(frozenset[object]) as behaviour:
            failure = await failure_on(game, wanted.schedule)
            if failure is None:
                game.fleet.check_rights()
        trace = (*map(describe_sent, network.sent), str(failure)) if wanted.traced else ()
        connection.send(Outcome(failure, behaviour(), trace))
    except BaseException as error:  # noqa: BLE001 - told to who asked
        connection.send("".join(traceback.format_exception(error)))
    finally:
        os._exit(0)
