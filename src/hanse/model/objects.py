"""The base of all kinds: objects, metadata, references, and their wire format."""

from datetime import datetime
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

ClusterId: TypeAlias = str
Wire: TypeAlias = dict[str, Any]


class Kind(Struct, frozen=True, order=True, cache_hash=True):
    """A group, version and kind, with its resource name and scope."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def definition(self) -> str:
        """`<plural>.<group>`, the name of its CustomResourceDefinition, if it has one."""
        return f"{self.plural}.{self.group}"

    def __str__(self) -> str:
        """`Kind.group`, or `Kind` in the core group."""
        return f"{self.name}.{self.group}" if self.group else self.name


class Value(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A part of an object, with the API server's defaults: omitted and defaulted are equal.

    Objects come from JSON and are never cyclic: leaving them to reference counting alone keeps the
    garbage collector out of stores with a hundred thousand of them.
    """


class OwnerReference(Value, frozen=True, kw_only=True):
    """A reference to an owner, as the garbage collector uses it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(Value, frozen=True, kw_only=True):
    """The fields of ObjectMeta that we use."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class SharedLabels(dict[str, str]):
    """Labels that many objects have in common, with interned texts; nobody changes them."""


class Object(Value, frozen=True, kw_only=True):
    """A Kubernetes object with the fields we use; each subclass sets its `kind`."""

    kind: ClassVar[Kind]
    fallback_versions: ClassVar[tuple[str, ...]] = ()
    """Other versions with the same schema, newest first, used if `kind.version` is not served."""
    allocated: ClassVar[frozenset[str]] = frozenset()
    """Paths that the server or others set (`spec.clusterIP`): kept if not desired."""
    has_status_subresource: ClassVar[bool] = True
    """Whether `status` is written by the status subresource."""

    metadata: Meta

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace


K = TypeVar("K", bound=Object)


class ObjectRef(Struct, frozen=True, order=True):
    """A reference to an object within its cluster."""

    kind: Kind
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """`Kind.group namespace/name`, without group or namespace where they are empty."""
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind} {self.name}"
        )


class ClusterObjectRef(Struct, frozen=True, order=True):
    """A reference to an object within the fleet."""

    where: ClusterId
    ref: ObjectRef

    def __str__(self) -> str:
        """`cluster: ` and the reference within it."""
        return f"{self.where}: {self.ref}"


def object_ref(obj: Object) -> ObjectRef:
    """The reference to an object."""
    return ObjectRef(type(obj).kind, obj.metadata.name, obj.metadata.namespace)


def to_wire(obj: Object) -> Wire:
    """The object as JSON values: apiVersion and kind first, defaults omitted."""
    kind = type(obj).kind
    body: Wire = msgspec.to_builtins(obj, str_keys=True)
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def parse_time(text: str | None) -> datetime | None:
    """The time in RFC 3339 text; None if it is missing, no time, or without a time zone."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def wire_field(name: str, default: Any = msgspec.NODEFAULT) -> Any:
    """A field whose JSON name is not the camel case of its Python name (`clusterIP`)."""
    return field(name=name, default=default)


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The target with a JSON merge patch (RFC 7386) applied; neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result
