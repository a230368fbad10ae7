"""Publishes whether Leases were renewed within their duration, by our own observation alone."""

import asyncio

from hanse.model.facts import LeaseFreshness
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, ObjectChange
from hanse.runtime.informers import ClusterInformers

_Key = tuple[ClusterId, str, str]


class LeaseFreshnessTracker:
    """Keeps a `LeaseFreshness` fact for each watched Lease of some names.

    A Lease is fresh for its duration after each observed renewal, and after it was first seen.
    """

    def __init__(self, informers: ClusterInformers, names: frozenset[str]) -> None:
        """Track Leases of these names, by the changes that the caller passes to `on_change`.

        It subscribes to nothing; `informers` is only where the facts are put.
        """
        self._informers = informers
        self._names = names
        self._timers: dict[_Key, asyncio.TimerHandle] = {}

    def on_change(self, change: Change) -> None:
        """Put `LeaseFreshness` for a Lease of one of the names: fresh if it or its spec is new.

        It then expires after its duration. Not fresh once it is deleted; other changes are ignored.
        """
        if not isinstance(change, ObjectChange) or not isinstance(change.object, Lease):
            return
        meta = change.object.metadata
        if meta.name not in self._names:
            return
        key = (change.where, meta.namespace, meta.name)
        before, after = change.before, change.after
        if not isinstance(after, Lease):
            self._expire(key)
        elif not isinstance(before, Lease) or before.spec != after.spec:
            self._renew(key, after.spec.lease_duration_seconds)

    def _renew(self, key: _Key, duration: int) -> None:
        """Put a Lease as fresh, and start the timer that expires it after `duration` seconds."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(duration, self._expire, key)
        self._informers.put_fact(LeaseFreshness(*key, fresh=True))

    def _expire(self, key: _Key) -> None:
        """Put a Lease as not fresh, and stop its timer."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._informers.put_fact(LeaseFreshness(*key, fresh=False))
