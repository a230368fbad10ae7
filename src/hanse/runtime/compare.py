"""The merge patch that makes an observed object as desired; empty when it is so already.

Both sides are structs of one kind whose defaults are the server's, so an omitted field and a
defaulted one are equal. A field at its default in the desired object and not in the observed one
was changed by somebody and is reset, unless the kind says that the server allocates it.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields, replace

from hanse.model.json_input import decode_json
from hanse.model.objects import K, Meta, Object, Wire, apply_merge_patch
from hanse.model.ownership import APPLIED, EPOCH, OWN_PREFIX

_NOT_SPEC = frozenset({"metadata", "status"})
_EMPTY: tuple[Any, ...] = (None, "", (), {})


class _AppliedRecord(Struct, frozen=True, omit_defaults=True):
    """The applied annotation: names of our labels and annotations, and a hash of open fields.

    Names are enough to know what to remove; values would double every object.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    open: str = ""


def with_applied_record(obj: K) -> K:
    """The object with annotation hanse.dev/applied, which the next comparison reads.

    It names its labels and annotations, and has a hash of its open fields; the object is returned
    unchanged if there is nothing to record.
    """
    meta = obj.metadata
    text = _encode_record(tuple(meta.labels), tuple(meta.annotations), _open_fields_hash(obj))
    if not text:
        return obj
    annotations = {**meta.annotations, APPLIED: text}
    return replace(obj, metadata=replace(meta, annotations=annotations))


@lru_cache(maxsize=4096)
def _encode_record(labels: tuple[str, ...], annotations: tuple[str, ...], open_hash: str) -> str:
    """The record as JSON, without names of our own; empty if nothing is in it. Cached."""
    record = _AppliedRecord(
        labels=tuple(sorted(n for n in labels if not n.startswith(OWN_PREFIX))),
        annotations=tuple(sorted(n for n in annotations if not n.startswith(OWN_PREFIX))),
        open=open_hash,
    )
    return "" if record == _AppliedRecord() else msgspec.json.encode(record).decode()


def object_patch(desired: K, observed: K) -> Wire:
    """The merge patch of everything but status that makes `observed` as `desired`; {} if it is.

    Fields that the server allocates, and labels and annotations that we never applied, stay. A
    different epoch alone is no difference.
    """
    change = _struct_patch(desired, observed, "", type(desired).allocated, skip=_NOT_SPEC)
    record = _decode_record(observed.metadata.annotations.get(APPLIED, ""))
    if _open_fields_hash(desired) != record.open:
        change = {**change, **_replace_patch(_open_fields(desired), _open_fields(observed))}
    meta = _meta_patch(desired.metadata, observed.metadata, record, bool(change))
    return {**change, "metadata": meta} if meta else change


def status_patch(desired: Object, observed: Object) -> Wire:
    """The merge patch of `status` alone.

    {} if `desired` has no status, the default one, or that of `observed`.
    """
    wanted = getattr(desired, "status", None)
    present = getattr(observed, "status", None)
    if wanted is None or wanted == present:
        return {}
    if not isinstance(wanted, Struct) or not isinstance(present, Struct):
        return {"status": msgspec.to_builtins(wanted)}
    if wanted == type(wanted)():
        return {}
    change = _struct_patch(wanted, present, "status", type(desired).allocated)
    return {"status": change} if change else {}


def patch_has_effect(change: Wire, observed: Object) -> bool:
    """Whether a merge patch would change any field of an object that its struct knows."""
    patched = apply_merge_patch(msgspec.to_builtins(observed, str_keys=True), change)
    return bool(msgspec.convert(patched, type(observed), strict=False) != observed)


def _struct_patch(
    desired: Struct,
    observed: Struct,
    path: str,
    allocated: frozenset[str],
    skip: frozenset[str] = frozenset(),
) -> Wire:
    """The merge patch that makes `observed` as desired; empty if nothing differs.

    Fields in `skip` are left out at the top, and so are at any depth `allocated` ones (paths from
    the object) that are at their default in `desired`: the server sets them. A map of any values
    differs only if it lacks a desired entry. `path` is the struct's own path in the object.
    """
    change: Wire = {}
    for f in _fields_of(type(desired)):
        wanted, present = getattr(desired, f.name), getattr(observed, f.name)
        if f.name in skip or wanted == present:
            continue
        inner = f"{path}.{f.encode_name}" if path else f.encode_name
        if inner in allocated and _is_default(f, wanted):
            continue
        if isinstance(wanted, Struct) and isinstance(present, Struct):
            deeper = _struct_patch(wanted, present, inner, allocated)
            if deeper:
                change[f.encode_name] = deeper
        elif _is_open(f.type):
            if not contains(present, wanted):
                change[f.encode_name] = _replace_patch(msgspec.to_builtins(wanted), present)
        elif not _matches(wanted, present, inner, allocated):
            change[f.encode_name] = _field_patch(wanted, present, _is_default(f, wanted))
    return change


