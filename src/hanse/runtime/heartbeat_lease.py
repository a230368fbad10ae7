"""This cluster's sign of life: a Lease in a cluster that others watch, renewed while we work."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from hanse.kube.lease import change_to, format_micro_time, new_lease
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.objects import ClusterId

SHARE = 3
"""Renewals within one duration: two may be lost without harm."""


class HeartbeatLease:
    """Renews the Lease named like this cluster; never given back, since a restart is no death."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        cluster: ClusterId,
        clock: Clock,
        duration: Callable[[], timedelta],
    ) -> None:
        self._client = client.beside()
        self._namespace = namespace
        self._cluster = cluster
        self._clock = clock
        self._duration = duration
        self._known: Lease | None = None
        self._stirred = asyncio.Event()

    @property
    def shown(self) -> bool:
        """Whether others can see that we work: we renewed it, and nobody has touched it since."""
        return self._known is not None

    def look_again(self) -> None:
        """Say that this replica may have begun to work, or that the duration may be another."""
        self._stirred.set()

    async def run(self, working: Callable[[], bool]) -> None:
        """Renew for as long as we run, whenever this replica is the one that works."""
        while True:
            pause = None
            if working():
                await self._renew()
                pause = self._duration().total_seconds() / SHARE
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stirred.wait()
            self._stirred.clear()

    async def _renew(self) -> None:
        """One renewal; what fails is tried again in its time."""
        try:
            known = self._known or await self._found_or_made()
            change = change_to(known, self._spec(known.spec))
            self._known = await self._client.patch(Lease, self._cluster, self._namespace, change)
        except (Conflict, NotFound, AlreadyExists):
            self._known = None  # somebody else touched it: look at it anew next time
        except KubeError:
            return

    async def _found_or_made(self) -> Lease:
        try:
            return await self._client.read(Lease, self._cluster, self._namespace)
        except NotFound:
            made = new_lease(self._namespace, self._cluster, self._spec(LeaseSpec()))
            return await self._client.create(made)

    def _spec(self, before: LeaseSpec) -> LeaseSpec:
        now = format_micro_time(self._clock.now())
        return LeaseSpec(
            holder_identity=self._cluster,
            lease_duration_seconds=max(int(self._duration().total_seconds()), 1),
            acquire_time=before.acquire_time or now,
            renew_time=now,
            lease_transitions=before.lease_transitions,
        )
