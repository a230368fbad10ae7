"""The RBAC rules that an agent needs in a cluster, from what features watch and write."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.model.facts import Role
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event, Namespace
from hanse.model.naming import IDENTITY_NAMESPACE
from hanse.model.objects import Kind, Wire
from hanse.model.snapshot import Watch, Writes

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


class Right(Struct, frozen=True, order=True):
    """A rule, and the reasons for which it is granted."""

    rule: RbacRule
    reasons: tuple[str, ...] = ()
    is_special: bool = False
    """Whether it is used only with something that not every installation has."""


class _Grant(Struct, frozen=True):
    """What one watch, or one need of every agent, asks for."""

    namespace: str
    kind: Kind
    verbs: tuple[str, ...]
    subresource: str = ""
    names: tuple[str, ...] = ()
    reason: str = ""
    is_special: bool = False


def rbac_rules(
    watches: Iterable[Watch], *roles: Role, leases: Sequence[tuple[str, str]] = ()
) -> tuple[RbacRule, ...]:
    """The rules for clusters of these roles, merged; `leases` are those the agent holds.

    They always include reading CRDs and the namespace of the cluster's identity, and Events if a
    watch of these roles writes. A watch of one object is granted by resourceName, since a list or
    watch with a field selector for one name is a request for that name. RBAC cannot restrict a
    create by name.
    """
    chosen = tuple(watches)
    grants = [
        *_identity_grants(chosen, roles),
        *_watch_grants(chosen, roles),
        *_event_grants(chosen, roles),
        *_lease_grants(leases),
    ]
    return tuple(right.rule for right in _merge(grants))


def watch_rights(watches: Iterable[Watch], *roles: Role) -> tuple[Right, ...]:
    """The rights that watches need in clusters of these roles, merged and sorted, and no others.

    Not even those for CRDs, the identity namespace and Events.
    """
    return _merge([*_watch_grants(tuple(watches), roles)])


def lease_rights(leases: Sequence[tuple[str, str]]) -> tuple[Right, ...]:
    """The rights to hold the Leases of these (namespace, name) pairs, merged and sorted."""
    return _merge([*_lease_grants(leases)])


def agent_rights(watches: Sequence[Watch], leases: Sequence[tuple[str, str]]) -> tuple[Right, ...]:
    """The rights that every agent has in its own cluster: for LOCAL watches, and for these Leases.

    They include Events, reading CRDs, and the namespace whose uid identifies the cluster.
    """
    home = (Role.LOCAL,)
    grants = [
        *_identity_grants(watches, home),
        *_watch_grants(watches, home),
        _EVENTS,
        *_lease_grants(leases),
    ]
    return _merge(grants)


def without_covered(rights: Iterable[Right], given: Iterable[Right]) -> tuple[Right, ...]:
    """The rights without those of which a given one allows all that they allow."""
    others = tuple(right.rule for right in given)
    return tuple(right for right in rights if not any(_covers(o, right.rule) for o in others))


_EVENTS = _Grant(
    "",
    Event.kind,
    ("create", "get", "patch"),
    reason="Events tell about conditions that change, in the namespace of their object",
)


def _identity_grants(watches: Sequence[Watch], roles: Sequence[Role]) -> Iterator[_Grant]:
    """Reading CRDs, and the one namespace whose uid identifies a cluster.

    The latter unless a watch of all Namespaces grants it.
    """
    served = "which kinds the cluster serves, and when that changes"
    yield _Grant("", CustomResourceDefinition.kind, _READ, reason=served)
    if not any(w.role in roles and w.kind is Namespace and not w.name for w in watches):
        why = "its uid identifies the cluster"
        yield _Grant("", Namespace.kind, ("get",), names=(IDENTITY_NAMESPACE,), reason=why)


def _event_grants(watches: Sequence[Watch], roles: Sequence[Role]) -> Iterator[_Grant]:
    """Writing Events, if a watch of these roles writes anything."""
    if any(watch.writes for watch in watches if watch.role in roles):
        yield _EVENTS


def _lease_grants(leases: Sequence[tuple[str, str]]) -> Iterator[_Grant]:
    """For each namespace and name: create any Lease there; get, list, watch and patch this one."""
    why = "the Lease by which one agent at a time works"
    for namespace, name in leases:
        yield _Grant(namespace, Lease.kind, ("create",), reason=why)
        yield _Grant(namespace, Lease.kind, (*_READ, "patch"), names=(name,), reason=why)


def merge_rules(rules: Iterable[RbacRule]) -> tuple[RbacRule, ...]:
    """The rules, sorted, with the verbs for the same resource, names and namespace in one."""
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


def _watch_grants(watches: Sequence[Watch], roles: Sequence[Role]) -> Iterator[_Grant]:
    """What each watch of these roles needs, with repeats: reading, and the verbs of its `writes`.

    `create` is not limited to a watch's name, since RBAC cannot.
    """
    for watch in watches:
        if watch.role not in roles:
            continue
        names = (watch.name,) if watch.name else ()

        def grant(
            *verbs: str, subresource: str = "", watch: Watch = watch, names: tuple[str, ...] = names
        ) -> _Grant:
            """A grant of verbs on the watch's kind or a subresource of it, by default for its name.

            It is special if the watch has `only_with`, which its reason then names.
            """
            kind, special = watch.kind.kind, bool(watch.only_with)
            reason = f"{watch.reason}, only with {watch.only_with}" if special else watch.reason
            return _Grant(watch.namespace, kind, verbs, subresource, names, reason, special)

        yield grant(*_READ)
        if Writes.OBJECTS in watch.writes:
            yield grant("patch", "delete")
        if Writes.REMOVAL in watch.writes:
            yield grant("delete")
        if watch.writes & (Writes.OBJECTS | Writes.MISSING):
            yield grant("create", names=())
        if Writes.FIELDS in watch.writes:
            yield grant("patch")
        if Writes.STATUS in watch.writes:
            yield grant("patch", subresource="status")


def _merge(grants: Iterable[_Grant]) -> tuple[Right, ...]:
    """One right for each namespace, resource and resourceNames, sorted, with all verbs and reasons.

    Those that differ in resourceNames alone are joined, and those that another one covers are left
    out. A right is special only if all its grants are.
    """
    verbs: dict[tuple[str, str, str, tuple[str, ...]], set[str]] = {}
    reasons: dict[tuple[str, str, str, tuple[str, ...]], dict[str, None]] = {}
    usual: set[tuple[str, str, str, tuple[str, ...]]] = set()
    for one in grants:
        resource = f"{one.kind.plural}/{one.subresource}" if one.subresource else one.kind.plural
        place = (one.namespace, one.kind.group, resource, one.names)
        verbs.setdefault(place, set()).update(one.verbs)
        reasons.setdefault(place, {}).update({one.reason: None} if one.reason else {})
        usual.update(() if one.is_special else (place,))
    merged = _join_names(
        Right(
            RbacRule(n, g, r, tuple(sorted(verbs[n, g, r, names])), names),
            tuple(why),
            (n, g, r, names) not in usual,
        )
        for (n, g, r, names), why in reasons.items()
    )
    return tuple(
        sorted(
            right
            for right in merged
            if not any(_covers(o.rule, right.rule) for o in merged if o is not right)
        )
    )


def _join_names(rights: Iterable[Right]) -> list[Right]:
    """The rights, those that differ in their resourceNames alone joined; reasons are kept.

    One without names, which covers all objects, is not joined with one that has some. A joined
    right is special only if all its parts are.
    """
    joined: dict[tuple[object, ...], Right] = {}
    for right in rights:
        rule = right.rule
        place = (rule.namespace, rule.group, rule.resource, rule.verbs, bool(rule.names))
        if (found := joined.get(place)) is not None:
            names = (*found.rule.names, *rule.names)
            why = tuple(dict.fromkeys((*found.reasons, *right.reasons)))
            special = found.is_special and right.is_special
            right = Right(replace(found.rule, names=names), why, special)  # noqa: PLW2901 - merged
        joined[place] = right
    return list(joined.values())


def _covers(rule: RbacRule, other: RbacRule) -> bool:
    """Whether a rule allows all that another allows."""
    return (
        (rule.group, rule.resource) == (other.group, other.resource)
        and rule.namespace in ("", other.namespace)
        and set(other.verbs) <= set(rule.verbs)
        and (not rule.names or (bool(other.names) and set(other.names) <= set(rule.names)))
    )
