"""One of a few numbered places, claimed by Lease, so that replicas which share keep apart."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random

from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.leader_election import Following, LeaderElector, Leading, Standing
from hanse.kube.lease import LeaseTimings

ALL_TAKEN = timedelta(seconds=10)
"""How long to wait where every place is somebody's: until then we share one."""


class ReplicaSlots:
    """Holds the first free place, and another one if that is lost."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        leases: Sequence[str],
        *,
        clock: Clock,
        random: Random,
        terms: LeaseTimings,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._leases = tuple(leases)
        self._clock = clock
        self._random = random
        self._terms = terms

    async def run(self, tell: Callable[[int | None], None]) -> None:
        """Hold a place until cancelled; `tell` hears its number, or None while there is none."""
        while True:
            for number, _ in enumerate(self._leases):
                if await self._hold(number, tell):
                    break
            else:
                await asyncio.sleep(ALL_TAKEN.total_seconds())

    async def _hold(self, number: int, tell: Callable[[int | None], None]) -> bool:
        """Hold one place for as long as it is ours; whether it ever was."""
        elector = LeaderElector(
            self._client,
            self._namespace,
            self._leases[number],
            self._identity,
            clock=self._clock,
            random=self._random,
            terms=self._terms,
        )
        over = asyncio.Event()
        held = False

        def heard(standing: Standing) -> None:
            nonlocal held
            match standing:
                case Leading():
                    held = True
                    tell(number)
                case Following(holder):
                    if held or holder:
                        over.set()

        async with asyncio.TaskGroup() as group:
            standing = group.create_task(elector.run(heard), name=f"slot {number}")
            await over.wait()
            standing.cancel()
        if held:
            tell(None)
        return held