@cache
def _fields_of(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    """The fields of a struct; cached."""
    return fields(kind)  # which evaluates annotations anew at each call


def _matches(desired: Any, observed: Any, path: str, allocated: frozenset[str]) -> bool:
    """Whether a value is as desired, apart from what the server allocates inside it.

    None and empty values are equal. `path` is the value's own in the object, `allocated` are the
    paths that the server sets.
    """
    if isinstance(desired, Struct) and type(desired) is type(observed):
        return not _struct_patch(desired, observed, path, allocated)
    if isinstance(desired, tuple) and isinstance(observed, tuple):
        return len(desired) == len(observed) and all(
            _matches(d, o, path, allocated) for d, o in zip(desired, observed, strict=True)
        )
    return bool(desired == observed) or (desired in _EMPTY and observed in _EMPTY)


def contains(observed: Any, desired: Any) -> bool:
    """Whether `observed` has every map entry that is desired, at any depth; it may have more.

    Lists must have the same length, and other values be equal.
    """
    if isinstance(desired, dict):
        return isinstance(observed, dict) and all(
            name in observed and contains(observed[name], value) for name, value in desired.items()
        )
    if isinstance(desired, list | tuple):
        return (
            isinstance(observed, list | tuple)
            and len(desired) == len(observed)
            and all(contains(o, d) for d, o in zip(desired, observed, strict=True))
        )
    return bool(desired == observed)


def _field_patch(desired: Any, observed: Any, is_default: bool) -> Any:
    """The patch value of one field: None, which resets it, if the default is desired and is no map.

    A map is patched entry by entry, so that only the desired entries remain.
    """
    if is_default and not isinstance(desired, dict):
        return None
    wire = msgspec.to_builtins(desired, str_keys=True)
    return _replace_patch(wire, observed) if isinstance(wire, dict) else wire


def _is_default(f: FieldInfo, value: Any) -> bool:
    """Whether a value is the default of its field; False for a field without one."""
    if f.default_factory is not msgspec.NODEFAULT:
        return bool(value == f.default_factory())
    return f.default is not msgspec.NODEFAULT and bool(value == f.default)


def _meta_patch(desired: Meta, observed: Meta, record: _AppliedRecord, others_change: bool) -> Wire:
    """The patch of labels, annotations, finalizers and owner references.

    Labels and annotations that we never applied (`record`) stay. A new epoch is written only with
    another change, here or of other fields (`others_change`), so that a new leader takes over
    without a write. Finalizers and owner references are never emptied.
    """
    change: Wire = {}
    labels = _map_patch(desired.labels, observed.labels, record.labels)
    annotations = _map_patch(desired.annotations, observed.annotations, record.annotations)
    if not others_change and not labels and annotations.keys() <= {EPOCH}:
        annotations = {}
    if labels:
        change["labels"] = labels
    if annotations:
        change["annotations"] = annotations
    for name, encoded in (("finalizers", "finalizers"), ("owner_references", "ownerReferences")):
        wanted = getattr(desired, name)
        if wanted and wanted != getattr(observed, name):
            change[encoded] = msgspec.to_builtins(wanted)
    return change


def _map_patch(desired: dict[str, str], observed: dict[str, str], applied: Iterable[str]) -> Wire:
    """The patch that sets desired entries, and removes those in `applied` that are not desired.

    Other entries stay; {} if nothing is to change.
    """
    if desired == observed:
        return {}
    change: Wire = {n: v for n, v in desired.items() if observed.get(n) != v}
    change.update(dict.fromkeys(n for n in applied if n in observed and n not in desired))
    return change


@lru_cache(maxsize=4096)
def _decode_record(text: str) -> _AppliedRecord:
    """The record of applied fields; an empty one if it is missing or invalid."""
    try:
        return decode_json(text, type=_AppliedRecord) if text else _AppliedRecord()
    except msgspec.DecodeError:
        return _AppliedRecord()


def _open_fields(obj: Object) -> Wire:
    """The top-level fields of an object that contain maps of any shape, as JSON by JSON name.

    Without metadata and status.
    """
    return {
        encoded: msgspec.to_builtins(getattr(obj, name), str_keys=True)
        for name, encoded in _open_field_names(type(obj))
    }


@cache
def _open_field_names(kind: type[Object]) -> tuple[tuple[str, str], ...]:
    """Python and JSON names of the top-level fields with an open map in them, at any depth.

    Without metadata and status; cached.
    """
    return tuple(
        (f.name, f.encode_name)
        for f in fields(kind)
        if f.name not in _NOT_SPEC and _contains_open(f.type)
    )


def _contains_open(type_: Any) -> bool:
    """Whether a type is an open map, or has one inside."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return any(_contains_open(f.type) for f in fields(type_))
    return _is_open(type_) or any(_contains_open(inner) for inner in get_args(type_))


@cache
def _is_open(type_: Any) -> bool:
    """Whether a type is (or is a list or union of) a map of any values: no struct describes it."""
    if get_origin(type_) is dict:
        return bool(get_args(type_)[1] is Any)
    if get_origin(type_) is tuple:
        return get_origin(get_args(type_)[0]) is dict and _is_open(get_args(type_)[0])
    return any(_is_open(inner) for inner in get_args(type_))


def _replace_patch(desired: Wire, observed: Any) -> Wire:
    """The merge patch that leaves nothing but `desired`, at any depth; {} if they are equal.

    Entries that only `observed` has become None; if `observed` is no map, the patch is `desired`.
    """
    if not isinstance(observed, dict):
        return desired
    change: Wire = dict.fromkeys(observed.keys() - desired.keys())
    for name, value in desired.items():
        inner = observed.get(name)
        if value != inner:
            change[name] = _replace_patch(value, inner) if isinstance(value, dict) else value
    return change


def _open_fields_hash(obj: Object) -> str:
    """A hash of the top-level fields that contain maps of any shape; "" if none has any content.

    The applied annotation keeps it: servers add defaults to such fields, so that only another hash
    tells that an entry is no longer desired. metadata and status are not part of it.
    """
    if not _open_field_names(type(obj)):
        return ""
    values = _open_fields(obj)
    if not any(values.values()):
        return ""
    return blake2b(msgspec.json.encode(values, order="sorted"), digest_size=8).hexdigest()
