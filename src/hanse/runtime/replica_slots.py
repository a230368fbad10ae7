"""Numbered slots that replicas hold by Lease, so that each allocates from a part of its own."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random

from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.leader_election import Leader, LeaderElector, LeaderState, Standby
from hanse.kube.lease import LeaseTimings

RETRY_INTERVAL = timedelta(seconds=10)
"""How long to wait while every slot is held by another replica."""


class ReplicaSlots:
    """Holds the first free slot, and another one if it loses that."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        leases: Sequence[str],
        *,
        clock: Clock,
        random: Random,
        timings: LeaseTimings,
    ) -> None:
        """No slot is held until `run`; there is one for each name in `leases`, in this order.

        The Leases are in `namespace`, and `identity` is written as their holder.
        """
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._leases = tuple(leases)
        self._clock = clock
        self._random = random
        self._timings = timings

    async def run(self, on_slot: Callable[[int | None], None]) -> None:
        """Hold the first free slot, again after it is lost, until cancelled.

        `on_slot` gets its number, from 0, or None when it is lost. While all are held, retries
        every RETRY_INTERVAL.
        """
        while True:
            for number, _ in enumerate(self._leases):
                if await self._hold(number, on_slot):
                    break
            else:
                await asyncio.sleep(RETRY_INTERVAL.total_seconds())

    async def _hold(self, number: int, on_slot: Callable[[int | None], None]) -> bool:
        """Contend for one slot, and hold it until it is lost; ends as soon as another holds it.

        Returns whether it was ever ours; if so, `on_slot` got its number, and gets None at the end.
        """
        elector = LeaderElector(
            self._client,
            self._namespace,
            self._leases[number],
            self._identity,
            clock=self._clock,
            random=self._random,
            timings=self._timings,
        )
        lost = asyncio.Event()
        held = False

        def on_state(state: LeaderState) -> None:
            """Report the slot when it is ours.

            End the wait when it is lost or somebody else holds it.
            """
            nonlocal held
            match state:
                case Leader():
                    held = True
                    on_slot(number)
                case Standby(holder):
                    if held or holder:
                        lost.set()

        async with asyncio.TaskGroup() as group:
            election = group.create_task(elector.run(on_state), name=f"slot {number}")
            await lost.wait()
            election.cancel()
        if held:
            on_slot(None)
        return held
