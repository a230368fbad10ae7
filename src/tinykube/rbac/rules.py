"""The rules of roles: what they match, and whether some rules cover others; pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from tinykube.errors import quoted
from tinykube.rbac.attributes import Attributes
from tinykube.resources import Object

_ALL = "*"


class Rule(Struct, frozen=True):
    """A PolicyRule: verbs on resources, or verbs on paths."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Empty for all names."""
    paths: tuple[str, ...] = ()

    def matches(self, attributes: Attributes) -> bool:
        """Whether the rule allows a request: verb, group, resource and name, or verb and path."""
        if not self.matches_any_name(attributes):
            return False
        return not (attributes.resource and self.names) or attributes.name in self.names

    def matches_any_name(self, attributes: Attributes) -> bool:
        """Whether the rule allows it for at least one name; resourceNames are not compared."""
        if _ALL not in self.verbs and attributes.verb not in self.verbs:
            return False
        if not attributes.resource:
            return any(_path_covers(path, attributes.path) for path in self.paths)
        if _ALL not in self.groups and attributes.group not in self.groups:
            return False
        endpoint = attributes.endpoint
        return any(_resource_covers(resource, endpoint) for resource in self.resources)

    def covers(self, other: "Rule") -> bool:
        """Whether this rule alone allows all that another, which is one of `rights()`, allows."""
        if _ALL not in self.verbs and not set(other.verbs) <= set(self.verbs):
            return False
        if other.paths:
            return all(any(_path_covers(own, p) for own in self.paths) for p in other.paths)
        if _ALL not in self.groups and not set(other.groups) <= set(self.groups):
            return False
        if not all(
            any(_resource_covers(own, r) for own in self.resources) for r in other.resources
        ):
            return False
        return not self.names or bool(other.names and set(other.names) <= set(self.names))

    def rights(self) -> Iterator["Rule"]:
        """The rule as rules of one verb, group, resource and name, or of one verb and path."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or ("",):
                        names = (name,) if name else ()
                        yield Rule((verb,), (group,), (resource,), names)
        for path in self.paths:
            for verb in self.verbs:
                yield Rule((verb,), paths=(path,))

    @property
    def text(self) -> str:
        """The rule as the API server shows it in errors."""
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        shown = (f"{key}:{quoted_list(values)}" for key, values in fields.items() if values)
        return "{" + ", ".join(shown) + "}"

    @property
    def wire(self) -> dict[str, Any]:
        """The rule as in a SelfSubjectRulesReview; with paths, only verbs and paths."""
        if self.paths:
            return {"verbs": list(self.verbs), "nonResourceURLs": list(self.paths)}
        fields = {"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources}
        shown = {key: list(values) for key, values in fields.items()}
        return {**shown, "resourceNames": list(self.names)} if self.names else shown


FULL_AUTHORITY = (Rule((_ALL,), (_ALL,), (_ALL,)), Rule((_ALL,), paths=(_ALL,)))


def rules_of(role: Object) -> tuple[Rule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(
        Rule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in role.get("rules") or ()
    )


def missing_rights(held: Iterable[Rule], asked: Iterable[Rule]) -> list[Rule]:
    """The rights of the rules `asked` that no rule of `held` covers.

    Those that differ only in their verb are one rule, except for paths.
    """
    owned = tuple(held)
    verbs: dict[Rule, list[str]] = {}
    for rule in asked:
        for right in rule.rights():
            if any(own.covers(right) for own in owned):
                continue
            paths = right.verbs if right.paths else ()  # rights to paths are not merged
            key = Rule(paths, right.groups, right.resources, right.names, right.paths)
            known = verbs.setdefault(key, [])
            known += [verb for verb in right.verbs if verb not in known]
    return [
        Rule(tuple(found), key.groups, key.resources, key.names, key.paths)
        for key, found in verbs.items()
    ]


def quoted_list(values: Iterable[str]) -> str:
    """Texts as the API server shows a list of them: `["a" "b"]`."""
    return f"[{' '.join(quoted(value) for value in values)}]"


def _resource_covers(pattern: str, endpoint: str) -> bool:
    """Whether a rule's resource (`pods`, `pods/status`, `*/status`, `*`) is or includes one."""
    if pattern in (_ALL, endpoint):
        return True
    return pattern.startswith("*/") and endpoint.partition("/")[2] == pattern[2:]


def _path_covers(pattern: str, path: str) -> bool:
    """Whether a rule's path (`/api`, `/api/*`, `*`) is or includes one."""
    return pattern == path or (pattern.endswith(_ALL) and path.startswith(pattern.rstrip(_ALL)))
