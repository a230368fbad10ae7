"""How many requests one cluster gets at a time, found out by how it answers them."""

import asyncio
from collections import deque
from datetime import timedelta

from hanse.kube.errors import retry_after_header
from hanse.kube.transport import Request, Response, Transport

AS_SOON = 3.0
"""How many times as long as the quickest an answer may take that is still no sign of a crowd."""

SOON = 0.010
"""Seconds that tell nothing of a crowd in any case."""

PACE = 2_000
"""Requests that one agent sends in a second at the very most: a near server answers these with few
at a time, and each connection more takes memory and a handshake."""


class ConcurrencyLimit:
    """A window of concurrent requests, first come first served.

    It grows by one with each good answer until the first sign of trouble, and from then on by one
    for each whole window of good answers; it is halved, once per window, when the server answers
    429 or slowly. An answer is good that comes about as soon as the quickest did: what would only
    wait in the server waits here, and needs no connection of its own meanwhile. A Retry-After holds
    everything back for as long as it says.
    """

    def __init__(
        self, *, first: int = 16, most: int = 64, slow: timedelta = timedelta(seconds=3)
    ) -> None:
        self.width = first
        self.active = 0
        self._first = first
        self._most = most
        self._slow = slow.total_seconds()
        self._troubled = False
        self._good = 0
        self._quickest = float("inf")
        self._halved_at = float("-inf")
        self._resume_at = float("-inf")
        self._turns: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many requests have not been let through yet."""
        return len(self._turns)

    async def send(self, transport: Transport, request: Request) -> Response:
        """Send a request when its turn comes, and learn from the answer."""
        loop = asyncio.get_running_loop()
        if self._turns or not self._open():
            await self._queue()
        else:
            self.active += 1
        started = loop.time()
        response: Response | None = None
        try:
            response = await transport.send(request)
        finally:
            self.active -= 1
            self._learn(response, started, loop.time())
            self._admit()
        return response

    async def _queue(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # let through and cancelled in one moment
                self.active -= 1
                self._admit()
            elif turn in self._turns:  # one that ended as we did may have passed over it already
                self._turns.remove(turn)
            raise

    def _admit(self) -> None:
        if not self._turns:
            return
        while self._turns and self._open():
            turn = self._turns.popleft()
            if not turn.done():
                self.active += 1
                turn.set_result(None)
        loop = asyncio.get_running_loop()
        if self._turns and loop.time() < self._resume_at and self._alarm is None:
            self._alarm = loop.call_at(self._resume_at, self._resume)

    def _resume(self) -> None:
        self._alarm = None
        self._admit()

    def _open(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self.active < self.width and now >= self._resume_at

    def _learn(self, response: Response | None, started: float, now: float) -> None:
        throttled = response is not None and response.status == 429
        if throttled or now - started >= self._slow:
            if started > self._halved_at:  # what was sent before the halving tells nothing new
                self.width = max(1, self.width // 2)
                self._halved_at = now
            self._troubled = True
            self._good = 0
        elif response is not None:
            took = now - started
            self._quickest = min(self._quickest, took)
            if took <= max(AS_SOON * self._quickest, SOON):
                self._grow()
        pause = retry_after_header(response) if response is not None and throttled else None
        if pause is not None:
            self._resume_at = max(self._resume_at, now + pause.total_seconds())

    def _grow(self) -> None:
        if self.width + 1 > max(self._first, self._quickest * PACE):
            return
        self._good += 1
        if not self._troubled or self._good >= self.width:
            self.width = min(self._most, self.width + 1)
            self._good = 0
