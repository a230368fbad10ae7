"""Who may write what in a cluster that is not its own: one declaration for RBAC and admission.

Each feature declares its rules beside its watches. Roles grant the verbs of the rules, and
ValidatingAdmissionPolicies (`model.admission_policies`) hold every request to their requirements.
The author of a request is its authenticated account, `variables.me`; a label or an annotation
counts as an author's mark only where a requirement forces it to equal that account.

Requirements are CEL, written with `has()` and few functions, so that small evaluators carry them.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from hanse.model.facts import Role
from hanse.model.objects import Kind
from hanse.model.ownership import OWNER_KEY
from hanse.model.rbac import RbacRule, merge_rules, rbac_rules
from hanse.model.snapshot import Watch, Writes

HOME = "{home}"
"""A rule's namespace: the broker's own."""
ACCOUNTS = "{accounts}"
"""A rule's namespace: that of the members' accounts."""
CLUSTER = "{cluster}"
"""In a requirement: the id of the cluster whose policies these are."""
ANYWHERE = ""
"""A rule's namespace: all of them, since people choose where they submit."""

MAX_TOKEN_SECONDS = 30 * 24 * 3600
"""The longest lifetime of a token that an API server of ours issues for another cluster."""

METADATA = ("labels", "annotations", "ownerReferences", "finalizers")
"""The metadata that controllers act on: frozen, unless a rule lets its writer set it."""

SYSTEM_NAMESPACES = ("hanse-system", "antrea-plus-system", "avi-system")
"""Namespaces of Hanse itself, where nobody submits anything."""


class Writer(StrEnum):
    """Who writes with an account that another cluster issued."""

    MEMBER = "member"
    """A member's agent, on the broker."""
    SUPERVISOR = "supervisor"
    """A supervisor's agent, in a member."""
    LEADER = "leader"
    """A GSLB leader's agent, in a site."""


class Requirement(Struct, frozen=True):
    """A CEL expression that must hold, in words, and the CEL of its message if it names values."""

    words: str
    expression: str
    message: str = ""


class WriteRule(Struct, frozen=True):
    """What one kind of writer may do with one kind of object."""

    name: str
    """The end of the names of its policy and binding."""
    writer: Writer
    kind: Kind
    verbs: tuple[str, ...]
    objects: str
    """Which objects, in words."""
    requirements: tuple[Requirement, ...] = ()
    subresource: str = ""
    namespace: str = ANYWHERE
    sets: tuple[str, ...] = ()
    """The metadata that the writer may set."""
    own_name: bool = False
    """Whether RBAC grants it by name: only the object that has the writer's own."""
    anybody: bool = False
    """Whether it holds for every requester, not only for such accounts."""
    params: Kind | None = None
    """The kind of all objects that its requirements read, one by one, as `params`."""
    params_in: str = ""
    """Their namespace; if empty, that of the request."""
    ignores_failures: bool = False
    """Whether a request is let through if `params` cannot be read.

    An API server that does not serve their kind (before it sees a new CRD, or after the CRD was
    deleted) refuses every request for the resource, of anybody, before it asks who sent it. A rule
    for a kind of users, in all namespaces, must not do that.
    """

    @property
    def resource(self) -> str:
        """The plural, with `/<subresource>` if there is one."""
        plural = self.kind.plural
        return f"{plural}/{self.subresource}" if self.subresource else plural


class FeatureAccess(Struct, frozen=True):
    """What a feature watches and what it may write, in the clusters of others."""

    feature: str
    watches: tuple[Watch, ...]
    rules: tuple[WriteRule, ...]


class MissingWriteRule(Exception):
    """A feature watches a kind to write it, and no rule says what it may write."""


def granted_rules(
    access: FeatureAccess, *roles: Role, placed: dict[str, str], name: str
) -> tuple[RbacRule, ...]:
    """The RBAC rules of a feature for clusters of these roles: to read what it watches, and write.

    Writing is granted by its write rules; `placed` gives the namespaces of HOME and ACCOUNTS. With
    `name`, the writer's own, only write rules that are granted by name count; without it only the
    others. Raises `MissingWriteRule` if a watch declares a write that no rule covers.
    """
    if missing := undeclared_writes(access, *roles):
        raise MissingWriteRule(f"{access.feature}: no write rule for {', '.join(missing)}")
    reads = rbac_rules(access.watches, *roles)
    return merge_rules((*_reading(reads), *_writing(access.rules, placed, name)))


