"""Leader election on one Lease: a candidate watches it, acquires, renews and releases it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from datetime import timedelta
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from hanse.kube.holder_preference import HolderPreference, NoPreference
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

REQUEST_AFTER = timedelta(minutes=2)
"""How long a preferred candidate waits before it requests the lease from its holder."""

RELEASE_TIMEOUT = timedelta(seconds=3)
"""The time limit for releasing the lease when the elector stops."""


class Leader(Struct, frozen=True):
    """This candidate holds the lease; `epoch` is the number of transitions and only grows."""

    epoch: int


class Standby(Struct, frozen=True):
    """Another candidate holds the lease; `holder` is empty where none is known."""

    holder: str = ""


LeaderState = Leader | Standby


class LeaderElector:
    """Takes part in the election of one Lease under one identity.

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
        timings: LeaseTimings = DEFAULT_TIMINGS,
        order: HolderPreference | None = None,
        on_error: Callable[[KubeError | None], None] = lambda _: None,
        on_restored: Callable[[], None] = lambda: None,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`on_error` gets each new error of a request, and None once requests succeed again.

        `on_restored` is called when the watch of the lease finds that the server was restored. The
        holder keeps `annotations` on the lease with its renewals; empty ones are removed. Without
        an `order` no candidate is preferred. Nothing is sent before `run`.
        """
        self.renewed_at: float | None = None
        """The loop's time when the last successful renewal began; None while not the leader."""
        self._client = client.with_own_limit()
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._random = random
        self._timings = timings
        self._order = order or NoPreference()
        self._on_error = on_error
        self._on_restored = on_restored
        self._annotations = annotations
        self._holder_since = ("", 0.0)
        """The observed holder, and since when there was no other."""
        self._observed = ObservedLease(None, 0.0)
        self._known_transitions = -1
        self._updated = asyncio.Event()
        self._state: LeaderState | None = None
        self._last_error = ""

    @property
    def state(self) -> LeaderState:
        """The last reported state, at first a Standby without holder.

        Before a write, check `may_write` instead.
        """
        return self._state or Standby()

    def may_write(self) -> bool:
        """Whether we lead, and the last renewal began less than the renew deadline ago.

        It reads no Lease.
        """
        if self.renewed_at is None:
            return False
        until = self.renewed_at + self._timings.renew_deadline.total_seconds()
        return asyncio.get_running_loop().time() < until

    async def run(self, on_change: Callable[[LeaderState], None]) -> None:
        """Run until cancelled, then release the lease; `on_change` gets every change of state.

        Errors of requests are reported to `on_error`, and do not end it.
        """
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(), name=f"watch lease {self._name}")
            try:
                while True:
                    await self._stand_by(on_change)
                    await self._hold(on_change)
            finally:
                watch.cancel()
                await self._release(on_change)

    async def _stand_by(self, on_change: Callable[[LeaderState], None]) -> None:
        """Wait until the lease is free and acquire it; returns once this candidate leads.

        Meanwhile the lease is requested from a holder that is not preferred to us, and `on_change`
        gets a Standby with each observed holder.
        """
        await self._read_lease()
        while self.renewed_at is None:
            now = asyncio.get_running_loop().time()
            match self._next_action(now):
                case Wait(holder, until):
                    self._set_state(on_change, Standby(holder))
                    self._report_success()
                    await self._request_lease(holder, now)
                    await self._wait_for_update(until)
                case Acquire():
                    self._holder_since = ("", 0.0)
                    self._set_state(on_change, Standby())
                    await self._try_acquire()
                case Renew():
                    await self._try_acquire()
                case Lost():
                    raise AssertionError("only a leader loses a lease")

    async def _try_acquire(self) -> None:
        """Try once to acquire a free lease: after the delay for preferred ones and a live read.

        Nothing is written if the read fails or another holds the lease by now. After a success
        `renewed_at` is set; errors are not raised.
        """
        pause = min(self._order.acquire_delay(), self._timings.retry_period)
        if pause:
            await asyncio.sleep(pause.total_seconds())
        if not await self._read_lease():
            return
        match self._next_action(asyncio.get_running_loop().time()):
            case Acquire() | Renew() as action:
                await self._try_write(action)
            case _:
                return

    async def _hold(self, on_change: Callable[[LeaderState], None]) -> None:
        """Renew until the deadline passes or another holds it; releases it if it should yield.

        `on_change` gets Leader at first, and Standby at the end.
        """
        assert self._observed.lease is not None, "a leader has written its lease"
        self._set_state(on_change, Leader(self._observed.lease.spec.lease_transitions))
        while self.renewed_at is not None:
            loop = asyncio.get_running_loop()
            match self._next_action(loop.time()):
                case Renew() if self._should_yield():
                    await self._release(on_change)
                case Renew() as action:
                    await self._renew_in_time(action, self.renewed_at)
                case Lost(holder):
                    self.renewed_at = None
                    self._set_state(on_change, Standby(holder))
                case Acquire() | Wait():
                    raise AssertionError("a leader renews or loses")

    async def _renew_in_time(self, action: Renew, renewed_at: float) -> None:
        """Wait until the renewal is due, and write until one succeeds or the renew deadline passes.

        Returns early if the Lease is no longer ours, and before the first write also if a candidate
        that is preferred to us wants it.
        """
        loop = asyncio.get_running_loop()
        due = renewed_at + self._timings.retry_period.total_seconds()
        while loop.time() < due and self._is_ours() and not self._should_yield():
            await self._wait_for_update(due)
        if not self._is_ours() or self._should_yield():
            return
        try:
            async with asyncio.timeout_at(
                renewed_at + self._timings.renew_deadline.total_seconds()
            ):
                while self._is_ours() and self.renewed_at == renewed_at:
                    await self._try_write(action)
        except TimeoutError:
            return  # the next action is Lost: the deadline has passed

    def _is_ours(self) -> bool:
        """Whether the observed Lease names us as its holder."""
        lease = self._observed.lease
        return lease is not None and lease.spec.holder_identity == self._identity

    def _should_yield(self) -> bool:
        """Whether the Lease's annotation hanse.dev/wanted-by names a candidate preferred to us."""
        wanted = preferred_holder(self._observed.lease)
        return bool(wanted) and self._order.prefers(wanted)

    async def _request_lease(self, holder: str, now: float) -> None:
        """Request the Lease from its holder: name us in its annotation hanse.dev/wanted-by.

        Nothing is written if any candidate is named there, if the holder is preferred to us, before
        it has held the Lease for REQUEST_AFTER, or while the order forbids it. Failures are
        ignored.
        """
        if self._holder_since[0] != holder:
            self._holder_since = (holder, now)
        lease = self._observed.lease
        if lease is None or preferred_holder(lease) or self._order.prefers(holder):
            return
        if (
            now < self._holder_since[1] + REQUEST_AFTER.total_seconds()
            or not self._order.may_request()
        ):
            return
        with suppress(KubeError, TimeoutError):  # renewed meanwhile: requested later
            async with asyncio.timeout(self._timings.retry_period.total_seconds()):
                change = lease_request_patch(lease, self._identity)
                self._on_lease(  # the watch may have reported meanwhile that it was released
                    await self._client.patch(Lease, self._name, self._namespace, change)
                )

    async def _try_write(self, action: Acquire | Renew) -> None:
        """Write the Lease once; on success set `renewed_at` to the time at which the write began.

        After a conflict, or if it was deleted, read it again; after another failure, or half the
        renew deadline without an answer, wait for a retry period. No `KubeError` is raised.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self._timings.renew_deadline.total_seconds() / 2):
                lease = await self._write_lease(action)
        except (Conflict, AlreadyExists):
            await self._read_lease()
        except NotFound as error:
            if self._observed.lease is not None:
                await self._read_lease()  # it was deleted
            else:
                self._report_error(error, f"{error}; create the namespace {self._namespace}")
                await self._wait_before_retry()
        except KubeError as error:
            self._report_error(error, str(error))
            await self._wait_before_retry()
        except TimeoutError:
            await self._wait_before_retry()
        else:
            self._report_success()
            self._observe_lease(lease)
            self.renewed_at = started

    async def _write_lease(self, action: Acquire | Renew) -> Lease:
        """Create the Lease if none was observed, else patch the observed version; returns it.

        Raises `KubeError`; that is `Conflict` or `AlreadyExists` if the Lease is another by now.
        """
        held = self._observed.lease
        before = self._spec_of(held) if held is not None else LeaseSpec()
        spec = next_spec(action, before, self._identity, self._clock.now(), self._timings)
        if held is None:
            return await self._client.create(new_lease(self._namespace, self._name, spec))
        change = lease_patch(held, spec, self._annotations())
        return await self._client.patch(Lease, self._name, self._namespace, change)

    def _spec_of(self, held: Lease) -> LeaseSpec:
        """The spec of a Lease, with the most transitions that we know of it if that is more.

        A restored server shows fewer, and what we wrote there has the epoch of ours.
        """
        transitions = max(held.spec.lease_transitions, self._known_transitions)
        return replace(held.spec, lease_transitions=transitions)

    async def _read_lease(self) -> bool:
        """Read the lease live, which may be absent, and observe it; returns True.

        If that failed, report the error, wait for a retry period and return False.
        """
        try:
            self._observe_lease(await self._client.read(Lease, self._name, self._namespace))
        except NotFound:
            self._observe_lease(None)
        except KubeError as error:
            self._report_error(error, str(error))
            await self._wait_before_retry()
            return False
        return True

    def _report_success(self) -> None:
        """Call `on_error` with None if an error was reported since the last success."""
        if self._last_error:
            self._last_error = ""
            self._on_error(None)

    def _report_error(self, error: KubeError, why: str) -> None:
        """Report and log why the lease cannot be written, each reason once until that succeeds."""
        if why != self._last_error:
            self._last_error = why
            self._on_error(error)
            log.info("no lease", extra={"lease": f"{self._namespace}/{self._name}", "why": why})

    def _observe_lease(self, lease: Lease | None) -> None:
        """Record a Lease (None: absent) with the loop's time, and its transitions if higher."""
        self._observed = self._observed.after(lease, asyncio.get_running_loop().time())
        if lease is not None:
            self._known_transitions = max(self._known_transitions, lease.spec.lease_transitions)

    def _next_action(self, now: float) -> Acquire | Renew | Wait | Lost:
        """What to do next, by the observed Lease, the time and that of the last renewal.

        It changes nothing.
        """
        return next_action(
            self._observed,
            now,
            self._identity,
            renewed_at=self.renewed_at,
            known_transitions=self._known_transitions,
            deadline=self._timings.renew_deadline,
        )

    async def _watch(self) -> None:
        """Observe the lease by a watch, which may lag behind our own reads and writes.

        Calls `on_restored` for a list after which the server was found to be restored.
        """
        only = f"metadata.name={self._name}"
        stream = list_and_watch(
            self._client, Lease, namespace=self._namespace, fields=only, random=self._random
        )
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Listed) and event.restored:
                    self._on_restored()
                match event:
                    case Listed((lease, *_)) | Applied(lease):
                        self._on_lease(lease)
                    case Listed((), resource_version):
                        self._on_deleted(resource_version)
                    case Deleted(lease):
                        self._on_deleted(lease.metadata.resource_version)
                    case _:
                        continue

    def _on_lease(self, lease: Lease) -> None:
        """Observe a Lease and wake the elector; nothing if it is not newer than the known one."""
        if object_version(lease) > self._known_version():
            self._observe_lease(lease)
            self._updated.set()

    def _on_deleted(self, as_of: str) -> None:
        """Observe that there is no Lease and wake the elector; nothing if a newer one is known."""
        if parse_version(as_of) > self._known_version():
            self._observe_lease(None)
            self._updated.set()

    def _known_version(self) -> int:
        """The version of the observed Lease; -1 without one."""
        return object_version(self._observed.lease) if self._observed.lease is not None else -1

    async def _wait_for_update(self, moment: float) -> None:
        """Wait until a newer lease is reported, or was since the last wait; ends at `moment`."""
        try:
            async with asyncio.timeout_at(moment):
                await self._updated.wait()
        except TimeoutError:
            return
        self._updated.clear()

    async def _wait_before_retry(self) -> None:
        """Wait the retry period; a candidate waits up to `jitter_factor` periods more, at random.

        Thus candidates do not collide.
        """
        leading = self.renewed_at is not None
        spread = 1.0 if leading else 1 + self._timings.jitter_factor * self._random.random()
        await asyncio.sleep(self._timings.retry_period.total_seconds() * spread)

    async def _release(self, on_change: Callable[[LeaderState], None]) -> None:
        """Stop leading first (`on_change` gets a Standby), then release the lease if we led.

        A lease that another holds by now is left alone. Failures are ignored; gives up after
        RELEASE_TIMEOUT.
        """
        leading, self.renewed_at = self.renewed_at is not None, None
        self._set_state(on_change, Standby())
        held = self._observed.lease
        if not leading or held is None or not self._is_ours():
            return
        change = lease_patch(held, released_spec(self._spec_of(held), self._clock.now()))
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT.total_seconds()):
                await self._client.patch(Lease, self._name, self._namespace, change)
        except (KubeError, TimeoutError):
            return  # it expires by itself

    def _set_state(self, on_change: Callable[[LeaderState], None], state: LeaderState) -> None:
        """Store the state and call `on_change`, unless it is the same as before."""
        if state != self._state:
            self._state = state
            on_change(state)
