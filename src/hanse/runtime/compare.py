"""What an object must be told to become as desired: a merge patch, empty when it is so.

Both sides are structs of one kind whose defaults are the server's, so an omitted field and a
defaulted one are equal. A field that stands at its default in the desired object and not in the
observed one was changed by somebody and is put back, unless the kind says that others fill it in.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields, replace

from hanse.model.objects import K, Meta, Object, Wire, merge
from hanse.model.ownership import APPLIED, EPOCH, OURS

_UNSTATED = frozenset({"metadata", "status"})
_NOTHING: tuple[Any, ...] = (None, "", (), {})


class _Applied(Struct, frozen=True, omit_defaults=True):
    """The applied annotation: names we set among others' names, and a hash of open-shaped parts.

    Names are enough to know what to take back; values would double every object.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    open: str = ""


def with_applied_record(obj: K) -> K:
    """The stamped object with a record of what we apply, for the next comparison."""
    meta = obj.metadata
    text = _record_of(tuple(meta.labels), tuple(meta.annotations), _hash_of_open_parts(obj))
    if not text:
        return obj
    annotations = {**meta.annotations, APPLIED: text}
    return replace(obj, metadata=replace(meta, annotations=annotations))


@lru_cache(maxsize=4096)
def _record_of(labels: tuple[str, ...], annotations: tuple[str, ...], opened: str) -> str:
    """The record of these names: a feature sets the same ones on most of its objects."""
    record = _Applied(
        labels=tuple(sorted(n for n in labels if not n.startswith(OURS))),
        annotations=tuple(sorted(n for n in annotations if not n.startswith(OURS))),
        open=opened,
    )
    return "" if record == _Applied() else msgspec.json.encode(record).decode()


def object_patch(desired: K, observed: K) -> Wire:
    """The merge patch of everything but status that makes `observed` as `desired`."""
    change = _struct_change(desired, observed, "", type(desired).allocated, skip=_UNSTATED)
    record = _record_on(observed)
    if _hash_of_open_parts(desired) != record.open:
        change = {**change, **_exactly(_open_parts(desired), _standing_parts(desired, observed))}
    meta = _meta_change(desired.metadata, observed.metadata, record, bool(change))
    return {**change, "metadata": meta} if meta else change


def status_patch(desired: Object, observed: Object) -> Wire:
    """The merge patch of status alone; empty where no status is desired."""
    wanted = getattr(desired, "status", None)
    standing = getattr(observed, "status", None)
    if wanted is None or wanted == standing:
        return {}
    if not isinstance(wanted, Struct) or not isinstance(standing, Struct):
        return {"status": msgspec.to_builtins(wanted)}
    if wanted == type(wanted)():
        return {}
    change = _struct_change(wanted, standing, "status", type(desired).allocated)
    return {"status": change} if change else {}


def patch_has_effect(change: Wire, observed: Object) -> bool:
    """Whether a merge patch would change anything that we can see of an object."""
    standing = msgspec.to_builtins(observed, str_keys=True)
    after = merge(standing, change)
    return bool(msgspec.convert(after, type(observed), strict=False) != observed)


def _struct_change(
    desired: Struct,
    observed: Struct,
    path: str,
    allocated: frozenset[str],
    skip: frozenset[str] = frozenset(),
) -> Wire:
    change: Wire = {}
    for f in _fields_of(type(desired)):
        wanted, standing = getattr(desired, f.name), getattr(observed, f.name)
        if f.name in skip or wanted == standing:
            continue
        inner = f"{path}.{f.encode_name}" if path else f.encode_name
        if inner in allocated and _is_default(f, wanted):
            continue
        if isinstance(wanted, Struct) and isinstance(standing, Struct):
            deeper = _struct_change(wanted, standing, inner, allocated)
            if deeper:
                change[f.encode_name] = deeper
        elif _is_open(f.type):
            if not _within(wanted, standing):
                change[f.encode_name] = _exactly(msgspec.to_builtins(wanted), standing)
        elif not _covers(wanted, standing, inner, allocated):
            change[f.encode_name] = _replacement(wanted, standing, _is_default(f, wanted))
    return change


