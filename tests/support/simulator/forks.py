"""Plays schedules in forks of fleets that have started: a start costs more than most schedules.

A process for each set of parts starts a fleet once and waits, its virtual time standing still; each
schedule is played in a fork of it. The outcome is that of the schedule played alone.
"""

import asyncio
import gc
import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any, Generic, NoReturn, TypeVar

from msgspec import Struct

from tests.support.simulator.behaviour import Behaviour, instrument, observed
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
from tests.support.simulator.schedule import Schedule, Step

MOST_FLEETS = 6
"""Started fleets that are kept; of others the one that was used longest ago ends."""

G = TypeVar("G")
W = TypeVar("W")
O = TypeVar("O")  # noqa: E741 - an outcome


class _Error(Struct, frozen=True):
    """Why something was not played to its end."""

    text: str


def _checked(outcome: O | _Error, wanted: object) -> O:
    if not isinstance(outcome, _Error):
        return outcome
    raise RuntimeError(f"{outcome.text}\n{wanted}")


class StartedProcess(Generic[G, W, O]):
    """A process in which something has started on virtual time, and in whose forks it is played.

    `start` is entered once; `play` is called in a fork of its own for each thing that is wanted.
    """

    def __init__(
        self,
        start: Callable[[], AbstractAsyncContextManager[G]],
        play: Callable[[G, W], Awaitable[O]],
    ) -> None:
        self._connection, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _serve(start, play, theirs)
        theirs.close()

    def play(self, wanted: W) -> O:
        """Play in a fork; raises `RuntimeError` if it cannot be played to its end."""
        self._connection.send(wanted)
        try:
            outcome: O | _Error = self._connection.recv()
        except EOFError:
            raise RuntimeError(f"nothing has started to play {wanted}") from None
        return _checked(outcome, wanted)

    def end(self) -> None:
        """End the process; younger ones hold its connection, so that closing it is not enough."""
        with suppress(BrokenPipeError):
            self._connection.send(None)
        self._connection.close()
        os.waitpid(self._pid, 0)


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


class StartedFleets:
    """Started fleets by their parts, those whose behaviour is observed apart."""

    def __init__(self) -> None:
        self._fleets: dict[
            tuple[tuple[type[Part], ...], bool], StartedProcess[Run, Wanted, Outcome]
        ] = {}

    def play(self, wanted: Wanted, parts: Sequence[type[Part]] = PARTS) -> Outcome:
        """Play a schedule with the features of these parts."""
        key = (tuple(parts), wanted.observed)
        fleet = self._fleets.pop(key, None)
        if fleet is None:
            start = _started_observed if wanted.observed else started
            fleet = StartedProcess(partial(start, parts), _play_schedule)
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


FLEETS = StartedFleets()
"""The fleets that the tests of this process share; to be ended after the last."""


def play(
    *steps: Step, seed: int = 0, lagging: bool = False, parts: Sequence[type[Part]] = PARTS
) -> None:
    """Play these steps on embedded clusters and virtual time; raises `AssertionError`.

    Agents have the features of these parts.
    """
    failure = FLEETS.failure_of(Schedule(steps, seed, lagging), parts)
    if failure is not None:
        raise AssertionError(str(failure))


@asynccontextmanager
async def _started_observed(parts: Sequence[type[Part]]) -> AsyncIterator[Run]:
    """A started fleet in an instrumented process."""
    instrument()
    async with started(parts) as game:
        yield game


async def _play_schedule(game: Run, wanted: Wanted) -> Outcome:
    network = game.fleet.network
    network.sent = network.watched = []
    with observed() as behaviour:
        failure = await failure_on(game, wanted.schedule)
        if failure is None:
            game.fleet.check_rights()
    trace = (*map(describe_sent, network.sent), str(failure)) if wanted.traced else ()
    return Outcome(failure, behaviour(), trace)


def _serve(
    start: Callable[[], AbstractAsyncContextManager[G]],
    play: Callable[[G, W], Awaitable[O]],
    connection: Connection,
) -> NoReturn:
    """What the process does: nothing of the one it was forked from goes on in it."""
    try:
        quiet_logs()
        run(_answer(start, play, connection))
    finally:
        os._exit(0)


async def _answer(
    start: Callable[[], AbstractAsyncContextManager[G]],
    play: Callable[[G, W], Awaitable[O]],
    connection: Connection,
) -> None:
    async with start() as game:
        gc.collect()
        gc.disable()  # forks end before it is worth it
        while True:
            try:
                wanted = connection.recv()
            except EOFError:
                wanted = None
            if wanted is None:
                os._exit(0)
            connection.send(await _tried_in_fork(partial(play, game, wanted)))


async def in_fork(play: Callable[[], Awaitable[O]]) -> O:
    """Play in a process of its own, while virtual time stands still here.

    Raises `RuntimeError` if it is not played to its end.
    """
    return _checked(await _tried_in_fork(play), play)


async def _tried_in_fork(play: Callable[[], Awaitable[O]]) -> O | _Error:
    loop = asyncio.get_running_loop()
    ours, theirs = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        asyncio._set_running_loop(loop)  # it is a process's own: asyncio forgets it
        await _play(play, theirs)
    theirs.close()
    with ours:
        outcome: O | _Error = _received(ours, pid)
    return outcome


def _received(connection: Connection, pid: int) -> Any:
    """What a process sent as its outcome, once it has ended; virtual time stands still."""
    try:
        return connection.recv()
    except EOFError:
        return _Error("the process that played it ended")
    finally:
        os.waitpid(pid, 0)


async def _play(play: Callable[[], Awaitable[Any]], connection: Connection) -> NoReturn:
    """Play in a process of its own, which ends with it."""
    try:
        connection.send(await play())
    except BaseException as error:  # noqa: BLE001 - told to who asked
        connection.send(_Error("".join(traceback.format_exception(error))))
    finally:
        os._exit(0)
