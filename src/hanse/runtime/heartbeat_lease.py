"""The Lease by which other clusters see that this one is alive."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from hanse.kube.lease import format_micro_time, lease_patch, new_lease
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.objects import ClusterId

RENEWALS_PER_DURATION = 3
"""Two of them may be lost without harm."""


class HeartbeatLease:
    """Renews the Lease named like this cluster; never releases it, so that agents may restart."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        cluster: ClusterId,
        clock: Clock,
        duration: Callable[[], timedelta],
        on_state: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Renew with a client; `on_state` is told when renewals begin to fail, or succeed again."""
        self._client = client.with_own_limit()
        self._namespace = namespace
        self._cluster = cluster
        self._clock = clock
        self._duration = duration
        self._on_state = on_state
        self._renewed: bool | None = None
        self._known: Lease | None = None
        self._renew_requested = asyncio.Event()

    @property
    def is_published(self) -> bool:
        """Whether we renewed the Lease, and nobody else has changed it since."""
        return self._known is not None

    def renew_soon(self) -> None:
        """Renew at once: this replica may have become active, or the duration may have changed."""
        self._renew_requested.set()

    async def run(self, is_active: Callable[[], bool]) -> None:
        """Renew while this replica is active, until cancelled.

        Once no renewal has succeeded for the duration of the Lease, others may take it for expired.
        """
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            pause = None
            if is_active():
                if await self._renew():
                    last = loop.time()
                    self._tell(True)
                elif loop.time() - last >= self._duration().total_seconds():
                    self._tell(False)
                pause = self._duration().total_seconds() / RENEWALS_PER_DURATION
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._renew_requested.wait()
            self._renew_requested.clear()

    def _tell(self, renewed: bool) -> None:
        """Report whether renewals succeed, if that changed."""
        if renewed != self._renewed:
            self._renewed = renewed
            self._on_state(renewed)

    async def _renew(self) -> bool:
        """Renew once, creating an absent Lease; a failure waits for the next renewal.

        After a conflict, or if it was deleted, the Lease is read again next time.
        """
        try:
            async with asyncio.timeout(self._duration().total_seconds()):
                known = self._known or await self._read_or_create()
                change = lease_patch(known, self._renewed_spec(known.spec))
                self._known = await self._client.patch(
                    Lease, self._cluster, self._namespace, change
                )
        except (Conflict, NotFound, AlreadyExists):
            self._known = None  # somebody else changed it: read it again next time
            return False
        except (KubeError, TimeoutError):
            return False
        return True

    async def _read_or_create(self) -> Lease:
        """Read the cluster's heartbeat Lease; if there is none, create it as renewed now."""
        try:
            return await self._client.read(Lease, self._cluster, self._namespace)
        except NotFound:
            made = new_lease(self._namespace, self._cluster, self._renewed_spec(LeaseSpec()))
            return await self._client.create(made)

    def _renewed_spec(self, before: LeaseSpec) -> LeaseSpec:
        """The spec renewed now by this cluster; acquire time and transitions stay."""
        now = format_micro_time(self._clock.now())
        return LeaseSpec(
            holder_identity=self._cluster,
            lease_duration_seconds=max(int(self._duration().total_seconds()), 1),
            acquire_time=before.acquire_time or now,
            renew_time=now,
            lease_transitions=before.lease_transitions,
        )
