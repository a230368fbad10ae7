"""The Lease by which other clusters see that this one is alive."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from msgspec.structs import replace

from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.clock import Clock
from hanse.kube.errors import (
    AlreadyExists,
    BadCredentials,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
)
from hanse.kube.lease import format_micro_time, lease_patch, new_lease
from hanse.kube.lease_observer import RECONNECT_TIME
from hanse.kube.optional_reads import read_or_none
from hanse.model.facts import HeartbeatState
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.objects import ClusterId
from hanse.model.refused_writes import admission_refusal
from hanse.model.tokens import token_digest

RENEWALS_PER_DURATION = 3
"""Two of them may be lost without harm."""

RESTORED_LIMIT = timedelta(seconds=RECONNECT_TIME)
"""How much longer a repair may take after a restore."""


class HeartbeatLease:
    """Renews the Lease named like this cluster; never releases it, so that agents may restart."""

    def __init__(
        self,
        client: Client,
        where: ClusterId,
        namespace: str,
        cluster: ClusterId,
        clock: Clock,
        duration: Callable[[], timedelta],
        on_state: Callable[[HeartbeatState], None],
        repair: Callable[[bool], Awaitable[None]],
        may_renew: Callable[[], bool] = lambda: True,
        credentials: Credentials | None = None,
    ) -> None:
        """Renew with a client of the cluster `where`; `credentials` are the client's.

        `on_state` is called when renewals begin to fail, or succeed again.

        `repair` writes all that this cluster has on that server, as it should be now. Its argument
        says whether the server may have been restored since it was listed. `may_renew` is asked
        after that: whether this is the cluster that the Lease stands for.
        """
        self._client = client.with_own_limit()
        self._where = where
        self._namespace = namespace
        self._cluster = cluster
        self._clock = clock
        self._duration = duration
        self._on_state = on_state
        self._reported: HeartbeatState | None = None
        self._credentials = credentials
        self._token = ""
        """The digest of the token with which the last renewal succeeded."""
        self._refusal: KubeError | None = None
        """The answer to the last renewal, if it rejects our credentials, or refuses the renewal."""
        self._repair = repair
        self._may_renew = may_renew
        self._known: Lease | None = None
        self._written = LeaseSpec()
        """What we wrote last; empty until then."""
        self._renew_requested = asyncio.Event()

    @property
    def is_published(self) -> bool:
        """Whether a renewal has succeeded, and no later one found the Lease changed or deleted.

        It stays True while requests fail, also if the Lease may have expired.
        """
        return self._known is not None

    def renew_soon(self) -> None:
        """Wake `run`, which renews at once if this replica is active."""
        self._renew_requested.set()

    async def run(self, is_active: Callable[[], bool]) -> None:
        """Renew three times per duration while this replica is active, until cancelled.

        `on_state` gets a failure at once if credentials or rights are refused, else after the
        duration of the Lease without a renewal: from then on others may take it for expired. A
        refusal by admission is reported before that, from the second one on. An inactive replica
        checks again only after `renew_soon`.
        """
        loop = asyncio.get_running_loop()
        last = loop.time()
        refused = False
        while True:
            pause = None
            if is_active():
                if await self._renew():
                    last = loop.time()
                    self._report_state(True)
                elif (
                    isinstance(self._refusal, BadCredentials | Forbidden)
                    or loop.time() - last >= self._duration().total_seconds()
                ):
                    self._report_state(False)
                elif refused and self._refusal is not None and self._reported is not None:
                    self._report_state(self._reported.renewed)
                refused = self._refusal is not None
                pause = self._duration().total_seconds() / RENEWALS_PER_DURATION
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._renew_requested.wait()
            self._renew_requested.clear()

    def _report_state(self, renewed: bool) -> None:
        """Call `on_state` with the state of renewals, if anything but its time is new.

        It has the token of the last renewal and why renewals fail: 401, missing rights, or the
        message of who refuses them, of which the first stays while they are refused.
        """
        before, message = self._reported, admission_refusal(self._refusal)
        state = HeartbeatState(
            self._where,
            renewed,
            self._clock.now(),
            isinstance(self._refusal, BadCredentials),
            self._namespace,
            self._token,
            isinstance(self._refusal, Forbidden) and not message,
            before.refusal if before is not None and before.refusal and message else message,
        )
        if before is None or replace(state, since=before.since) != before:
            self._reported = state
            self._on_state(state)

    async def _renew(self) -> bool:
        """Renew once, or create an absent Lease; returns whether that succeeded.

        False after API errors and timeouts, or if `may_renew` forbids. If the Lease is not as we
        wrote it last, as at the start, its server may have been restored: `repair` is awaited
        first. If it was changed meanwhile, the next renewal follows at once.
        """
        try:
            async with asyncio.timeout(self._duration().total_seconds()):
                known = self._known or await read_or_none(
                    self._client, Lease, self._cluster, self._namespace
                )
            is_changed = known is None or known.spec != self._written
            restored = is_changed and self._written != LeaseSpec()
            if is_changed:
                await self._repair_in_time(restored)
            if not self._may_renew():
                return False
            before = LeaseSpec() if known is None or restored else known.spec
            spec = self._renewed_spec(before)
            token = await self._current_token()
            async with asyncio.timeout(self._duration().total_seconds()):
                self._known = await self._write(known, spec)
            self._written, self._token = self._known.spec, token
        except (Conflict, NotFound, AlreadyExists):
            if self._known is not None:
                self._renew_requested.set()  # somebody else changed it: read it again
            self._known = None
            return False
        except (BadCredentials, Forbidden) as error:
            self._refusal = error
            return False
        except KubeError as error:
            self._refusal = error if admission_refusal(error) else self._refusal
            return False
        except TimeoutError:
            return False
        self._refusal = None
        return True

    async def _current_token(self) -> str:
        """The digest of the token that the server is shown now; empty if that is not known."""
        if self._credentials is None:
            return ""
        token = (await self._credentials.config()).identity.token
        return token_digest(token) if token else ""

    async def _write(self, known: Lease | None, spec: LeaseSpec) -> Lease:
        """Write a renewal to the known Lease, or create it (None); returns it as stored."""
        if known is None:
            return await self._client.create(new_lease(self._namespace, self._cluster, spec))
        change = lease_patch(known, spec)
        return await self._client.patch(Lease, self._cluster, self._namespace, change)

    async def _repair_in_time(self, restored: bool) -> None:
        """Await `repair` for at most a third of the Lease's duration; then the renewal goes on.

        If the Lease's server was restored, RESTORED_LIMIT longer: others see that the Lease went
        back, and wait for us. Errors of `repair` are raised.
        """
        limit = self._duration() / RENEWALS_PER_DURATION
        with suppress(TimeoutError):
            async with asyncio.timeout((limit + RESTORED_LIMIT * restored).total_seconds()):
                await self._repair(restored)

    def _renewed_spec(self, before: LeaseSpec) -> LeaseSpec:
        """The spec of a Lease that this cluster renews now; its duration is at least 1 s.

        Acquire time and transitions are those of `before`; without an acquire time, as of a new
        Lease or after a restore, it is now, which tells our next agent when that was.
        """
        now = format_micro_time(self._clock.now())
        return LeaseSpec(
            holder_identity=self._cluster,
            lease_duration_seconds=max(int(self._duration().total_seconds()), 1),
            acquire_time=before.acquire_time or now,
            renew_time=now,
            lease_transitions=before.lease_transitions,
        )
