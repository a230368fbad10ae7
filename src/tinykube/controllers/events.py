"""Recording Events: written when controllers are idle; repeated ones increment a count."""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from tinykube.clock import Clock
from tinykube.controllers.controller import EVENTS, Create, Patch, RecordEvent
from tinykube.controllers.objects import (
    format_time,
    name_of,
    namespace_of,
    uid_of,
)
from tinykube.resources import Object

_MAX_PENDING = 256
_MAX_CACHED = 1024
_MAX_SIMILAR = 10
_SIMILAR_WINDOW = timedelta(minutes=10)
"""How long Events of one object and reason count as similar."""

Lookup = Callable[[Object], Object | None]
"""Returns the stored version of an Event that was written."""

EventKey = tuple[str, str, str]
"""Uid, reason and message; two Events with the same key are the same."""


class _Pending(Struct):
    event: RecordEvent
    at: datetime
    count: int = 1


class _Similar(Struct):
    since: datetime
    messages: set[str]


class EventRecorder:
    """Pending Events, without spam; under load the oldest Normal ones are dropped first."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is recorded yet; `next_write` gives the writes of what is recorded."""
        self._clock = clock
        self._pending: OrderedDict[EventKey, _Pending] = OrderedDict()
        self._written: OrderedDict[EventKey, Object] = OrderedDict()
        self._similar: OrderedDict[tuple[str, str], _Similar] = OrderedDict()
        self._counter = 0

    def __len__(self) -> int:
        """The number of Events that are not written yet."""
        return len(self._pending)

    def record(self, event: RecordEvent) -> None:
        """Add a pending Event, or count up a pending one of the same object, reason and message.

        A new message is dropped after 10 others for that object and reason within 10 minutes. Over
        256 pending Events the oldest Normal one is dropped, or the oldest Warning if there is no
        Normal one.
        """
        key = (uid_of(event.regarding), event.reason, event.message)
        previous = self._pending.get(key)
        if previous is not None:
            previous.count += 1
            return
        if not self._remember_message(key):
            return
        self._pending[key] = _Pending(event, self._clock.now())
        if len(self._pending) > _MAX_PENDING:
            normal = (one for one, pending in self._pending.items() if not pending.event.warning)
            self._pending.pop(next(normal, next(iter(self._pending))))

    def next_write(self, lookup: Lookup) -> Create | Patch | None:
        """Remove the oldest pending Event and return its write; None if nothing is pending.

        If an equal Event was written before and `lookup` finds it stored, the write adds to its
        count and sets lastTimestamp; otherwise it creates the Event.
        """
        if not self._pending:
            return None
        key, pending = self._pending.popitem(last=False)
        before = self._written.get(key)
        stored = lookup(before) if before is not None else None
        if stored is not None:
            count = int(stored.get("count") or 1) + pending.count
            return Patch(EVENTS, stored, {"count": count, "lastTimestamp": format_time(pending.at)})
        event = self._build_event(pending)
        self._written[key] = event
        if len(self._written) > _MAX_CACHED:
            self._written.popitem(last=False)
        return Create(EVENTS, event)

    def _remember_message(self, key: EventKey) -> bool:
        """Remember a message about an object; False if its Event is to be dropped.

        It is dropped after 10 other messages for the same object and reason within 10 minutes of
        the first; a message that is remembered already never is.
        """
        uid, reason, message = key
        now = self._clock.now()
        previous = self._similar.pop((uid, reason), None)
        if previous is None or now - previous.since > _SIMILAR_WINDOW:
            previous = _Similar(now, set())
        self._similar[(uid, reason)] = previous
        if len(self._similar) > _MAX_CACHED:
            self._similar.popitem(last=False)
        if message not in previous.messages and len(previous.messages) >= _MAX_SIMILAR:
            return False
        previous.messages.add(message)
        return True

    def _build_event(self, pending: _Pending) -> Object:
        """A new Event object with a unique name; in `default` for a cluster-scoped object."""
        regarding = pending.event.regarding
        timestamp = format_time(pending.at)
        self._counter += 1
        suffix = f"{int(pending.at.timestamp() * 1_000_000):x}{self._counter:04x}"
        namespace = namespace_of(regarding) or "default"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name_of(regarding)}.{suffix}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": regarding.get("apiVersion", ""),
                "kind": regarding.get("kind", ""),
                "namespace": namespace_of(regarding),
                "name": name_of(regarding),
                "uid": uid_of(regarding),
                "resourceVersion": regarding["metadata"].get("resourceVersion", ""),
            },
            "reason": pending.event.reason,
            "message": pending.event.message,
            "type": "Warning" if pending.event.warning else "Normal",
            "source": {"component": pending.event.component},
            "reportingComponent": pending.event.component,
            "reportingInstance": "",
            "firstTimestamp": timestamp,
            "lastTimestamp": timestamp,
            "count": pending.count,
        }
