"""An adaptive limit of concurrent requests to one API server."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta

from hanse.kube.errors import retry_after_header
from hanse.kube.transport import Request, Response, Transport

QUICK_FACTOR = 3.0
"""A response within this multiple of the quickest one is no sign of load."""

QUICK_SECONDS = 0.010
"""Seconds within which a response is never a sign of load."""

MAX_REQUEST_RATE = 2_000
"""Requests per second that the limit need not exceed: a near server answers these with few at a
time, and each further connection costs memory and a handshake."""


BEFORE_SENDING: ContextVar[Callable[[], None] | None] = ContextVar("before_sending", default=None)
"""Called once a request is admitted, perhaps minutes later; raises if it is not to be sent."""


class AdaptiveConcurrencyLimit:
    """A window of concurrent requests, first come first served.

    It grows by one with each quick response until the first overload, and then by one for each
    full window of quick responses; it is halved, once per window, when the server answers 429 or
    slowly. A response is quick if it takes about as long as the quickest one: requests that would
    queue in the server queue here, without a connection. A Retry-After pauses all requests.
    """

    def __init__(
        self, *, first: int = 16, most: int = 64, slow: timedelta = timedelta(seconds=3)
    ) -> None:
        """Begin with `first` requests at a time, and grow to `most` at most.

        A response that takes `slow` or longer is a sign of overload.
        """
        self.width = first
        self.active = 0
        self._first = first
        self._most = most
        self._slow = slow.total_seconds()
        self._overloaded = False
        self._quick_count = 0
        self._quickest = float("inf")
        self._halved_at = float("-inf")
        self._resume_at = float("-inf")
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._resume_timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of queued requests."""
        return len(self._waiters)

    def widen(self, width: int) -> None:
        """Raise the window and its upper bound to at least `width`; queued requests may start."""
        self._most = max(self._most, width)
        self.width = max(self.width, width)
        self._admit_waiters()

    async def send(self, transport: Transport, request: Request) -> Response:
        """Send a request once the window admits it, and adjust the window to its response.

        Calls `BEFORE_SENDING` just before, whose error is raised, and nothing sent. Returns any
        status.
        """
        loop = asyncio.get_running_loop()
        if self._waiters or not self._has_room():
            await self._wait_for_room()
        else:
            self.active += 1
        started = loop.time()
        response: Response | None = None
        try:
            if (before_sending := BEFORE_SENDING.get()) is not None:
                before_sending()
            response = await transport.send(request)
        finally:
            self.active -= 1
            self._adjust_width(response, started, loop.time())
            self._admit_waiters()
        return response

    async def _wait_for_room(self) -> None:
        """Wait in order until admitted, which counts the request as active.

        A cancelled request leaves the queue, or gives its place to the next one.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._admit_waiters()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # admitted and cancelled at once
                self.active -= 1
                self._admit_waiters()
            elif waiter in self._waiters:  # `_admit_waiters` may have skipped it already
                self._waiters.remove(waiter)
            raise

    def _admit_waiters(self) -> None:
        """Let waiting requests start while there is room; during a Retry-After sets a timer."""
        if not self._waiters:
            return
        while self._waiters and self._has_room():
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.active += 1
                waiter.set_result(None)
        loop = asyncio.get_running_loop()
        if self._waiters and loop.time() < self._resume_at and self._resume_timer is None:
            self._resume_timer = loop.call_at(self._resume_at, self._resume)

    def _resume(self) -> None:
        """Admit waiting requests after the server's Retry-After has passed."""
        self._resume_timer = None
        self._admit_waiters()

    def _has_room(self) -> bool:
        """Whether a request may start: there is width left, and no Retry-After to wait for."""
        now = asyncio.get_running_loop().time()
        return self.active < self.width and now >= self._resume_at

    def _adjust_width(self, response: Response | None, started: float, now: float) -> None:
        """Halve the limit (at least 1) after a 429 or a slow request, raise it after quick ones.

        Halves once for requests sent at the same time. A request that failed (None) can only count
        as slow. A Retry-After of a 429 stops all requests so long.
        """
        throttled = response is not None and response.status == 429
        if throttled or now - started >= self._slow:
            if started > self._halved_at:  # requests sent before the halving do not count
                self.width = max(1, self.width // 2)
                self._halved_at = now
            self._overloaded = True
            self._quick_count = 0
        elif response is not None:
            took = now - started
            self._quickest = min(self._quickest, took)
            if took <= max(QUICK_FACTOR * self._quickest, QUICK_SECONDS):
                self._grow_width()
        pause = retry_after_header(response) if response is not None and throttled else None
        if pause is not None:
            self._resume_at = max(self._resume_at, now + pause.total_seconds())

    def _grow_width(self) -> None:
        """Count a quick response and widen by 1, after an overload only once per `width` of them.

        Never beyond the most, nor beyond the first width if responses as quick as the quickest one
        would exceed MAX_REQUEST_RATE; the response does not count then.
        """
        if self.width + 1 > max(self._first, self._quickest * MAX_REQUEST_RATE):
            return
        self._quick_count += 1
        if not self._overloaded or self._quick_count >= self.width:
            self.width = min(self._most, self.width + 1)
            self._quick_count = 0
