"""Nobody grants more than they hold, unless they may `escalate` the role or `bind` to it."""

from tinykube.errors import not_allowed, not_found
from tinykube.handlers.calls import Call
from tinykube.rbac.attributes import Attributes
from tinykube.rbac.authorizer import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
    Authorizer,
    is_privileged,
)
from tinykube.rbac.rules import FULL_AUTHORITY, Rule, missing_rights, quoted_list, rules_of
from tinykube.resources import Object

_ROLES = frozenset((ROLES, CLUSTER_ROLES))
_BINDINGS = frozenset((ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS))
_GC_FIELDS = ("ownerReferences", "finalizers", "resourceVersion", "generation", "managedFields")


def check_grants(authorizer: Authorizer, call: Call, new: Object, old: Object | None) -> None:
    """Raise 403 if a write of a role or binding grants rights that the user does not hold.

    404 for a binding to a role that does not exist. Nothing for other resources, changes of owners
    and finalizers alone, privileged users, and those who may `escalate` or `bind`.
    """
    store = call.resource.store
    if (store not in _ROLES and store not in _BINDINGS) or is_privileged(call.user):
        return
    if old is not None and _without_gc_fields(new) == _without_gc_fields(old):
        return
    if store in _ROLES:
        _check_role(authorizer, call, new, old)
    else:
        _check_binding(authorizer, call, new)


def _check_role(authorizer: Authorizer, call: Call, new: Object, old: Object | None) -> None:
    """Raise 403 for a role with rules that the user does not have, unless they may escalate.

    An aggregationRule, before or after the write, requires all rights.
    """
    if authorizer.allows(call.user, _attributes(call, "escalate", call.resource.plural)):
        return
    namespace = call.target.namespace
    held = authorizer.rules_for(call.user, namespace)
    _require(call, new, held, rules_of(new))
    aggregates = any(side is not None and side.get("aggregationRule") for side in (new, old))
    if aggregates and missing_rights(held, FULL_AUTHORITY):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise not_allowed(call.resource, new["metadata"].get("name", ""), why)


def _check_binding(authorizer: Authorizer, call: Call, new: Object) -> None:
    """Unless the user may `bind` to the role, raise 404 without it, 403 for rules they lack."""
    reference, namespace = new.get("roleRef") or {}, call.target.namespace
    plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
    name = reference.get("name", "")
    if authorizer.allows(call.user, _attributes(call, "bind", plural, name)):
        return
    role = authorizer.referenced_role({"name": "", **reference}, namespace)
    if role is None:
        raise not_found(call.resource, name)  # the API server names the role so
    _require(call, new, authorizer.rules_for(call.user, namespace), rules_of(role))


def _require(call: Call, obj: Object, held: list[Rule], asked: tuple[Rule, ...]) -> None:
    """Raise 403 if a user would grant rules beyond those they hold."""
    missing = sorted({rule.text for rule in missing_rights(held, asked)})
    if missing:
        why = (
            f'user "{call.user.name}" (groups={quoted_list(call.user.groups)}) is attempting to '
            "grant RBAC permissions not currently held:\n" + "\n".join(missing)
        )
        raise not_allowed(call.resource, obj["metadata"].get("name", ""), why)


def _attributes(call: Call, verb: str, plural: str, name: str = "") -> Attributes:
    """The attributes of a verb on RBAC objects, by default on the target of the call."""
    target = call.target
    return Attributes(
        verb,
        group=RBAC_GROUP,
        resource=plural,
        namespace=target.namespace,
        name=name or target.name,
    )


def _without_gc_fields(obj: Object) -> Object:
    """A copy without owners, finalizers, and the metadata that every write changes."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _GC_FIELDS}
    return {**obj, "metadata": metadata}
