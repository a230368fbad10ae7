"""The texts of table cells."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tinykube.resources import Object
from tinykube.selectors import selector_text
from tinykube.tables.columns import value_at

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
_SHOWN = 3


def name(obj: Object) -> str:
    """The name of an object; empty without one."""
    return str(value_at(obj, "metadata", "name", default=""))


def age(obj: Object, now: datetime) -> str:
    """The time since creationTimestamp, such as `5m30s`; `<unknown>` without one."""
    return time_since(value_at(obj, "metadata", "creationTimestamp"), now)


def time_since(timestamp: Any, now: datetime) -> str:
    """The time since an RFC 3339 timestamp.

    `<unknown>` without one, `<invalid>` for another text or a time in the future.
    """
    if not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - datetime.fromisoformat(timestamp))
    except (TypeError, ValueError):
        return "<invalid>"


def human_duration(span: timedelta) -> str:
    """A duration in two units at most: `90s`, `5m30s`, `3h20m`, `2d4h`, `400d`, `3y10d`.

    One second below zero counts as `0s`; `<invalid>` if it is more.
    """
    seconds = int(span.total_seconds())
    if seconds < 0:
        return "0s" if seconds == -1 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    return f"{days}d" if days < 730 else _format_years(days)


def _format_years(days: int) -> str:
    """Days as years and days; from eight years on only years."""
    years, rest = divmod(days, 365)
    return _two_units(years, "y", rest, "d") if years < 8 else f"{years}y"


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    """`5m30s`, or `5m` if the smaller number is zero."""
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def labels(pairs: Any) -> str:
    """A map of labels, sorted: `a=1,b=2`; `<none>` if it is empty."""
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(label_selector: Object | None) -> str:
    """A LabelSelector in text form; empty for None and without requirements."""
    return selector_text(label_selector or {})


def containers(pod_template: Any) -> list[str]:
    """Two texts: the names and the images of a pod template's containers, joined by commas.

    Both are empty if there are none; init containers are left out.
    """
    found = value_at(pod_template, "spec", "containers", default=[])
    return [",".join(str(one.get(field, "")) for one in found) for field in ("name", "image")]


def first_few(texts: Sequence[str], total: int | None = None) -> str:
    """Up to three texts, joined by commas, then ` + N more...` for the rest of `total`.

    `total` is by default the number of texts; up to three nothing is added.
    """
    shown = ",".join(texts[:_SHOWN])
    total = len(texts) if total is None else total
    return f"{shown} + {total - _SHOWN} more..." if total > _SHOWN else shown


def ingress_addresses(obj: Object) -> str:
    """The addresses and host names of status.loadBalancer, each once, sorted; empty for none."""
    points = value_at(obj, "status", "loadBalancer", "ingress", default=[])
    return ",".join(
        sorted({point.get("ip") or point.get("hostname") or "" for point in points} - {""})
    )


def condition(obj: Object, kind: str) -> str:
    """The status of a condition; empty when it is absent."""
    found = value_at(obj, "status", "conditions", default=[])
    return next((str(one.get("status", "")) for one in found if one.get("type") == kind), "")


def reference(kind: str, group: str, target: str) -> str:
    """A kind, group and name in lower case, without an empty group: `statefulset.apps/db`."""
    return f"{kind}.{group}/{target}".lower() if group else f"{kind.lower()}/{target}"
