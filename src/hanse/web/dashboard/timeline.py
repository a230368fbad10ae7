"""The timeline: changes of objects and of connections as text, newest last."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from hanse.model.conditions import Condition
from hanse.model.facts import (
    ClusterState,
    HolderState,
    Leadership,
    LeaseLiveness,
    Phase,
    WriteOutcome,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event, Node, Pod, Secret
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.naming import GUARDS_NAMESPACE, holder_cluster
from hanse.model.objects import ClusterId, Kind, Object, ObjectRef, object_ref
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.model.view import Part, State

EntryKind = Literal["created", "changed", "deleted", "told", "event", "fleet"]

MAX_ENTRIES = 500
"""How many entries are kept."""

DUPLICATE_WINDOW = timedelta(seconds=5)
"""Within this time a condition and an Event with the same text are one entry."""

_IGNORED_KINDS = (Lease, Node, Secret, Pod, ConfigMap)
"""Kinds that change too often to list, or that are secret."""

_OWN_PREFIXES = ("hanse.dev/", "services.hanse.dev/")


class TimelineEntry(Part, frozen=True, kw_only=True):
    """One change: the object, its cluster, and a text."""

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
    """Entries since the process began; each cluster is reported by one agent."""

    def __init__(self, began: datetime) -> None:
        """Nothing is kept yet; objects created before `began` are not reported as created."""
        self._began = began
        self._number = 0
        self.kept: deque[TimelineEntry] = deque(maxlen=MAX_ENTRIES)

    def on_change(
        self, agent: ClusterId, change: Change, now: datetime
    ) -> tuple[TimelineEntry, ...]:
        """Add the entries for a change, without duplicates, and return them; there may be none.

        Of a cluster `PURPOSE/NAME` the name is the place, and the text of a `fleet` entry says the
        purpose. The oldest are dropped beyond MAX_ENTRIES.
        """
        match change:
            case ObjectChange(where, before, after):
                drafts = self._object_entries(where, before, after)
            case FactChange():
                drafts = _fact_entries(agent, change)
        added = []
        for where, what, state, about, text in drafts:
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
                added.append(one)
        return tuple(added)

    def _is_duplicate(self, one: TimelineEntry) -> bool:
        """Whether an Event repeats a condition of its object, or a condition an Event.

        The message has to be the same, and within DUPLICATE_WINDOW.
        """
        other = {"told": "event", "event": "told"}.get(one.what)
        message = one.text.partition(": ")[2]
        if other is None or not message:
            return False
        same = (other, one.where, one.kind, one.namespace, one.name, message)
        for past in takewhile(
            lambda past: one.at - past.at <= DUPLICATE_WINDOW, reversed(self.kept)
        ):
            place = (past.what, past.where, past.kind, past.namespace, past.name)
            if (*place, past.text.partition(": ")[2]) == same:
                return True
        return False

    def _object_entries(
        self, where: ClusterId, before: Object | None, after: Object | None
    ) -> Iterator["_Draft"]:
        """Entries for an object that was created, changed or deleted; none for ignored kinds.

        Changed conditions give one entry each, in place of one for the rest; an Event gives its
        own. Objects older than this timeline are not reported as created.
        """
        known = after if after is not None else before
        if known is None or isinstance(known, _IGNORED_KINDS):
            return
        about = object_ref(known)
        if isinstance(after, Event):
            yield _event_entry(where, after)
        elif after is None:
            yield where, "deleted", "idle", about, ""
        elif before is None:
            made = after.metadata.creation_timestamp
            if made is not None and made >= self._began:
                yield where, "created", "good", about, ""
        else:
            conditions = list(_changed_conditions(before, after))
            for one in conditions:
                yield where, "told", _condition_state(one), about, _condition_text(one)
            if not conditions and (text := _difference(before, after)) is not None:
                yield where, "changed", "idle", about, text


_Draft = tuple[ClusterId, EntryKind, State, ObjectRef | None, str]


def _event_entry(where: ClusterId, event: Event) -> _Draft:
    """The entry for the object of a Kubernetes Event: `warn` for a Warning, else `good`."""
    regards = event.involved_object
    kind = Kind("", "", regards.kind, "")
    about = ObjectRef(kind, regards.name, regards.namespace)
    state: State = "warn" if event.type == "Warning" else "good"
    return where, "event", state, about, f"{event.reason}: {event.message}"


def _fact_entries(agent: ClusterId, change: FactChange) -> Iterator[_Draft]:
    """Entries for changed connections, leaders, Leases and failed writes.

    A cluster's first phase gives none, nor a leader other than this agent, nor the Lease of a node;
    a Lease gives one if its holder is silent or was; a write if it had no outcome before.
    """
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
        case LeaseLiveness(namespace=namespace) if namespace == GUARDS_NAMESPACE:
            return  # of a node, not of a cluster
        case LeaseLiveness(lease=lease, state=found) if found is not HolderState.UNKNOWN:
            alive = found is HolderState.READY
            if isinstance(before, LeaseLiveness) and HolderState.SILENT in (before.state, found):
                text = "is alive again" if alive else "is taken for dead: its Lease ran out"
                yield lease, "fleet", "good" if alive else "bad", None, f"{text} (seen by {agent})"
        case WriteOutcome(place, result, message) if before is None:
            yield place.where, "told", "warn", place.ref, f"{result}: {message}"
        case _:
            return


def _changed_conditions(before: Object, after: Object) -> Iterator[Condition]:
    """The conditions that are new, or whose status, reason or message changed.

    Those that disappeared are not among them.
    """
    old = {c.type: (c.status, c.reason, c.message) for c in _status_conditions(before)}
    for one in _status_conditions(after):
        if old.get(one.type) != (one.status, one.reason, one.message):
            yield one


def _status_conditions(obj: Object) -> tuple[Condition, ...]:
    """The conditions of an object's status; empty if it has none."""
    status = getattr(obj, "status", None)
    found = getattr(status, "conditions", ())
    return tuple(one for one in found or () if isinstance(one, Condition))


def _condition_text(condition: Condition) -> str:
    """Type, status and reason of a condition, and its message if there is one."""
    text = f"{condition.type} {condition.status}, {condition.reason}"
    return f"{text}: {condition.message}" if condition.message else text


def _condition_state(condition: Condition) -> State:
    """Warn if a condition is False, else good.

    Conflict, Paused and Degraded are the other way round: warn if True.
    """
    bad = "True" if condition.type in ("Conflict", "Paused", "Degraded") else "False"
    return "warn" if condition.status == bad else "good"


def _difference(before: Object, after: Object) -> str | None:
    """Which of spec, status, data, value, labels and annotations changed, or that deletion began.

    None if none did, but for Hanse's own marks. For EndpointSlices the number of ready endpoints,
    or None if that is the same.
    """
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
    """The labels or annotations whose names do not have Hanse's prefixes."""
    return {name: value for name, value in marks.items() if not name.startswith(_OWN_PREFIXES)}
