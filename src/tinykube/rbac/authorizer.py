"""Who may do what, by the stored roles and bindings; decisions are cached until these change."""

from collections.abc import Iterator

from msgspec import Struct

from tinykube.errors import quoted
from tinykube.rbac.attributes import Attributes, forbidden
from tinykube.rbac.rules import Rule, rules_of
from tinykube.resources import Object
from tinykube.storage import Storage
from tinykube.users import ADMIN, CONTROLLERS, MASTERS, User

RBAC_GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{RBAC_GROUP}"
CLUSTER_ROLES = f"clusterroles.{RBAC_GROUP}"
ROLE_BINDINGS = f"rolebindings.{RBAC_GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{RBAC_GROUP}"

_MAX_DECISIONS = 4096
"""The decisions kept for one user, of which there is one per verb, resource and namespace."""

_UserKey = tuple[str, tuple[str, ...]]
"""A user's name and groups."""
_SubjectKey = tuple[str, str]
"""User or Group, and its name; a ServiceAccount is a user."""
_DecisionKey = tuple[str, str, str, str]
"""Verb, group, resource with subresource (or path), namespace."""


class Grant(Struct, frozen=True):
    """One binding for one subject; without a namespace it holds in all of them."""

    binding: Object
    subject: Object
    namespace: str

    @property
    def role_ref(self) -> Object:
        """The roleRef of the binding."""
        reference: Object = self.binding["roleRef"]
        return reference

    @property
    def text(self) -> str:
        """The grant as the reason of an access review."""
        metadata, subject = self.binding["metadata"], self.subject
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        bound = f"{metadata['name']}/{self.namespace}" if self.namespace else metadata["name"]
        holder = subject["name"]
        if subject["kind"] == "ServiceAccount":
            holder = f"{holder}/{subject.get('namespace') or self.namespace}"
        role = self.role_ref
        return (
            f'RBAC: allowed by {kind} "{bound}" of {role["kind"]} "{role["name"]}" '
            f'to {subject["kind"]} "{holder}"'
        )


class Authorizer:
    """Authorizes the users of one cluster."""

    def __init__(self, storage: Storage) -> None:
        """Subscribe to changes of roles and bindings, each of which clears cached decisions."""
        self._storage = storage
        self._grants: dict[_SubjectKey, list[Grant]] | None = None
        self._decisions: dict[_UserKey, dict[_DecisionKey, frozenset[str] | None]] = {}
        self._rules: dict[str, tuple[str, tuple[Rule, ...]]] = {}
        """By uid of a role: its resourceVersion and its rules."""
        for store in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            storage.subscribe(lambda _: self._invalidate(), store)

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise 403 unless the user may do what is asked; privileged users always may.

        The message names roles that are bound to the user but do not exist.
        """
        if not self.allows(user, attributes):
            raise forbidden(user, attributes, self._missing_roles(user, attributes.namespace))

    def allows(self, user: User, attributes: Attributes) -> bool:
        """Whether roles bound to a user or the user's groups allow it; True if privileged.

        The decision is cached until a role or binding changes.
        """
        if is_privileged(user):
            return True
        holder = (user.name, user.groups)
        known = self._decisions.get(holder)
        if known is None or len(known) > _MAX_DECISIONS:
            known = self._decisions[holder] = {}
        endpoint = attributes.endpoint or attributes.path
        key = (attributes.verb, attributes.group, endpoint, attributes.namespace)
        names = known.get(key, ...)
        if names is ...:
            names = known[key] = self._allowed_names(user, attributes)
        return names is None or attributes.name in names

    def reason(self, user: User, attributes: Attributes) -> str:
        """Why access is allowed or not, as an access review says: the first binding that allows it.

        If none does, the bound roles that do not exist; else empty, as for the privileged.
        """
        if is_privileged(user):
            return ""
        for grant in self._grants_of(user, attributes.namespace):
            if any(rule.matches(attributes) for rule in self.role_rules(grant)):
                return grant.text
        return self._missing_roles(user, attributes.namespace)

    def rules_for(self, user: User, namespace: str) -> list[Rule]:
        """All rules of a user in a namespace, with those that hold everywhere.

        They are those of bound roles, so a privileged user may have none.
        """
        return [
            rule for grant in self._grants_of(user, namespace) for rule in self.role_rules(grant)
        ]

    def role_rules(self, grant: Grant) -> tuple[Rule, ...]:
        """The rules of a grant's role; none if it does not exist."""
        role = self.referenced_role(grant.role_ref, grant.namespace)
        if role is None:
            return ()
        uid, version = role["metadata"]["uid"], role["metadata"]["resourceVersion"]
        known = self._rules.get(uid)
        if known is None or known[0] != version:
            known = self._rules[uid] = (version, rules_of(role))
        return known[1]

    def referenced_role(self, reference: Object, namespace: str) -> Object | None:
        """The stored role of a roleRef, a Role in this namespace, or None."""
        if reference.get("kind") == "ClusterRole":
            return self._storage.get(CLUSTER_ROLES, "", reference["name"])
        return self._storage.get(ROLES, namespace, reference["name"])

    def _allowed_names(self, user: User, attributes: Attributes) -> frozenset[str] | None:
        """The names for which the rules allow it, empty if for none.

        None if they allow it for all names, or it is a path that they allow.
        """
        names: set[str] = set()
        for rule in self.rules_for(user, attributes.namespace):
            if rule.matches_any_name(attributes):
                if not rule.names or not attributes.resource:
                    return None
                names.update(rule.names)
        return frozenset(names)

    def _missing_roles(self, user: User, namespace: str) -> str:
        """The bound roles that do not exist, as a part of a message; empty if all do."""
        missing = [
            f"{grant.role_ref['kind'].lower()}.{RBAC_GROUP} "
            f"{quoted(grant.role_ref['name'])} not found"
            for grant in self._grants_of(user, namespace)
            if self.referenced_role(grant.role_ref, grant.namespace) is None
        ]
        if not missing:
            return ""
        return f"RBAC: {missing[0] if len(missing) == 1 else '[' + ', '.join(missing) + ']'}"

    def _grants_of(self, user: User, namespace: str) -> Iterator[Grant]:
        """The grants of a user and of the user's groups that hold in a namespace."""
        grants = self._grants if self._grants is not None else self._index()
        keys: list[_SubjectKey] = [("User", user.name)]
        keys += [("Group", group) for group in user.groups]
        for key in keys:
            for grant in grants.get(key, ()):
                if grant.namespace in ("", namespace):
                    yield grant

    def _index(self) -> dict[_SubjectKey, list[Grant]]:
        """Index the grants of all bindings by subject, and keep that until one changes."""
        grants = self._grants = {}
        for store in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for binding in self._storage.objects(store):
                namespace = binding["metadata"].get("namespace", "")
                for subject in binding.get("subjects") or ():
                    grant = Grant(binding, subject, namespace)
                    grants.setdefault(_subject_key(subject, namespace), []).append(grant)
        return grants

    def _invalidate(self) -> None:
        """Drop the index of grants and all cached decisions."""
        self._grants = None
        self._decisions.clear()


def is_privileged(user: User) -> bool:
    """Whether a user may do everything, whatever the roles are.

    That is `ADMIN` and `CONTROLLERS` (these objects, not their names) and members of
    `system:masters`.
    """
    return user is ADMIN or user is CONTROLLERS or MASTERS in user.groups


def _subject_key(subject: Object, namespace: str) -> _SubjectKey:
    """The user or group of a subject; an account without namespace is in the binding's."""
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return subject.get("kind", ""), name
