"""Status conditions of built-in kinds, and status patches."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tinykube.controllers.controller import Patch
from tinykube.controllers.objects import format_time, merge_patch, status_of
from tinykube.resources import Object

_TIMES = ("lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime")


def new_condition(type_: str, holds: bool | None, reason: str = "", message: str = "") -> Object:
    """A desired condition without timestamps and empty fields; `holds` None is Unknown."""
    status = "Unknown" if holds is None else str(bool(holds))
    desired = {"type": type_, "status": status, "reason": reason, "message": message}
    return {name: value for name, value in desired.items() if value}


def merge_conditions(
    existing: Iterable[Object],
    desired: Iterable[Object],
    now: datetime,
    *,
    updated: bool = False,
    probed: bool = False,
) -> list[Object]:
    """Desired conditions with timestamps, existing ones first and in their order.

    An unchanged condition is the existing one; a changed one keeps lastTransitionTime while its
    status is the same. If it is new or changed, `updated` sets its lastUpdateTime (Deployments) and
    `probed` a null lastProbeTime (pods). Existing conditions of other types are left out.
    """
    desired_by_type = {one["type"]: one for one in desired}
    existing_by_type = {one["type"]: one for one in existing if one.get("type") in desired_by_type}
    order = [*existing_by_type, *(kind for kind in desired_by_type if kind not in existing_by_type)]
    return [
        _with_timestamps(existing_by_type.get(kind), desired_by_type[kind], now, updated, probed)
        for kind in order
    ]


def _with_timestamps(
    old: Object | None, new: Object, now: datetime, updated: bool, probed: bool
) -> Object:
    """The new condition with timestamps; the old one itself if nothing else has changed.

    lastTransitionTime is kept while the status is the same. With `updated` lastUpdateTime is now,
    with `probed` lastProbeTime is null.
    """
    if old is not None and _without_timestamps(old) == _without_timestamps(new):
        return old
    timestamp = format_time(now)
    times: dict[str, Any] = {"lastProbeTime": None} if probed else {}
    if updated:
        times["lastUpdateTime"] = timestamp
    same_status = old is not None and old.get("status") == new["status"]
    transitioned = old.get("lastTransitionTime") if old is not None and same_status else None
    return {**new, **times, "lastTransitionTime": transitioned or timestamp}


def _without_timestamps(one: Object) -> Object:
    """A copy for comparison, without times and empty fields."""
    return {name: value for name, value in one.items() if name not in _TIMES and value}


def status_patch(store: str, obj: Object, status: Object) -> tuple[Patch, ...]:
    """The patch that sets an object's status; empty when it is up to date.

    Fields that are absent or None in the new status are removed.
    """
    desired = {name: value for name, value in status.items() if value is not None}
    changes = merge_patch(status_of(obj), desired)
    if not changes:
        return ()
    return (Patch(store, obj, {"status": changes}, subresource="status"),)