def undeclared_writes(access: FeatureAccess, *roles: Role) -> tuple[str, ...]:
    """`<group>/<resource> <verb>` that watches of these roles declare and no write rule covers.

    They are sorted. Deletions of what others made (REMOVAL) are not checked.
    """
    written = {
        resource
        for watch in access.watches
        if watch.role in roles
        for resource in _written_resources(watch)
    }
    covered = {
        f"{rule.kind.group}/{rule.resource} {v}" for rule in access.rules for v in rule.verbs
    }
    return tuple(sorted(written - covered))


def _written_resources(watch: Watch) -> Iterable[str]:
    """What a watch declares to write, as `<group>/<plural> <verb>`, with `/status` for a status.

    REMOVAL gives nothing.
    """
    kind = watch.kind.kind
    name = f"{kind.group}/{kind.plural}"
    if Writes.OBJECTS in watch.writes:
        yield from (f"{name} create", f"{name} patch", f"{name} delete")
    if Writes.MISSING in watch.writes:
        yield f"{name} create"
    if Writes.FIELDS in watch.writes:
        yield f"{name} patch"
    if Writes.STATUS in watch.writes:
        yield f"{name}/status patch"


_READ = frozenset({"get", "list", "watch"})


def _reading(rules: Iterable[RbacRule]) -> Iterable[RbacRule]:
    """The rules with only their verbs get, list and watch.

    Rules without such verbs, and those for Events, are left out.
    """
    for rule in rules:
        verbs = tuple(verb for verb in rule.verbs if verb in _READ)
        if verbs and rule.resource != "events":
            yield RbacRule(rule.namespace, rule.group, rule.resource, verbs, rule.names)


def _writing(rules: Sequence[WriteRule], placed: dict[str, str], name: str) -> Iterable[RbacRule]:
    """The RBAC rules of write rules with verbs, their namespaces replaced by those in `placed`.

    With a name only rules that are granted by name (`own_name`), for that name; without it only the
    others.
    """
    for rule in rules:
        if rule.verbs and rule.own_name == bool(name):
            where = placed.get(rule.namespace, rule.namespace)
            names = (name,) if rule.own_name else ()
            yield RbacRule(where, rule.kind.group, rule.resource, tuple(sorted(rule.verbs)), names)


def label_cel(of: str, name: str) -> str:
    """CEL for the value of a label of the object `of`, itself CEL; '' if it is not set."""
    return _entry(f"{of}.metadata.labels", name)


def annotation_cel(of: str, name: str) -> str:
    """CEL for the value of an annotation of the object `of`, itself CEL; '' if it is not set."""
    return _entry(f"{of}.metadata.annotations", name)


def _entry(field: str, name: str) -> str:
    """CEL for the value of a map's entry; empty if it is not set."""
    return f"(has({field}) && '{name}' in {field} ? {field}['{name}'] : '')"


def before_and_after_cel(condition: str) -> str:
    """CEL that is true if a condition on `it` is true of the old object and of the new one.

    On CREATE there is only the new object, on DELETE only the old one.
    """
    before = condition.replace("it.", "oldObject.")
    after = condition.replace("it.", "object.")
    return (
        f"(request.operation == 'CREATE' || ({before})) && "
        f"(request.operation == 'DELETE' || ({after}))"
    )


def unless_updated_cel(*conditions: str) -> str:
    """CEL that is true for any other request than UPDATE, and for one that meets all conditions.

    The conditions are CEL on `oldObject` and `object`.
    """
    return f"request.operation != 'UPDATE' || ({' && '.join(conditions)})"


def unchanged_cel(field: str) -> str:
    """CEL that is true if a field, as `spec` or `metadata.labels`, is equal in old and new object.

    A field that both lack is equal.
    """
    before, after = f"oldObject.{field}", f"object.{field}"
    return f"(has({after}) == has({before}) && (!has({after}) || {after} == {before}))"


