"""The group `apiextensions.k8s.io`: CustomResourceDefinitions."""

from typing import ClassVar, Literal

from hanse.model.kinds.core import ObservedCondition
from hanse.model.objects import Kind, Object, Value


class DefinedNames(Value, frozen=True, kw_only=True):
    """The names of a kind."""

    kind: str
    plural: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class DefinedVersion(Value, frozen=True, kw_only=True):
    """One version of a kind."""

    name: str
    served: bool
    storage: bool


class CustomResourceDefinitionSpec(Value, frozen=True, kw_only=True):
    """The defined kind."""

    group: str
    names: DefinedNames
    scope: Literal["Namespaced", "Cluster"]
    versions: tuple[DefinedVersion, ...] = ()


class CustomResourceDefinitionStatus(Value, frozen=True, kw_only=True):
    """Whether the kind is served."""

    conditions: tuple[ObservedCondition, ...] | None = ()
    stored_versions: tuple[str, ...] | None = ()


class CustomResourceDefinition(Object, frozen=True, kw_only=True):
    """A CRD as it is watched; `model.crds` builds those to write, with schemas."""

    kind: ClassVar[Kind] = Kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
    )

    spec: CustomResourceDefinitionSpec
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()

    @property
    def served_kinds(self) -> frozenset[Kind]:
        """The defined kind in each version that has `served: true`."""
        names, namespaced = self.spec.names, self.spec.scope == "Namespaced"
        return frozenset(
            Kind(self.spec.group, v.name, names.kind, names.plural, namespaced)
            for v in self.spec.versions
            if v.served
        )

    @property
    def established(self) -> bool:
        """Whether condition Established is True, so that objects of the kind can be created."""
        return any(
            c.type == "Established" and c.status == "True" for c in self.status.conditions or ()
        )
