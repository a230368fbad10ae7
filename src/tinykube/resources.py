"""Resources as values, and the registry of those that one cluster serves."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:  # it uses resources itself
    from tinykube.schema_rules import RuleNode

Object = dict[str, Any]
"""A Kubernetes object as JSON; stored ones are replaced, never modified."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Subresource(Struct, frozen=True):
    """A subresource; group and version are empty when they are those of the resource."""

    name: str
    kind: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str = ""
    version: str = ""


class Column(Struct, frozen=True, rename="camel"):
    """An additionalPrinterColumn of a CRD version."""

    name: str
    type: str
    json_path: str
    description: str = ""
    format: str = ""
    priority: int = 0


class ScalePaths(Struct, frozen=True, rename="camel"):
    """The JSON paths of a custom resource's scale subresource, like `.spec.replicas`."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


class CustomVersion(Struct, frozen=True):
    """One served version of a CRD."""

    schema: Object
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None
    selectable_fields: tuple[str, ...] = ()
    deprecation_warning: str = ""
    crd: str = ""
    stored_as: str = ""
    """The apiVersion of stored objects."""
    rules: "RuleNode | None" = None
    """The compiled rules of the schema, if it has any."""


class Resource(Struct, frozen=True):
    """One resource in one served version; `store` is the name of its objects in storage."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    categories: tuple[str, ...] = ()
    store: str = ""
    list_kind: str = ""
    custom: CustomVersion | None = None

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """The name in messages: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """The path prefix: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name, or None."""
        return next((sub for sub in self.subresources if sub.name == name), None)

    def body_kind(self, subresource: str) -> tuple[str, str]:
        """The apiVersion and kind of request bodies for a subresource.

        Those of the object itself if the resource has no such subresource, or the name is empty.
        """
        found = self.subresource(subresource)
        if found is None:
            return self.api_version, self.kind
        own = f"{found.group}/{found.version}" if found.group else self.api_version
        return own, found.kind

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of the collection when no name is given.

        Without a namespace the collection is that of all namespaces; the namespace of a
        cluster-scoped resource is ignored.
        """
        parts = [self.prefix]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


class Group(Struct, frozen=True):
    """One API group with its served versions, the preferred one first."""

    name: str
    versions: tuple[str, ...]


class Registry:
    """The resources that one cluster serves: the built-ins and those of its CRDs."""

    def __init__(self, builtins: "Builtins") -> None:
        """Only the built-in resources are served at first."""
        self._builtins = builtins
        self._custom: dict[str, tuple[Resource, ...]] = {}
        self._custom_paths: dict[tuple[str, str, str], Resource] = {}
        self.generation = 0
        """Increments with every change, so that discovery documents can be cached."""

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at group, version and plural, a built-in one first; None if not served."""
        key = (group, version, plural)
        return self._builtins.paths.get(key) or self._custom_paths.get(key)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource that is served for an apiVersion and kind, built-in or custom; else None."""
        found = self._builtins.kinds.get((api_version, kind))
        if found is not None:
            return found
        return next(
            (
                r
                for r in self._custom_paths.values()
                if (r.api_version, r.kind) == (api_version, kind)
            ),
            None,
        )

    def has_builtins(self, group: str) -> bool:
        """Whether a group has built-in resources."""
        return group in self._builtins.groups

    def in_store(self, store: str) -> Iterator[Resource]:
        """The resources that share one store, one per served version; none for an unknown store."""
        yield from self._builtins.stores.get(store, ())
        yield from self._custom.get(store, ())

    def __iter__(self) -> Iterator[Resource]:
        """Every resource in every served version.

        Built-ins come first in their fixed order, then those of CRDs in the order of the CRDs'
        names; the versions of one CRD come with the preferred one first.
        """
        yield from self._builtins.resources
        for name in sorted(self._custom):
            yield from self._custom[name]

    def stored(self) -> Iterator[Resource]:
        """One resource per store that can be listed, in the first version that `__iter__` gives."""
        seen: set[str] = set()
        for resource in self:
            if "list" in resource.verbs and resource.store not in seen:
                seen.add(resource.store)
                yield resource

    def groups(self) -> list[Group]:
        """Every named API group, each with its versions, the preferred one first.

        Built-in groups come in their fixed order, then custom ones in the order of their CRDs'
        names (`plural.group`). The core group is left out.
        """
        versions: dict[str, dict[str, None]] = {}
        for resource in self:
            if resource.group:
                versions.setdefault(resource.group, {}).setdefault(resource.version)
        return [
            Group(name, tuple(sorted(found, key=version_rank))) for name, found in versions.items()
        ]

    def custom(self) -> Iterable[tuple[Resource, ...]]:
        """The custom resources, one tuple of served versions per CRD, empty if it serves none."""
        return self._custom.values()

    def define(self, crd: str, versions: tuple[Resource, ...]) -> None:
        """Serve these versions of a CRD, given by its name, instead of those served before.

        Increments the generation.
        """
        self._remove_paths(crd)
        self._custom[crd] = versions
        self._custom_paths |= {(r.group, r.version, r.plural): r for r in versions}
        self.generation += 1

    def withdraw(self, crd: str) -> None:
        """Stop serving a CRD's resources and increment the generation. Stored objects remain.

        Does nothing if the CRD is not defined.
        """
        self._remove_paths(crd)
        if self._custom.pop(crd, None) is not None:
            self.generation += 1

    def _remove_paths(self, crd: str) -> None:
        """Stop finding the resources of a CRD by path or kind; `__iter__` still gives them."""
        for resource in self._custom.get(crd, ()):
            self._custom_paths.pop((resource.group, resource.version, resource.plural), None)


class Builtins:
    """The built-in resources, indexed."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        """Index the resources by group, by path, by kind and by store."""
        self.resources = resources
        self.groups = frozenset(r.group for r in resources)
        self.paths = {(r.group, r.version, r.plural): r for r in resources}
        self.kinds = {(r.api_version, r.kind): r for r in resources}
        self.stores: dict[str, list[Resource]] = {}
        for resource in resources:
            self.stores.setdefault(resource.store, []).append(resource)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """A sort key that puts versions in the order of Kubernetes, the preferred one first.

    v2 and v1, then v1beta2 and v1beta1, then v1alpha1, each the highest first; others last, by
    name.
    """
    digits = version[1:]
    if version[:1] == "v" and digits.isdecimal():
        return (0, -int(digits), 0, "")
    for rank, stage in ((1, "beta"), (2, "alpha")):
        major, found, minor = digits.partition(stage)
        if version[:1] == "v" and found and major.isdecimal() and minor.isdecimal():
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, version)