def owned_by_cel(author: str) -> str:
    """CEL that is true if the owner key of `it` says that it serves a cluster, given as CEL.

    The key must have the form in which agents write it, without `led`: it is matched as a whole, so
    that it cannot name two clusters.
    """
    text = '"[^"]*"'
    head = f'^[{{]"feature":{text},"key":{text},"for":"'
    tail = f'","kind":{text},"namespace":{text},"name":{text}[}}]$'
    return f"{annotation_cel('it', OWNER_KEY)}.matches('{head}' + {author} + '{tail}')"


def metadata_requirements(sets: Sequence[str]) -> tuple[Requirement, ...]:
    """Two requirements on the fields of METADATA that are not in `sets`: an UPDATE keeps them.

    On CREATE those of them that are ownerReferences or finalizers have to be empty.
    """
    frozen = [field for field in METADATA if field not in sets]
    same = " && ".join(unchanged_cel(f"metadata.{field}") for field in frozen)
    never = [f for f in ("ownerReferences", "finalizers") if f in frozen]
    none = " && ".join(
        f"(!has(object.metadata.{f}) || object.metadata.{f}.size() == 0)" for f in never
    )
    return (
        Requirement(
            f"metadata that others act on cannot be changed: {', '.join(frozen)}",
            f"request.operation != 'UPDATE' || ({same})",
        ),
        Requirement(
            f"it is created without {' and '.join(never)}",
            f"request.operation != 'CREATE' || ({none})",
        ),
    )


def user_namespace(*reserved: str) -> Requirement:
    """The requirement that a request's namespace is not kube-*, and not one of these."""
    names = ", ".join(f"'{name}'" for name in reserved)
    return Requirement(
        "the namespace is a user's: not kube-*, and none of Hanse's own",
        f"!request.namespace.startsWith('kube-') && !(request.namespace in [{names}])",
    )


IN_USER_NAMESPACE = user_namespace(*SYSTEM_NAMESPACES, HOME, ACCOUNTS)
"""Where people, and members for them, submit on a broker."""

OWN_DOTTED_NAME = Requirement(
    "a name with a dot begins with the writer's id, so that nobody takes another's names",
    "request.operation != 'CREATE' || !object.metadata.name.contains('.') || "
    "object.metadata.name.startsWith(variables.me + '.')",
)
OUTSIDE_KUBE = Requirement("the namespace is not kube-*", "!request.namespace.startsWith('kube-')")


def own_event(instance: str) -> Requirement:
    """The requirement that an Event, old and new, has reportingComponent `hanse`, and is one's own.

    `instance`, CEL on the Event `it`, decides the latter; reportingInstance has to be set.
    """
    return Requirement(
        "reportingComponent is hanse and reportingInstance is the writer's id, before and after",
        before_and_after_cel(
            "has(it.reportingComponent) && it.reportingComponent == 'hanse' && "
            f"has(it.reportingInstance) && {instance}"
        ),
        "'reportingComponent must be hanse, and reportingInstance the cluster of ' + variables.me "
        "+ ': nobody tells Events of others'",
    )


OWN_EVENT = own_event("it.reportingInstance == variables.me")

TOKENS = Kind("", "v1", "TokenRequest", "serviceaccounts")
"""The kind of requests for tokens; their resource has the subresource `token`."""

OWN_TOKEN = Requirement(
    "the account is the writer's own",
    "request.name == variables.me",
    "'the token must be for ' + variables.me + ': an account speaks for itself only'",
)
BOUND_TOKEN = Requirement(
    "a token is bound to a Secret of its account, by name, and so is whatever it is used to get: "
    "both end with that",
    "has(object.spec.boundObjectRef) && object.spec.boundObjectRef != null && "
    "has(object.spec.boundObjectRef.kind) && object.spec.boundObjectRef.kind == 'Secret' && "
    "has(object.spec.boundObjectRef.name) && "
    "object.spec.boundObjectRef.name.matches('^' + request.name + '-[0-9a-f]{8}$')",
)
SHORT_TOKEN = Requirement(
    f"a token lives for at most {MAX_TOKEN_SECONDS // 86400} days",
    f"!has(object.spec.expirationSeconds) || object.spec.expirationSeconds <= {MAX_TOKEN_SECONDS}",
)
