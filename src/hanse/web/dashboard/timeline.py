"""What happened, newest last: changes of objects and of the fleet, in words."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from hanse.model.conditions import Condition
from hanse.model.facts import ClusterState, Leadership, LeaseLiveness, Phase, WriteOutcome
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event, Node, Pod, Secret
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, Kind, Object, ObjectRef, object_ref
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.web.dashboard.section import Item, State

EntryKind = Literal["created", "changed", "deleted", "told", "event", "fleet"]

MAX_ENTRIES = 500
"""How many happenings are remembered."""

DUPLICATE_WINDOW = timedelta(seconds=5)
"""Within which a condition and an Event that say the same of an object are told once."""

_IGNORED_KINDS = (Lease, Node, Secret, Pod, ConfigMap)
"""Kinds whose changes are too many to tell, or nobody's business."""

_OWN_PREFIXES = ("hanse.dev/", "services.hanse.dev/")


class TimelineEntry(Item, frozen=True, kw_only=True):
    """One thing that happened, to what, and where: by the name that people give the cluster."""

    number: int
    at: datetime
    where: ClusterId
    what: EntryKind
    state: State
    kind: str = ""
    namespace: str = ""
    name: str = ""
    text: str = ""


class Timeline:
    """Happenings since somebody began to look; each cluster is heard through one agent alone."""

    def __init__(self, began: datetime) -> None:
        self._began = began
        self._number = 0
        self.kept: deque[TimelineEntry] = deque(maxlen=MAX_ENTRIES)

    def on_change(
        self, agent: ClusterId, change: Change, now: datetime
    ) -> tuple[TimelineEntry, ...]:
        """Take in a change; what it is told as, which may be nothing."""
        match change:
            case ObjectChange(where, before, after):
                told = self._object(where, before, after)
            case FactChange():
                told = _fact(agent, change)
        happened = []
        for where, what, state, about, text in told:
            purpose, _, cluster = where.rpartition("/")
            one = TimelineEntry(
                number=self._number + 1,
                at=now,
                where=cluster,
                what=what,
                state=state,
                kind=about.kind.name if about is not None else "",
                namespace=about.namespace if about is not None else "",
                name=about.name if about is not None else "",
                text=f"{text} (for {purpose})" if purpose and what == "fleet" else text,
            )
            if not self._is_duplicate(one):
                self._number += 1
                self.kept.append(one)
                happened.append(one)
        return tuple(happened)

    def _is_duplicate(self, one: TimelineEntry) -> bool:
        """Whether a condition has just said what an Event says, or the other way round."""
        other = {"told": "event", "event": "told"}.get(one.what)
        said = one.text.partition(": ")[2]
        if other is None or not said:
            return False
        words = (other, one.where, one.kind, one.namespace, one.name, said)
        for past in takewhile(
            lambda past: one.at - past.at <= DUPLICATE_WINDOW, reversed(self.kept)
        ):
            place = (past.what, past.where, past.kind, past.namespace, past.name)
            if (*place, past.text.partition(": ")[2]) == words:
                return True
        return False

    def _object(
        self, where: ClusterId, before: Object | None, after: Object | None
    ) -> Iterator["_Draft"]:
        known = after if after is not None else before
        if known is None or isinstance(known, _IGNORED_KINDS):
            return
        about = object_ref(known)
        if isinstance(after, Event):
            yield _event(where, after)
        elif after is None:
            yield where, "deleted", "idle", about, ""
        elif before is None:
            made = after.metadata.creation_timestamp
            if made is not None and made >= self._began:
                yield where, "created", "good", about, ""
        else:
            told = list(_transitions(before, after))
            for one in told:
                yield where, "told", _condition_state(one), about, _words(one)
            if not told and (text := _difference(before, after)) is not None:
                yield where, "changed", "idle", about, text


_Draft = tuple[ClusterId, EntryKind, State, ObjectRef | None, str]


def _event(where: ClusterId, event: Event) -> _Draft:
    """An Event as a word about its object."""
    regards = event.involved_object
    kind = Kind("", "", regards.kind, "")
    about = ObjectRef(kind, regards.name, regards.namespace)
    state: State = "warn" if event.type == "Warning" else "good"
    return where, "event", state, about, f"{event.reason}: {event.message}"


def _fact(agent: ClusterId, change: FactChange) -> Iterator[_Draft]:
    before, after = change.before, change.after
    match after:
        case ClusterState(cluster, phase=phase, reason=reason):
            was = before.phase if isinstance(before, ClusterState) else None
            if phase is not was and was is not None:
                state: State = "good" if phase is Phase.SYNCED else "bad"
                why = f": {reason}" if reason else ""
                yield cluster, "fleet", state, None, f"{phase} for the agent of {agent}{why}"
        case Leadership(member, holder, ours=True):
            if not (isinstance(before, Leadership) and before.ours):
                yield member, "fleet", "good", None, f"led by {holder_cluster(holder)}"
        case LeaseLiveness(lease=lease, alive=alive):
            if isinstance(before, LeaseLiveness) and before.alive != alive:
                text = "is alive again" if alive else "is taken for dead: its Lease ran out"
                yield lease, "fleet", "good" if alive else "bad", None, f"{text} (seen by {agent})"
        case WriteOutcome(place, result, message) if before is None:
            yield place.where, "told", "warn", None, f"{place.ref}: {result}, {message}"
        case _:
            return


def _transitions(before: Object, after: Object) -> Iterator[Condition]:
    """The conditions that say something else than before."""
    old = {c.type: (c.status, c.reason, c.message) for c in _conditions(before)}
    for one in _conditions(after):
        if old.get(one.type) != (one.status, one.reason, one.message):
            yield one


def _conditions(obj: Object) -> tuple[Condition, ...]:
    status = getattr(obj, "status", None)
    found = getattr(status, "conditions", ())
    return tuple(one for one in found or () if isinstance(one, Condition))


def _words(told: Condition) -> str:
    text = f"{told.type} {told.status}, {told.reason}"
    return f"{text}: {told.message}" if told.message else text


def _condition_state(told: Condition) -> State:
    bad = "True" if told.type in ("Conflict", "Paused", "Degraded") else "False"
    return "warn" if told.status == bad else "good"


def _difference(before: Object, after: Object) -> str | None:
    """What changed, in a word; None where it is nothing that people did or need to know."""
    if isinstance(after, EndpointSlice) and isinstance(before, EndpointSlice):
        ready = [sum(e.ready for e in one.endpoints or ()) for one in (before, after)]
        return None if ready[0] == ready[1] else f"{ready[0]} → {ready[1]} ready"
    changed = [
        name
        for name in ("spec", "status", "data", "value")
        if getattr(before, name, None) != getattr(after, name, None)
    ]
    old, new = before.metadata, after.metadata
    changed += ["labels"] if _user_set(old.labels) != _user_set(new.labels) else []
    changed += ["annotations"] if _user_set(old.annotations) != _user_set(new.annotations) else []
    if after.metadata.deletion_timestamp and not before.metadata.deletion_timestamp:
        changed.append("it is being deleted")
    return ", ".join(changed) or None


def _user_set(marks: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in marks.items() if not name.startswith(_OWN_PREFIXES)}
