"""The RBAC rules that an agent needs in a cluster, from what features watch and write."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from hanse.model.facts import Role
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event, Namespace
from hanse.model.objects import Kind, Wire
from hanse.model.snapshot import Watch, Writes

IDENTITY_NAMESPACE = "kube-system"
"""The namespace whose uid identifies a cluster."""

_READ = ("get", "list", "watch")


class RbacRule(Struct, frozen=True, order=True):
    """One RBAC rule, in one namespace or (empty) in all."""

    namespace: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def wire(self) -> Wire:
        """The rule as a PolicyRule of a Role."""
        named = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group],
            "resources": [self.resource],
            "verbs": list(self.verbs),
            **named,
        }


def rbac_rules(
    watches: Iterable[Watch], *roles: Role, leases: Sequence[tuple[str, str]] = ()
) -> tuple[RbacRule, ...]:
    """The rules for clusters of these roles, merged; `leases` are those the agent holds or reads.

    They always include reading CRDs and the namespace of the cluster's identity. A watch of one
    object is granted by resourceName, since a list or watch with a field selector for one name is
    a request for that name. RBAC cannot restrict a create by name.
    """
    relevant = [watch for watch in watches if watch.role in roles]
    verbs: dict[tuple[str, str, str, tuple[str, ...]], set[str]] = {}
    for namespace, kind, granted, subresource, names in _grants(relevant, leases):
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        verbs.setdefault((namespace, kind.group, resource, names), set()).update(granted)
    rules = [RbacRule(n, g, r, tuple(sorted(v)), names) for (n, g, r, names), v in verbs.items()]
    if "get" not in verbs.get(("", "", Namespace.kind.plural, ()), ()):
        rules.append(RbacRule("", "", Namespace.kind.plural, ("get",), (IDENTITY_NAMESPACE,)))
    held: dict[str, list[str]] = {}
    for namespace, name in leases:
        held.setdefault(namespace, []).append(name)
    for namespace, renewed in held.items():
        kind = Lease.kind
        rules.append(RbacRule(namespace, kind.group, kind.plural, ("patch",), tuple(renewed)))
    return tuple(sorted(_drop_covered(rules)))


def merge_rules(rules: Iterable[RbacRule]) -> tuple[RbacRule, ...]:
    """The rules with the verbs of the same resource and names in one."""
    verbs: dict[tuple[str, str, str, tuple[str, ...]], set[str]] = {}
    for rule in rules:
        key = (rule.namespace, rule.group, rule.resource, rule.names)
        verbs.setdefault(key, set()).update(rule.verbs)
    return tuple(
        sorted(
            RbacRule(namespace, group, resource, tuple(sorted(granted)), names)
            for (namespace, group, resource, names), granted in verbs.items()
        )
    )


def _grants(
    watches: Sequence[Watch], leases: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, Kind, tuple[str, ...], str, tuple[str, ...]]]:
    """Namespace, kind, verbs, subresource and names of each grant, with repeats."""
    yield "", CustomResourceDefinition.kind, _READ, "", ()
    for watch in watches:
        where, kind = watch.namespace, watch.kind.kind
        names = (watch.name,) if watch.name else ()
        yield where, kind, _READ, "", names
        if Writes.OBJECTS in watch.writes:
            yield where, kind, ("patch", "delete"), "", names
        if watch.writes & (Writes.OBJECTS | Writes.MISSING):
            yield where, kind, ("create",), "", ()
        if Writes.FIELDS in watch.writes:
            yield where, kind, ("patch",), "", names
        if Writes.STATUS in watch.writes:
            yield where, kind, ("patch",), "status", names
    if any(watch.writes for watch in watches):
        yield "", Event.kind, ("create", "get", "patch"), "", ()
    for namespace, _ in leases:
        yield namespace, Lease.kind, (*_READ, "create"), "", ()


def _drop_covered(rules: Iterable[RbacRule]) -> Iterable[RbacRule]:
    """The rules without namespaced ones whose verbs a rule for all namespaces includes."""
    everywhere = {
        (r.group, r.resource): set(r.verbs) for r in rules if not r.namespace and not r.names
    }
    for rule in rules:
        covered = everywhere.get((rule.group, rule.resource), set())
        if not rule.namespace or not set(rule.verbs) <= covered:
            yield rule
