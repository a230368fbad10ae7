"""The ServiceAccounts of agents in a scenario, with their generated RBAC rules."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from hanse.features.federation import manifests
from hanse.model.agent_manifests import BASE, rights_by_feature
from hanse.model.facts import Role
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature
from hanse.model.rbac import RbacRule, Right, rbac_rules, watch_rights
from hanse.model.snapshot import Watch
from hanse.runtime.pause import PAUSE_WATCHES
from tests.support import service_accounts
from tests.support.service_accounts import Account


def rules_of(
    features: Iterable[Feature],
    cluster: ClusterId,
    role: Role,
    system: str,
    names: Sequence[Watch] = (),
) -> tuple[RbacRule, ...]:
    """The RBAC rules of an agent in its own cluster or on the broker.

    In its own cluster it may also be the leader. `names` are what a name server beside it watches.
    """
    chosen = tuple(features)
    if role is Role.LOCAL:
        by_feature = rights_at_home(chosen, cluster, system, names)
        return tuple(right.rule for rights in by_feature.values() for right in rights)
    own = (watch for feature in chosen for watch in feature.watches)
    watches = [*own, *names, *PAUSE_WATCHES]
    return rbac_rules(watches, role, leases=[(BROKER_NAMESPACE, cluster)])


def rights_at_home(
    features: Iterable[Feature], cluster: ClusterId, system: str, names: Sequence[Watch] = ()
) -> dict[str, list[Right]]:
    """The rights of an agent in its own cluster, by feature; also those of a name server."""
    rights = rights_by_feature(watches_by_feature(features), cluster, system)
    return {**rights, "dns": list(watch_rights(names, Role.LOCAL))} if names else rights


def watches_by_feature(features: Iterable[Feature]) -> dict[str, tuple[Watch, ...]]:
    """The watches of features by their names, and those of every agent."""
    return {BASE: PAUSE_WATCHES, **{feature.name: feature.watches for feature in features}}


def supervisor_account(
    features: Iterable[Feature], member: ClusterId, supervisor: ClusterId
) -> Account:
    """The account of a supervisor in a member."""
    watches = [watch for feature in features for watch in feature.watches]
    account = account_with(manifests.rules_for(watches, member, supervisor), member, SYSTEM)
    return structs.replace(account, name=manifests.account_name(supervisor))


def account_of(
    features: Iterable[Feature],
    cluster: ClusterId,
    role: Role,
    system: str,
    only: Callable[[RbacRule], bool] = lambda _: True,
    names: Sequence[Watch] = (),
) -> Account:
    """The account of an agent in its own cluster or on the broker, with selected rules."""
    rules = [rule for rule in rules_of(features, cluster, role, system, names) if only(rule)]
    name = cluster if role is Role.LOCAL else f"{cluster}-on-{role}"  # one server may be both
    return account_with(rules, name, system)


def account_with(rules: Iterable[RbacRule], cluster: ClusterId, system: str) -> Account:
    """The account of a cluster's agent with just these rules."""
    everywhere: list[service_accounts.Rule] = []
    inside: dict[str, tuple[service_accounts.Rule, ...]] = {}
    for rule in rules:
        if rule.namespace:
            inside[rule.namespace] = (*inside.get(rule.namespace, ()), rule.wire())
        else:
            everywhere.append(rule.wire())
    return Account(f"agent-of-{cluster}", system, tuple(everywhere), inside)
