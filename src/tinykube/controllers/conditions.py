"""Status conditions of built-in kinds: one per type, times that move only with what they time."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tinykube.controllers.controller import Patch
from tinykube.controllers.objects import format_time, merge_patch, status_of
from tinykube.resources import Object

_TIMES = ("lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime")


def condition(type_: str, holds: bool | None, reason: str = "", message: str = "") -> Object:
    """A wanted condition, before its times are known; None is Unknown."""
    status = "Unknown" if holds is None else str(bool(holds))
    wanted = {"type": type_, "status": status, "reason": reason, "message": message}
    return {name: value for name, value in wanted.items() if value}


def merge_conditions(
    standing: Iterable[Object],
    wanted: Iterable[Object],
    now: datetime,
    *,
    updated: bool = False,
    probed: bool = False,
) -> list[Object]:
    """Wanted conditions with their times, those already standing first and in their places.

    A condition that says what it said keeps its times; `updated` conditions also carry a
    lastUpdateTime (Deployments), `probed` ones a null lastProbeTime (pods). What stands and is not
    wanted goes.
    """
    fresh = {one["type"]: one for one in wanted}
    before = {one["type"]: one for one in standing if one.get("type") in fresh}
    order = [*before, *(kind for kind in fresh if kind not in before)]
    return [_timed(before.get(kind), fresh[kind], now, updated, probed) for kind in order]


def _timed(old: Object | None, new: Object, now: datetime, updated: bool, probed: bool) -> Object:
    if old is not None and _said(old) == _said(new):
        return old
    moment = format_time(now)
    times: dict[str, Any] = {"lastProbeTime": None} if probed else {}
    if updated:
        times["lastUpdateTime"] = moment
    same_status = old is not None and old.get("status") == new["status"]
    began = old.get("lastTransitionTime") if old is not None and same_status else None
    return {**new, **times, "lastTransitionTime": began or moment}


def _said(one: Object) -> Object:
    return {name: value for name, value in one.items() if name not in _TIMES and value}


def status_patch(store: str, obj: Object, status: Object) -> tuple[Patch, ...]:
    """The write that gives an object a status; none when it has it."""
    wanted = {name: value for name, value in status.items() if value is not None}
    changes = merge_patch(status_of(obj), wanted)
    if not changes:
        return ()
    return (Patch(store, obj, {"status": changes}, subresource="status"),)
