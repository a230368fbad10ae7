"""Gives every aggregated ClusterRole the rules of the ClusterRoles that it selects."""

from collections.abc import Iterable

from tinykube.controllers.controller import DONE, Key, Lister, Patch, Result
from tinykube.controllers.objects import is_deleting, name_of
from tinykube.rbac.authorizer import CLUSTER_ROLES
from tinykube.resources import Object
from tinykube.selectors import matches_labels
from tinykube.storage import Change


class ClusterRoleAggregationController:
    """Enqueues the aggregated roles at every change of a ClusterRole."""

    name = "clusterrole-aggregation"
    watches = frozenset((CLUSTER_ROLES,))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:  # noqa: ARG002 - the contract's
        """The keys of all aggregated roles: any of them may select the changed one."""
        for role in lister.objects(CLUSTER_ROLES):
            if role.get("aggregationRule"):
                yield Key(CLUSTER_ROLES, "", name_of(role))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The patch of an aggregated role's rules, if those of the selected roles differ.

        Nothing for a role that is absent, terminating or not aggregated.
        """
        role = lister.get(CLUSTER_ROLES, "", key.name)
        if role is None or not role.get("aggregationRule") or is_deleting(role):
            return DONE
        rules = _aggregated_rules(role, lister)
        if rules == (role.get("rules") or []):
            return DONE
        return Result((Patch(CLUSTER_ROLES, role, {"rules": rules}),))


def _aggregated_rules(role: Object, lister: Lister) -> list[Object]:
    """The rules of the other roles that are selected, each once, by selector and then by name."""
    rules: list[Object] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for other in lister.objects(CLUSTER_ROLES):
            if name_of(other) == name_of(role):
                continue
            if matches_labels(selector, other["metadata"].get("labels") or {}):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
