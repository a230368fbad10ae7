"""The rules of each built-in kind."""

from hanse.local.embedded.crds import CRD_RULES, CRDS
from hanse.local.embedded.resources import Resource
from hanse.local.embedded.rules import COMMON, Rules

_RULES: dict[str, Rules] = {CRDS: CRD_RULES}
_CUSTOM = Rules(generation=True, unconditional=False)


def rules_of(resource: Resource) -> Rules:
    """The rules for one resource's objects."""
    if resource.custom is not None:
        return _CUSTOM
    return _RULES.get(resource.store, COMMON)
