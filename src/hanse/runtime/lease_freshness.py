"""Publishes whether Leases were renewed within their duration, by our own observation.

Of one that was not seen to be renewed yet, as after a restart, the clock of its API server decides.
"""

import asyncio

from hanse.kube.clock import Clock
from hanse.model.facts import LeaseFreshness, ServerClock
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.runtime.informers import ClusterInformers

_Key = tuple[ClusterId, str, str]


class LeaseFreshnessTracker:
    """Keeps a `LeaseFreshness` fact for each watched Lease of some names.

    A Lease is fresh for its duration after each observed renewal. One that was not seen to be
    renewed is as old as its API server says, and new while that is not known.
    """

    def __init__(self, informers: ClusterInformers, names: frozenset[str], clock: Clock) -> None:
        """Track Leases of these names, by the changes that the caller passes to `on_change`.

        It subscribes to nothing; `informers` is only where the facts are put and server clocks are.
        """
        self._informers = informers
        self._names = names
        self._clock = clock
        self._timers: dict[_Key, asyncio.TimerHandle] = {}
        self._unrenewed: dict[_Key, Lease] = {}
        """Leases that were seen, and not yet seen to be renewed."""

    def on_change(self, change: Change) -> None:
        """Put `LeaseFreshness` for a Lease of one of the names: fresh if it or its spec is new.

        It then expires after its duration; one that was first seen by its age, also once the clock
        of its API server is known. Not fresh once it is deleted; other changes are ignored.
        """
        match change:
            case FactChange(_, ServerClock(cluster)):
                for key in [key for key in self._unrenewed if key[0] == cluster]:
                    self._judge_age(key)
            case ObjectChange() if isinstance(change.object, Lease):
                if change.object.metadata.name in self._names:
                    self._on_lease(change)
            case _:
                return

    def _on_lease(self, change: ObjectChange) -> None:
        """Renew or expire a Lease after a change of it, unless its spec stays the same.

        What a list shows may have been written long ago: it is judged by its age, too.
        """
        meta, before, after = change.object.metadata, change.before, change.after
        key = (change.where, meta.namespace, meta.name)
        if not isinstance(after, Lease):
            self._unrenewed.pop(key, None)
            self._expire(key)
            return
        if isinstance(before, Lease) and before.spec == after.spec:
            return
        self._unrenewed.pop(key, None)
        self._renew(key, after.spec.lease_duration_seconds)
        if before is None or not change.live:
            self._unrenewed[key] = after
            self._judge_age(key)

    def _judge_age(self, key: _Key) -> None:
        """Let a Lease expire when its API server finds it too old, at once if it does now.

        Nothing if the age is not known, or below zero: then the server's clock was set back.
        """
        lease, clock = self._unrenewed[key], self._informers.facts.get(ServerClock, key[0])
        if clock is None or lease.written_at is None:
            return
        age = (self._clock.now() + clock.ahead - lease.written_at).total_seconds()
        if age >= lease.spec.lease_duration_seconds:
            self._expire(key)
        elif age > 0:
            self._renew(key, lease.spec.lease_duration_seconds - age)

    def _renew(self, key: _Key, seconds: float) -> None:
        """Put a Lease as fresh, and start the timer that expires it after so many seconds."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._expire, key)
        self._informers.put_fact(LeaseFreshness(*key, fresh=True))

    def _expire(self, key: _Key) -> None:
        """Put a Lease as not fresh, and stop its timer."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._informers.put_fact(LeaseFreshness(*key, fresh=False))
