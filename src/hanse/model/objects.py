"""What every Kubernetes object has: a kind, metadata, and a name that is unique in its cluster."""

from datetime import datetime
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

ClusterId: TypeAlias = str
Wire: TypeAlias = dict[str, Any]


class Kind(Struct, frozen=True, order=True, cache_hash=True):
    """A kind as its API server serves it."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def definition(self) -> str:
        """The name of its definition, where it has one."""
        return f"{self.plural}.{self.group}"

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


class Value(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A part of an object, with the API server's defaults: omitted and filled in are equal.

    Objects come from JSON and are never cyclic: leaving them to reference counting alone keeps the
    garbage collector out of stores with a hundred thousand of them.
    """


class OwnerReference(Value, frozen=True, kw_only=True):
    """Who an object goes with when the garbage collector runs."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(Value, frozen=True, kw_only=True):
    """The metadata fields that decisions are made of."""

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


class Object(Value, frozen=True, kw_only=True):
    """A Kubernetes object, with only the fields we use; each subclass says its `kind`."""

    kind: ClassVar[Kind]
    fallback_versions: ClassVar[tuple[str, ...]] = ()
    """Other versions with the same shape, newest first, used where `kind.version` is not served."""
    allocated: ClassVar[frozenset[str]] = frozenset()
    """Paths that the server or others fill in (`spec.clusterIP`): left alone where not desired."""
    has_status_subresource: ClassVar[bool] = True
    """Whether `status` is written by its own subresource."""

    metadata: Meta

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace


K = TypeVar("K", bound=Object)


class ObjectRef(Struct, frozen=True, order=True):
    """The name of one object within its cluster."""

    kind: Kind
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind} {self.name}"
        )


class ClusterObjectRef(Struct, frozen=True, order=True):
    """The name of one object within the fleet."""

    where: ClusterId
    ref: ObjectRef

    def __str__(self) -> str:
        return f"{self.where}: {self.ref}"


def object_ref(obj: Object) -> ObjectRef:
    """The name an object goes by in its cluster."""
    return ObjectRef(type(obj).kind, obj.metadata.name, obj.metadata.namespace)


def to_wire(obj: Object) -> Wire:
    """The object as its API server reads it: defaults omitted, kind and version first."""
    kind = type(obj).kind
    body: Wire = msgspec.to_builtins(obj, str_keys=True)
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def wire_field(name: str, default: Any = msgspec.NODEFAULT) -> Any:
    """A field whose name on the wire is not the camel case of ours (`clusterIP`)."""
    return field(name=name, default=default)


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The target with a merge patch applied; neither is changed, both may be shared."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result