@cache
def _fields_of(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return fields(kind)  # which evaluates annotations anew at each call


def _covers(wanted: Any, standing: Any, path: str, allocated: frozenset[str]) -> bool:
    """Whether what stands is as wanted, apart from what others fill in."""
    if isinstance(wanted, Struct) and type(wanted) is type(standing):
        return not _struct_change(wanted, standing, path, allocated)
    if isinstance(wanted, tuple) and isinstance(standing, tuple):
        return len(wanted) == len(standing) and all(
            _covers(w, s, path, allocated) for w, s in zip(wanted, standing, strict=True)
        )
    return bool(wanted == standing) or (wanted in _NOTHING and standing in _NOTHING)


def _within(wanted: Any, standing: Any) -> bool:
    """Whether all that is wanted of an open part stands there; the server may have added to it."""
    if isinstance(wanted, dict):
        return isinstance(standing, dict) and all(
            name in standing and _within(value, standing[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(standing, list | tuple)
            and len(wanted) == len(standing)
            and all(_within(w, s) for w, s in zip(wanted, standing, strict=True))
        )
    return bool(wanted == standing)


def _replacement(wanted: Any, standing: Any, at_default: bool) -> Any:
    if at_default and not isinstance(wanted, dict):
        return None
    told = msgspec.to_builtins(wanted, str_keys=True)
    return _exactly(told, standing) if isinstance(told, dict) else told


def _is_default(f: msgspec.structs.FieldInfo, value: Any) -> bool:
    if f.default_factory is not msgspec.NODEFAULT:
        return bool(value == f.default_factory())
    return f.default is not msgspec.NODEFAULT and bool(value == f.default)


def _meta_change(desired: Meta, observed: Meta, record: _Applied, others_change: bool) -> Wire:
    change: Wire = {}
    labels = _marks_change(desired.labels, observed.labels, record.labels)
    notes = _marks_change(desired.annotations, observed.annotations, record.annotations)
    if not others_change and not labels and notes.keys() <= {EPOCH}:
        notes = {}  # a new leader takes over without a write
    if labels:
        change["labels"] = labels
    if notes:
        change["annotations"] = notes
    for name in ("finalizers", "owner_references"):
        wanted = getattr(desired, name)
        if wanted and wanted != getattr(observed, name):
            change["ownerReferences" if "_" in name else name] = msgspec.to_builtins(wanted)
    return change


def _marks_change(wanted: dict[str, str], standing: dict[str, str], ours: Iterable[str]) -> Wire:
    change: Wire = {n: v for n, v in wanted.items() if standing.get(n) != v}
    change.update(dict.fromkeys(n for n in ours if n in standing and n not in wanted))
    return change


def _record_on(obj: Object) -> _Applied:
    return _record_told(obj.metadata.annotations.get(APPLIED, ""))


@lru_cache(maxsize=4096)
def _record_told(text: str) -> _Applied:
    try:
        return msgspec.json.decode(text, type=_Applied) if text else _Applied()
    except msgspec.DecodeError:
        return _Applied()


def _open_parts(obj: Object) -> Wire:
    """The top-level fields of an object that hold parts whose shape is not ours to know."""
    return {
        encoded: msgspec.to_builtins(getattr(obj, name), str_keys=True)
        for name, encoded in _open_fields(type(obj))
    }


@cache
def _open_fields(kind: type[Object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f.name, f.encode_name)
        for f in fields(kind)
        if f.name not in _UNSTATED and _has_open_part(f.type)
    )


def _has_open_part(type_: Any) -> bool:
    if isinstance(type_, type) and issubclass(type_, Struct):
        return any(_has_open_part(f.type) for f in fields(type_))
    return _is_open(type_) or any(_has_open_part(inner) for inner in get_args(type_))


@cache
def _is_open(type_: Any) -> bool:
    """Whether a field is a map of anything, or a list of them, be it optional or annotated."""
    if get_origin(type_) is dict:
        return bool(get_args(type_)[1] is Any)
    if get_origin(type_) is tuple:
        return get_origin(get_args(type_)[0]) is dict and _is_open(get_args(type_)[0])
    return any(_is_open(inner) for inner in get_args(type_))


def _standing_parts(desired: Object, observed: Object) -> Wire:
    kind = type(desired)
    return {
        encoded: msgspec.to_builtins(getattr(observed, name), str_keys=True)
        for name, encoded in _open_fields(kind)
    }


def _exactly(wanted: Wire, standing: Any) -> Wire:
    """The merge patch that leaves nothing but `wanted`; the server fills its defaults again."""
    if not isinstance(standing, dict):
        return wanted
    change: Wire = dict.fromkeys(standing.keys() - wanted.keys())
    for name, value in wanted.items():
        inner = standing.get(name)
        if value != inner:
            change[name] = _exactly(value, inner) if isinstance(value, dict) else value
    return change


def _hash_of_open_parts(obj: Object) -> str:
    if not _open_fields(type(obj)):
        return ""
    parts = _open_parts(obj)
    if not any(parts.values()):
        return ""
    return blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=8).hexdigest()
