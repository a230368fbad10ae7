"""Reading Kubernetes objects: identity, owners, selectors, readiness, times."""

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
    return bool(obj["metadata"].get("deletionTimestamp"))


def creation_timestamp(obj: Object) -> str:
    """When it was created, in a form that sorts by time."""
    return str(obj["metadata"].get("creationTimestamp") or "")


def owner_references_of(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def controller_reference_of(obj: Object) -> Object | None:
    """The owner reference of whatever controls it."""
    return next((ref for ref in owner_references_of(obj) if ref.get("controller")), None)


def is_controlled_by(obj: Object, owner: Object) -> bool:
    ref = controller_reference_of(obj)
    return ref is not None and ref.get("uid") == uid_of(owner)


def owner_reference(owner: Object, *, controller: bool = True) -> Object:
    """The reference by which an object belongs to its owner."""
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
    """The number of replicas asked for; one when nothing is said."""
    wanted = spec_of(obj).get("replicas")
    return 1 if wanted is None else int(wanted)


def selector_matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches; an absent or empty one selects nothing here."""
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(requirement_matches(rule, labels) for rule in selector.get("matchExpressions") or ())


def requirement_matches(rule: Object, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement of a label or node selector."""
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


def condition(obj: Object, kind: str) -> Object | None:
    """The condition of that type in an object's status."""
    return find_condition(status_of(obj).get("conditions") or (), kind)


def find_condition(conditions: Iterable[Object], kind: str) -> Object | None:
    return next((one for one in conditions if one.get("type") == kind), None)


def is_condition_true(obj: Object, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def is_active(pod: Object) -> bool:
    """Whether a pod counts as a replica: neither finished nor going."""
    return not is_deleting(pod) and not is_finished(pod)


def is_finished(pod: Object) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    return is_condition_true(pod, "Ready")


def time_until_available(pod: Object, min_ready: int, now: datetime) -> timedelta | None:
    """How long until a pod has been ready for long enough; zero if it has, None if not ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    if not min_ready:
        return timedelta()
    since = parse_time(ready.get("lastTransitionTime"))
    if since is None:
        return timedelta(seconds=min_ready)
    return max(timedelta(), since + timedelta(seconds=min_ready) - now)


def is_available(pod: Object, min_ready: int, now: datetime) -> bool:
    return time_until_available(pod, min_ready, now) == timedelta()


def format_time(now: datetime) -> str:
    """A moment as Kubernetes writes it, to the second."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: Any) -> datetime | None:
    """A moment as Kubernetes writes it, or None for what is not one."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def merge_patch(before: Object, after: Object) -> Object:
    """The merge patch that turns one object into another; empty when there is nothing to do."""
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
