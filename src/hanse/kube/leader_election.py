"""A candidate for one Lease: watches it, takes it when it lapses, renews it, gives it back."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import timedelta
from random import Random
from typing import Protocol

from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from hanse.kube.lease import (
    DEFAULT_TIMINGS,
    Acquire,
    LeaseTimings,
    Lost,
    ObservedLease,
    Renew,
    Wait,
    lease_patch,
    lease_request_patch,
    new_lease,
    next_action,
    next_spec,
    preferred_holder,
    released_spec,
)
from hanse.kube.store import object_version, parse_version
from hanse.kube.watch_events import Applied, Deleted, Listed
from hanse.kube.watcher import list_and_watch
from hanse.model.kinds.coordination import Lease, LeaseSpec

log = logging.getLogger(__name__)

STEADY = timedelta(minutes=2)
"""How long a candidate stands by before it asks for a lease that it should rather hold."""

RELEASE = timedelta(seconds=3)
"""What giving a lease back may take when we are asked to stop."""


class Leader(Struct, frozen=True):
    """We hold the lease; epochs of one lease only grow."""

    epoch: int


class Standby(Struct, frozen=True):
    """Somebody else holds the lease, or nobody that we know of."""

    holder: str = ""


LeaderState = Leader | Standby


class HolderPreference(Protocol):
    """Who of several candidates should rather hold a lease."""

    def acquire_delay(self) -> timedelta:
        """How long to leave a free lease to others first, at most `terms.retry`."""
        ...

    def prefers(self, candidate: str) -> bool:
        """Whether somebody else should rather hold it than we."""
        ...

    def may_request(self) -> bool:
        """Whether a lease that we should rather hold may be asked for now; once for each yes."""
        ...


class NoPreference:
    """Whoever holds a lease keeps it."""

    def acquire_delay(self) -> timedelta:
        return timedelta(0)

    def prefers(self, candidate: str) -> bool:  # noqa: ARG002 - an `HolderPreference`
        return False

    def may_request(self) -> bool:
        return False


class LeaderElector:
    """Stands for election under one identity.

    With a `HolderPreference`, the leaders of several members spread over their supervisors: a
    candidate leaves a free lease to a preferred one first, and a leader releases its lease when a
    preferred candidate has requested it. A candidate requests a lease only after it has stood by
    for a while, so that one that comes and goes takes nothing from others.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Clock,
        random: Random,
        terms: LeaseTimings = DEFAULT_TIMINGS,
        order: HolderPreference | None = None,
    ) -> None:
        self.renewed_at: float | None = None
        """The loop's time when the last good renewal began; None while we do not lead."""
        self._client = client.with_own_limit()
        self._namespace = namespace
        self._name = name
        self._me = identity
        self._clock = clock
        self._random = random
        self._terms = terms
        self._order = order or NoPreference()
        self._steady = ("", 0.0)
        """Who holds it, and since when we have seen nobody else do so."""
        self._seen = ObservedLease(None, 0.0)
        self._known_transitions = -1
        self._news = asyncio.Event()
        self._standing: LeaderState | None = None
        self._trouble = ""

    @property
    def standing(self) -> LeaderState:
        """How we stand by what was told last; before a write, ask `may_write` instead."""
        return self._standing or Standby()

    def may_write(self) -> bool:
        """Whether our last renewal is young enough for a write that is sent now."""
        if self.renewed_at is None:
            return False
        until = self.renewed_at + self._terms.deadline.total_seconds()
        return asyncio.get_running_loop().time() < until

    async def run(self, tell: Callable[[LeaderState], None]) -> None:
        """Stand for election until cancelled, then give the lease back; tells every change."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(), name=f"watch lease {self._name}")
            try:
                while True:
                    await self._follow(tell)
                    await self._lead(tell)
            finally:
                watching.cancel()
                await self._step_down(tell)

    async def _follow(self, tell: Callable[[LeaderState], None]) -> None:
        """Wait for the lease to be free, and take it; returns when we lead."""
        await self._look()
        while self.renewed_at is None:
            now = asyncio.get_running_loop().time()
            match self._next_step(now):
                case Wait(holder, until):
                    self._tell(tell, Standby(holder))
                    await self._ask_for_it(holder, now)
                    await self._news_until(until)
                case Acquire():
                    self._steady = ("", 0.0)
                    self._tell(tell, Standby())
                    await self._take()
                case Renew():
                    await self._take()
                case Lost():
                    raise AssertionError("only a leader loses a lease")

    async def _take(self) -> None:
        """Take a free lease: let others go first if we should, look at it as it is now, write."""
        pause = min(self._order.acquire_delay(), self._terms.retry)
        if pause:
            await asyncio.sleep(pause.total_seconds())
        if not await self._look():
            return
        match self._next_step(asyncio.get_running_loop().time()):
            case Acquire() | Renew() as step:
                await self._attempt(step)
            case _:
                return

    async def _lead(self, tell: Callable[[LeaderState], None]) -> None:
        """Renew until that fails for too long, or somebody else is seen to hold it."""
        assert self._seen.lease is not None, "what we lead was written by us"
        self._tell(tell, Leader(self._seen.lease.spec.lease_transitions))
        while self.renewed_at is not None:
            loop = asyncio.get_running_loop()
            match self._next_step(loop.time()):
                case Renew() if self._gives_way():
                    await self._step_down(tell)
                case Renew() as step:
                    await self._renew_in_time(step, self.renewed_at)
                case Lost(holder):
                    self.renewed_at = None
                    self._tell(tell, Standby(holder))
                case Acquire() | Wait():
                    raise AssertionError("a leader renews or loses")

    async def _renew_in_time(self, step: Renew, renewed_at: float) -> None:
        """Renew when it is due; never busy with it for longer than our leadership holds."""
        loop = asyncio.get_running_loop()
        due = renewed_at + self._terms.retry.total_seconds()
        while loop.time() < due and self._still_ours() and not self._gives_way():
            await self._news_until(due)
        if not self._still_ours() or self._gives_way():
            return
        try:
            async with asyncio.timeout_at(renewed_at + self._terms.deadline.total_seconds()):
                while self._still_ours() and self.renewed_at == renewed_at:
                    await self._attempt(step)
        except TimeoutError:
            return  # the next step finds that the deadline has passed

    def _still_ours(self) -> bool:
        lease = self._seen.lease
        return lease is not None and lease.spec.holder_identity == self._me

    def _gives_way(self) -> bool:
        wanted = preferred_holder(self._seen.lease)
        return bool(wanted) and self._order.prefers(wanted)

    async def _ask_for_it(self, holder: str, now: float) -> None:
        """Ask for a lease that is rather ours, once we have stood by steadily; at most once."""
        if self._steady[0] != holder:
            self._steady = (holder, now)
        lease = self._seen.lease
        if lease is None or preferred_holder(lease) or self._order.prefers(holder):
            return
        if now < self._steady[1] + STEADY.total_seconds() or not self._order.may_request():
            return
        with suppress(KubeError, TimeoutError):  # it was renewed meanwhile: at the next chance
            async with asyncio.timeout(self._terms.retry.total_seconds()):
                change = lease_request_patch(lease, self._me)
                self._see(await self._client.patch(Lease, self._name, self._namespace, change))

    async def _attempt(self, step: Acquire | Renew) -> None:
        """One write; after a refusal the lease is looked at again, after a failure we wait."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self._terms.deadline.total_seconds() / 2):
                lease = await self._write(step)
        except (Conflict, AlreadyExists):
            await self._look()
        except NotFound as error:
            if self._seen.lease is not None:
                await self._look()  # somebody deleted it
            else:
                self._complain(f"{error}; create the namespace {self._namespace}")
                await self._pause()
        except KubeError as error:
            self._complain(str(error))
            await self._pause()
        except TimeoutError:
            await self._pause()
        else:
            self._trouble = ""
            self._see(lease)
            self.renewed_at = started

    async def _write(self, step: Acquire | Renew) -> Lease:
        held = self._seen.lease
        spec = next_spec(
            step, held.spec if held else LeaseSpec(), self._me, self._clock.now(), self._terms
        )
        if held is None:
            return await self._client.create(new_lease(self._namespace, self._name, spec))
        change = lease_patch(held, spec)
        return await self._client.patch(Lease, self._name, self._namespace, change)

    async def _look(self) -> bool:
        """Read the lease live; whether that worked. After a failure we wait."""
        try:
            self._see(await self._client.read(Lease, self._name, self._namespace))
        except NotFound:
            self._see(None)
        except KubeError as error:
            self._complain(str(error))
            await self._pause()
            return False
        return True

    def _complain(self, why: str) -> None:
        """Say what keeps us from the lease, each reason once until it was written again."""
        if why != self._trouble:
            self._trouble = why
            log.info("no lease", extra={"lease": f"{self._namespace}/{self._name}", "why": why})

    def _see(self, lease: Lease | None) -> None:
        self._seen = self._seen.after(lease, asyncio.get_running_loop().time())
        if lease is not None:
            self._known_transitions = max(self._known_transitions, lease.spec.lease_transitions)

    def _next_step(self, now: float) -> Acquire | Renew | Wait | Lost:
        return next_action(
            self._seen,
            now,
            self._me,
            renewed_at=self.renewed_at,
            known_transitions=self._known_transitions,
            deadline=self._terms.deadline,
        )

    async def _watch(self) -> None:
        """Take in what the watch tells; it may lag behind our own reads and writes."""
        only = f"metadata.name={self._name}"
        stream = list_and_watch(
            self._client, Lease, namespace=self._namespace, fields=only, random=self._random
        )
        async with aclosing(stream) as events:
            async for event in events:
                match event:
                    case Listed((lease, *_)) | Applied(lease):
                        self._hear(lease)
                    case Listed((), resource_version):
                        self._hear_absence(resource_version)
                    case Deleted(lease):
                        self._hear_absence(lease.metadata.resource_version)
                    case _:
                        continue

    def _hear(self, lease: Lease) -> None:
        if object_version(lease) > self._known_version():
            self._see(lease)
            self._news.set()

    def _hear_absence(self, as_of: str) -> None:
        if parse_version(as_of) > self._known_version():
            self._see(None)
            self._news.set()

    def _known_version(self) -> int:
        return object_version(self._seen.lease) if self._seen.lease is not None else -1

    async def _news_until(self, moment: float) -> None:
        """Wait for the watch to tell something, at most until then."""
        self._news.clear()
        try:
            async with asyncio.timeout_at(moment):
                await self._news.wait()
        except TimeoutError:
            return

    async def _pause(self) -> None:
        """The wait between attempts; candidates keep out of each other's way."""
        leading = self.renewed_at is not None
        spread = 1.0 if leading else 1 + self._terms.jitter * self._random.random()
        await asyncio.sleep(self._terms.retry.total_seconds() * spread)

    async def _step_down(self, tell: Callable[[LeaderState], None]) -> None:
        """Stop leading, and only then give the lease back, as far as the server can be reached."""
        leading, self.renewed_at = self.renewed_at is not None, None
        self._tell(tell, Standby())
        held = self._seen.lease
        if not leading or held is None:
            return
        change = lease_patch(held, released_spec(held.spec, self._clock.now()))
        try:
            async with asyncio.timeout(RELEASE.total_seconds()):
                await self._client.patch(Lease, self._name, self._namespace, change)
        except (KubeError, TimeoutError):
            return  # it lapses by itself

    def _tell(self, tell: Callable[[LeaderState], None], standing: LeaderState) -> None:
        if standing != self._standing:
            self._standing = standing
            tell(standing)
