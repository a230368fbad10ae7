"""Events for people: written when nothing else is to be done, repeated ones only counted."""

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

_WAITING = 256
_REMEMBERED = 1024
_SIMILAR = 10
_MEMORY = timedelta(minutes=10)
"""How long events of one object and reason count as similar."""

Lookup = Callable[[Object], Object | None]
"""An event as it stands now, by the one that was written."""

Said = tuple[str, str, str]
"""Uid, reason and message: what makes two events the same."""


class _Pending(Struct):
    tell: RecordEvent
    at: datetime
    count: int = 1


class _Similar(Struct):
    since: datetime
    messages: set[str]


class EventRecorder:
    """What is to be told; under load the oldest ordinary news is dropped, warnings are kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: OrderedDict[Said, _Pending] = OrderedDict()
        self._told: OrderedDict[Said, Object] = OrderedDict()
        self._similar: OrderedDict[tuple[str, str], _Similar] = OrderedDict()
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._pending)

    def tell(self, tell: RecordEvent) -> None:
        """Note an event, unless too many like it were told of the same object."""
        said = (uid_of(tell.about), tell.reason, tell.message)
        known = self._pending.get(said)
        if known is not None:
            known.count += 1
            return
        if self._is_too_many(said):
            return
        self._pending[said] = _Pending(tell, self._clock.now())
        if len(self._pending) > _WAITING:
            ordinary = (one for one, kept in self._pending.items() if not kept.tell.warning)
            self._pending.pop(next(ordinary, next(iter(self._pending))))

    def next_write(self, standing: Lookup) -> Create | Patch | None:
        """The next event to be written: a new one, or one more of a kind already told."""
        if not self._pending:
            return None
        said, pending = self._pending.popitem(last=False)
        before = self._told.get(said)
        present = standing(before) if before is not None else None
        if present is not None:
            count = int(present.get("count") or 1) + pending.count
            return Patch(
                EVENTS, present, {"count": count, "lastTimestamp": format_time(pending.at)}
            )
        event = self._event(pending)
        self._told[said] = event
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        return Create(EVENTS, event)

    def _is_too_many(self, said: Said) -> bool:
        uid, reason, message = said
        now = self._clock.now()
        known = self._similar.pop((uid, reason), None)
        if known is None or now - known.since > _MEMORY:
            known = _Similar(now, set())
        self._similar[(uid, reason)] = known
        if len(self._similar) > _REMEMBERED:
            self._similar.popitem(last=False)
        if message not in known.messages and len(known.messages) >= _SIMILAR:
            return True
        known.messages.add(message)
        return False

    def _event(self, pending: _Pending) -> Object:
        about = pending.tell.about
        moment = format_time(pending.at)
        self._numbers += 1
        suffix = f"{int(pending.at.timestamp() * 1_000_000):x}{self._numbers:04x}"
        namespace = namespace_of(about) or "default"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name_of(about)}.{suffix}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.get("apiVersion", ""),
                "kind": about.get("kind", ""),
                "namespace": namespace_of(about),
                "name": name_of(about),
                "uid": uid_of(about),
                "resourceVersion": about["metadata"].get("resourceVersion", ""),
            },
            "reason": pending.tell.reason,
            "message": pending.tell.message,
            "type": "Warning" if pending.tell.warning else "Normal",
            "source": {"component": pending.tell.by},
            "reportingComponent": pending.tell.by,
            "reportingInstance": "",
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": pending.count,
        }
