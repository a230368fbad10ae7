"""What an object must be told to become as desired: a merge patch, empty when it is so.

Both sides are structs of one kind whose defaults are the server's, so an omitted field and a
defaulted one are equal. A field that stands at its default in the desired object and not in the
observed one was changed by somebody and is put back, unless the kind says that others fill it in.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from hanse.engine.ownership import APPLIED, EPOCH, OURS
from hanse.model.objects import K, Meta, Object, Wire

_UNSTATED = frozenset({"metadata", "status"})


class _Applied(Struct, frozen=True, omit_defaults=True):
    """The applied annotation: names we set among others' names, and a hash of open-shaped parts.

    Names are enough to know what to take back; values would double every object.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    open: str = ""


def recorded(obj: K) -> K:
    """The stamped object with a record of what we apply, for the next comparison."""
    meta = obj.metadata
    record = _Applied(
        labels=tuple(sorted(n for n in meta.labels if not n.startswith(OURS))),
        annotations=tuple(sorted(n for n in meta.annotations if not n.startswith(OURS))),
        open=_hash_of_open_parts(obj),
    )
    if record == _Applied():
        return obj
    text = msgspec.json.encode(record).decode()
    annotations = {**meta.annotations, APPLIED: text}
    return replace(obj, metadata=replace(meta, annotations=annotations))


def difference(desired: K, observed: K) -> Wire:
    """The merge patch of everything but status that makes `observed` as `desired`."""
    change = _struct_change(desired, observed, "", type(desired).allocated, skip=_UNSTATED)
    record = _record_on(observed)
    if _hash_of_open_parts(desired) != record.open:
        change = {**change, **_exactly(_open_parts(desired), _standing_parts(desired, observed))}
    meta = _meta_change(desired.metadata, observed.metadata, record, bool(change))
    return {**change, "metadata": meta} if meta else change


def status_difference(desired: Object, observed: Object) -> Wire:
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


def patch_is_needed(change: Wire, observed: Object) -> bool:
    """Whether a merge patch would change anything that we can see of an object."""
    standing = msgspec.to_builtins(observed, str_keys=True)
    after = merge(standing, change)
    return bool(msgspec.convert(after, type(observed), strict=False) != observed)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def _struct_change(
    desired: Struct,
    observed: Struct,
    path: str,
    allocated: frozenset[str],
    skip: frozenset[str] = frozenset(),
) -> Wire:
    change: Wire = {}
    for f in fields(desired):
        if f.name in skip:
            continue
        wanted, standing = getattr(desired, f.name), getattr(observed, f.name)
        inner = f"{path}.{f.encode_name}" if path else f.encode_name
        if wanted == standing or (inner in allocated and _is_default(f, wanted)):
            continue
        if isinstance(wanted, Struct) and isinstance(standing, Struct):
            deeper = _struct_change(wanted, standing, inner, allocated)
            if deeper:
                change[f.encode_name] = deeper
        elif not _covers(wanted, standing, inner, allocated):
            change[f.encode_name] = _replacement(wanted, standing, _is_default(f, wanted))
    return change


def _covers(wanted: Any, standing: Any, path: str, allocated: frozenset[str]) -> bool:
    """Whether what stands is as wanted, apart from what others fill in."""
    if isinstance(wanted, Struct) and type(wanted) is type(standing):
        return not _struct_change(wanted, standing, path, allocated)
    if isinstance(wanted, tuple | list) and isinstance(standing, tuple | list):
        return len(wanted) == len(standing) and all(
            _covers(w, s, path, allocated) for w, s in zip(wanted, standing, strict=True)
        )
    if isinstance(wanted, dict) and isinstance(standing, dict):
        if all(isinstance(v, str) for v in wanted.values()):
            return wanted == standing
        return all(
            n in standing and _covers(v, standing[n], path, allocated) for n, v in wanted.items()
        )
    return bool(wanted == standing) or (not wanted and not standing and wanted is not False)


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
    text = obj.metadata.annotations.get(APPLIED, "")
    try:
        return msgspec.json.decode(text, type=_Applied) if text else _Applied()
    except msgspec.DecodeError:
        return _Applied()


def _open_parts(obj: Object) -> Wire:
    """The parts of an object whose shape is not ours to know, by top-level field."""
    parts: Wire = {}
    for f in fields(obj):
        if f.name not in _UNSTATED and _is_open(getattr(obj, f.name)):
            parts[f.encode_name] = msgspec.to_builtins(getattr(obj, f.name), str_keys=True)
    return parts


def _is_open(value: Any) -> bool:
    if isinstance(value, Struct):
        return any(_is_open(getattr(value, f.name)) for f in fields(value))
    return isinstance(value, dict) and any(not isinstance(v, str) for v in value.values())


def _standing_parts(desired: Object, observed: Object) -> Wire:
    return {
        f.encode_name: msgspec.to_builtins(getattr(observed, f.name), str_keys=True)
        for f in fields(observed)
        if _is_open(getattr(desired, f.name))
    }


def _exactly(wanted: Wire, standing: Any) -> Wire:
    """The merge patch that leaves nothing but `wanted`; the server fills its defaults again."""
    if not isinstance(standing, dict):
        return wanted
    change: Wire = dict.fromkeys(standing.keys() - wanted.keys())
    for name, value in wanted.items():
        inner = standing.get(name)
        change[name] = _exactly(value, inner) if isinstance(value, dict) else value
    return change


def _hash_of_open_parts(obj: Object) -> str:
    parts = _open_parts(obj)
    if not parts:
        return ""
    return blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=8).hexdigest()
