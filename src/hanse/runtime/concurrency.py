"""Limits how many keys are applied at a time, without waiting for clusters that do not answer."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

from hanse.kube.clock import loop_time
from hanse.model.objects import ClusterId

MAX_CONCURRENT = 64
"""As many as one cluster's client sends at a time: keys that wait gather further changes."""

PERMIT_TIMEOUT = timedelta(seconds=1)
"""How long a key may hold a permit, and a cluster may leave writes unanswered."""


class Permit:
    """One key's share of the limit, released when its writes end or take too long.

    They count as ended as soon as only unresponsive clusters are left.
    """

    def __init__(self, limit: "ConcurrencyLimit", clusters: Iterable[ClusterId]) -> None:
        """Take over a permit that was acquired, for writes to these clusters; needs a running loop.

        It is released at once if all of them are unresponsive, and after `PERMIT_TIMEOUT` at the
        latest; clusters that answered no write until then count as unresponsive.
        """
        self._limit: ConcurrencyLimit | None = limit
        self._unfinished = set(clusters)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PERMIT_TIMEOUT.total_seconds(), self._time_out)
        self._release_if_finished()

    def finish_cluster(self, cluster: ClusterId) -> None:
        """Note that the key has nothing more to write to a cluster.

        Releases the permit once only unresponsive clusters are left.
        """
        self._unfinished.discard(cluster)
        self._release_if_finished()

    def release(self) -> None:
        """Let another key begin; unfinished writes go on. A second call does nothing."""
        if self._limit is not None:
            self._timer.cancel()
            self._limit.free.release()
            self._limit = None

    def _release_if_finished(self) -> None:
        """Release once only unresponsive clusters are unfinished."""
        if self._limit is not None and self._unfinished <= self._limit.unresponsive:
            self.release()

    def _time_out(self) -> None:
        """Count the unfinished clusters that have answered no write as unresponsive, and release.

        Nothing if the permit was released before.
        """
        if self._limit is not None:
            self._limit.mark_unresponsive(self._unfinished)
        self.release()


class ConcurrencyLimit:
    """A semaphore over keys that knows which clusters are unresponsive."""

    def __init__(self, most: int = MAX_CONCURRENT) -> None:
        """Give out at most `most` permits at a time; no cluster counts as unresponsive yet.

        For each key, a caller awaits `acquire` and then makes its `permit`, which is released when
        the writes of the key end, or after `PERMIT_TIMEOUT`, while they go on.
        """
        self.free = asyncio.Semaphore(most)
        self.unresponsive: set[ClusterId] = set()
        """Clusters that have answered no write for a while, although some were sent."""
        self._answered_at: dict[ClusterId, float] = {}

    async def acquire(self) -> None:
        """Wait until another key may begin; the caller then makes its permit or releases `free`."""
        await self.free.acquire()

    def permit(self, clusters: Iterable[ClusterId]) -> Permit:
        """The permit of a key that writes to these clusters, for one `acquire` before it."""
        return Permit(self, clusters)

    def record_answer(self, cluster: ClusterId) -> None:
        """Note that a cluster has answered a write, with success or not: it is not unresponsive."""
        self._answered_at[cluster] = loop_time()
        self.unresponsive.discard(cluster)

    def mark_unresponsive(self, clusters: Iterable[ClusterId]) -> None:
        """Mark those clusters unresponsive that answered no write within the last PERMIT_TIMEOUT.

        A busy cluster answers some writes; keys go on waiting for it, so that it is written to no
        more often than it has to be.
        """
        since = loop_time() - PERMIT_TIMEOUT.total_seconds()
        self.unresponsive.update(c for c in clusters if self._answered_at.get(c, since) <= since)
