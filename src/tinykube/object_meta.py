"""ObjectMeta: system fields, generated names and validation."""

from collections.abc import Callable, Iterator
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

from tinykube.errors import (
    FieldError,
    bad_request,
    forbidden,
    invalid,
    required,
    too_long,
)
from tinykube.resources import Object, Resource
from tinykube.validation import (
    dns1123_label_problems,
    label_value_problems,
    path_segment_problems,
    qualified_name_problems,
)

_WIPED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
_RANDOM_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE = 58
_ANNOTATIONS_LIMIT = 256 * 1024
_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
_OWN_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")

NameRule = Callable[[str], list[str]]


def timestamp(moment: datetime) -> str:
    """A time as in metadata: RFC 3339, whole seconds (fractions are cut off), with `Z`.

    The time has to be in UTC: it is not converted.
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata_of(obj: Object) -> dict[str, Any]:
    """An object's metadata, added if it has none; raises a 400 if it is no object."""
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    return metadata


def clear_system_fields(metadata: dict[str, Any]) -> None:
    """Remove uid, selfLink, managedFields and the fields of creation and deletion, in place.

    generation and resourceVersion stay.
    """
    for name in _WIPED:
        metadata.pop(name, None)


def new_uid(random: Random) -> str:
    """A UUID version 4 from the given random numbers, so that seeded runs repeat it."""
    return str(UUID(int=random.getrandbits(128), version=4))


def generated_name(base: str, random: Random) -> str:
    """A name for generateName, which may be taken: its first 58 characters and five random ones."""
    return base[:_GENERATED_BASE] + "".join(random.choices(_RANDOM_LETTERS, k=5))


def ensure_namespace_matches(metadata: dict[str, Any], resource: Resource, namespace: str) -> None:
    """Set a missing namespace of metadata to the request's, in place; a 400 if it has another.

    Of cluster-scoped resources it is removed, whatever it is.
    """
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request(_OTHER_NAMESPACE)


def metadata_errors(
    metadata: dict[str, Any], rule: NameRule, *, builtin: bool = True
) -> Iterator[FieldError]:
    """Validation errors of a new object's metadata; `rule` gives the problems of a name.

    Checked are generateName, name (which is required), namespace, labels, annotations, owners and
    finalizers. Only for built-in kinds, finalizers without a domain must be known ones.
    """
    base = metadata.get("generateName")
    if base:
        for problem in rule(base.removesuffix("-")):
            yield invalid("metadata.generateName", base, problem)
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        for problem in rule(name):
            yield invalid("metadata.name", name, problem)
    namespace = metadata.get("namespace")
    if namespace:
        for problem in dns1123_label_problems(namespace):
            yield invalid("metadata.namespace", namespace, problem)
    yield from _label_and_reference_errors(metadata)
    if builtin:
        yield from _finalizer_errors(metadata)


def path_segment_errors(metadata: dict[str, Any]) -> Iterator[FieldError]:
    """Errors of a new object's name that cannot be a path segment (`.`, `..`, `/`, `%`)."""
    name = metadata.get("name", "")
    for problem in path_segment_problems(name):
        yield invalid("metadata.name", name, problem)


def _label_and_reference_errors(metadata: dict[str, Any]) -> Iterator[FieldError]:
    """Errors of labels, annotations and ownerReferences, and of finalizers with a bad name."""
    yield from label_errors(metadata.get("labels") or {}, "metadata.labels")
    yield from _annotation_errors(metadata.get("annotations") or {})
    yield from _owner_errors(metadata.get("ownerReferences") or ())
    for finalizer in metadata.get("finalizers") or ():
        for problem in qualified_name_problems(finalizer):
            yield invalid("metadata.finalizers", finalizer, problem)


def _finalizer_errors(metadata: dict[str, Any]) -> Iterator[FieldError]:
    """Errors of finalizers without a domain that are no standard ones; for built-in kinds."""
    for at, finalizer in enumerate(metadata.get("finalizers") or ()):
        if "/" not in finalizer and finalizer not in _OWN_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"metadata.finalizers[{at}]", finalizer, detail)


