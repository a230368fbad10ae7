"""Accessors of objects: metadata, owners, selectors, conditions, times; absent is empty or 0."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tinykube.controllers.controller import Key
from tinykube.resources import Object


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def namespace_of(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def key_of(store: str, obj: Object) -> Key:
    return Key(store, namespace_of(obj), name_of(obj))


def labels_of(obj: Object) -> dict[str, str]:
    """The labels, not a copy; {} if absent."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def generation_of(obj: Object) -> int:
    return int(obj["metadata"].get("generation", 0))


def spec_of(obj: Object) -> Object:
    return obj.get("spec") or {}


def status_of(obj: Object) -> Object:
    return obj.get("status") or {}


def is_deleting(obj: Object) -> bool:
    """Whether it has a deletionTimestamp."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def creation_timestamp(obj: Object) -> str:
    """The creation timestamp as text, which sorts by time."""
    return str(obj["metadata"].get("creationTimestamp") or "")


def owner_references_of(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def controller_reference_of(obj: Object) -> Object | None:
    """The owner reference with `controller: true`; None if there is none."""
    return next((ref for ref in owner_references_of(obj) if ref.get("controller")), None)


def is_controlled_by(obj: Object, owner: Object) -> bool:
    """Whether the owner reference with `controller` has the owner's uid."""
    ref = controller_reference_of(obj)
    return ref is not None and ref.get("uid") == uid_of(owner)


def owner_reference(owner: Object, *, controller: bool = True) -> Object:
    """An owner reference to an object; a controller one also blocks its deletion."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
    }
    return (
        {**reference, "controller": True, "blockOwnerDeletion": True} if controller else reference
    )


def desired_replicas(obj: Object) -> int:
    """`spec.replicas`, 1 by default."""
    replicas = spec_of(obj).get("replicas")
    return 1 if replicas is None else int(replicas)


def selector_matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches; here an absent or empty one matches nothing."""
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(requirement_matches(rule, labels) for rule in selector.get("matchExpressions") or ())


def requirement_matches(rule: Object, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement of a label or node selector.

    NotIn also holds without the label. Gt and Lt compare as integers, and do not hold for a label
    that is absent or not a decimal number. An unknown operator never holds.
    """
    value = labels.get(rule["key"])
    values: list[str] = rule.get("values") or []
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdecimal() and int(value) > int(values[0])
        case "Lt":
            return value is not None and value.isdecimal() and int(value) < int(values[0])
        case _:
            return False


def get_condition(obj: Object, type_: str) -> Object | None:
    """The condition of a type in an object's status; None if it has none."""
    return find_condition(status_of(obj).get("conditions") or (), type_)


def find_condition(conditions: Iterable[Object], type_: str) -> Object | None:
    """The first condition of a type; None if there is none."""
    return next((one for one in conditions if one.get("type") == type_), None)


def is_condition_true(obj: Object, type_: str) -> bool:
    found = get_condition(obj, type_)
    return found is not None and found.get("status") == "True"


def is_active(pod: Object) -> bool:
    """Whether a pod counts as a replica: neither finished nor terminating."""
    return not is_deleting(pod) and not is_finished(pod)


def is_finished(pod: Object) -> bool:
    """Whether the phase of a pod is Succeeded or Failed."""
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    """Whether the condition Ready of a pod is True."""
    return is_condition_true(pod, "Ready")


def time_until_available(pod: Object, min_ready: int, now: datetime) -> timedelta | None:
    """How long until a ready pod is available; zero if it is, None if it is not ready.

    It is available `min_ready` seconds after its condition Ready became True; the whole time is
    left if lastTransitionTime is not known.
    """
    ready = get_condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    if not min_ready:
        return timedelta()
    since = parse_time(ready.get("lastTransitionTime"))
    if since is None:
        return timedelta(seconds=min_ready)
    return max(timedelta(), since + timedelta(seconds=min_ready) - now)


def min_ready_seconds(owner: Object) -> int:
    return int(spec_of(owner).get("minReadySeconds") or 0)


def time_until_next_available(
    pods: Iterable[Object], min_ready: int, now: datetime
) -> timedelta | None:
    """How long until the next of the ready pods that are not available yet becomes so.

    None if there is no such pod.
    """
    waits = (time_until_available(pod, min_ready, now) for pod in pods)
    return min((wait for wait in waits if wait), default=None)


def is_available(pod: Object, min_ready: int, now: datetime) -> bool:
    """Whether a pod has been Ready for `min_ready` seconds."""
    return time_until_available(pod, min_ready, now) == timedelta()


def format_time(now: datetime) -> str:
    """A timestamp in the format of Kubernetes, to the second."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: Any) -> datetime | None:
    """Parse an ISO 8601 timestamp; None for other text, and for a value that is no string."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def merge_patch(before: Object, after: Object) -> Object:
    """The merge patch that turns one object into another; empty if they are equal.

    Lists are replaced as a whole; fields that `after` lacks become null.
    """
    changes: Object = {}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := merge_patch(old, value):
                changes[name] = inner
        elif old != value or name not in before:
            changes[name] = value
    changes.update({name: None for name in before if name not in after})
    return changes