def label_errors(labels: dict[str, str], field: str) -> Iterator[FieldError]:
    """Validation errors of the keys and values of labels, at this field."""
    for key, value in labels.items():
        for problem in qualified_name_problems(key):
            yield invalid(field, key, problem)
        for problem in label_value_problems(value):
            yield invalid(field, value, problem)


def _annotation_errors(annotations: dict[str, str]) -> Iterator[FieldError]:
    """Errors of the keys, validated in lower case, and of a total size over 256 KiB."""
    size = 0
    for key, value in annotations.items():
        for problem in qualified_name_problems(key.lower()):
            yield invalid("metadata.annotations", key, problem)
        size += len(key) + len(value)
    if size > _ANNOTATIONS_LIMIT:
        yield too_long("metadata.annotations", _ANNOTATIONS_LIMIT)


def _owner_errors(owners: list[dict[str, Any]] | tuple[()]) -> Iterator[FieldError]:
    """Errors of missing fields in ownerReferences, and of more than one controller."""
    field = "metadata.ownerReferences"
    controllers: list[str] = []
    for owner in owners:
        if not owner.get("apiVersion"):
            yield invalid(f"{field}.apiVersion", "", "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield invalid(f"{field}.{name}", "", "must not be empty")
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        first, last = controllers[0], controllers[-1]
        detail = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {first} and {last}'
        )
        yield invalid(field, [_in_go_order(owner) for owner in owners], detail)


def _in_go_order(owner: dict[str, Any]) -> dict[str, Any]:
    """A copy of an owner reference in Go's field order, without fields that Go does not have."""
    names = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return {name: owner[name] for name in names if name in owner}


def metadata_update_errors(
    new: dict[str, Any], old: dict[str, Any], rule: NameRule, *, builtin: bool = True
) -> Iterator[FieldError]:
    """Validation errors of updated metadata, repeated as often as the API server does.

    Checked are name, labels, annotations, owners and finalizers, that the uid stays, and that no
    finalizer is added to an object that is being deleted. Some come more often for `builtin` kinds.
    """
    for problem in rule(new["name"]):
        yield invalid("metadata.name", new["name"], problem)
    for _ in range(4 if builtin else 3):
        yield from _label_and_reference_errors(new)
    for _ in range(2):
        yield from _immutable_errors(new, old)


def _immutable_errors(new: dict[str, Any], old: dict[str, Any]) -> Iterator[FieldError]:
    """Errors of a changed uid, and of finalizers added to an object being deleted."""
    if old.get("deletionTimestamp"):
        known = old.get("finalizers") or ()
        added = [finalizer for finalizer in new.get("finalizers") or () if finalizer not in known]
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            yield forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}",
            )
    if new.get("uid") != old.get("uid"):
        yield invalid("metadata.uid", new.get("uid"), "field is immutable")


def keep_system_fields(new: dict[str, Any], old: dict[str, Any]) -> None:
    """Copy the fields that only the server sets from the old metadata into the new, in place.

    These are creationTimestamp, the fields of deletion, managedFields, generation and generateName;
    one that the old metadata lacks is removed, except generateName. A given uid stays, a missing
    one is copied; selfLink is removed.
    """
    new["uid"] = new.get("uid") or old["uid"]
    new["creationTimestamp"] = old["creationTimestamp"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)
    for name in ("generation", "generateName"):
        if name in old:
            new[name] = old[name]
        elif name == "generation":
            new.pop(name, None)
    new.pop("selfLink", None)


def managed_fields(manager: str, api_version: str, now: datetime) -> list[dict[str, Any]]:
    """One entry, in a list, with the manager and time of the latest write.

    The fields it wrote are not listed; an empty manager is `unknown`.
    """
    entry = {
        "manager": manager or "unknown",
        "operation": "Update",
        "apiVersion": api_version,
        "time": timestamp(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": {},
    }
    return [entry]
