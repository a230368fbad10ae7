"""The ServiceAccounts of agents in a scenario, with the rights that are generated for them."""

from collections.abc import Callable, Iterable

from hanse.engine.leaders import AGENT_LEASE
from hanse.engine.pause import PAUSE_WATCHES
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.local.real import accounts
from hanse.local.real.accounts import Account
from hanse.model.facts import Role
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature
from hanse.model.rights import Rule, rights


def rules_of(
    features: Iterable[Feature], cluster: ClusterId, role: Role, system: str
) -> tuple[Rule, ...]:
    """All that a cluster's agent with these features may do at home or on the broker."""
    watches = [watch for feature in features for watch in feature.watches]
    lease = (system, AGENT_LEASE) if role is Role.LOCAL else (BROKER_NAMESPACE, cluster)
    return rights([*watches, *PAUSE_WATCHES], role, leases=[lease])


def account_of(
    features: Iterable[Feature],
    cluster: ClusterId,
    role: Role,
    system: str,
    only: Callable[[Rule], bool] = lambda _: True,
) -> Account:
    """The account of a cluster's agent at home or on the broker, with all its rules or some."""
    rules = [rule for rule in rules_of(features, cluster, role, system) if only(rule)]
    return account_with(rules, cluster, system)


def account_with(rules: Iterable[Rule], cluster: ClusterId, system: str) -> Account:
    """The account of a cluster's agent with just these rules."""
    everywhere: list[accounts.Rule] = []
    inside: dict[str, tuple[accounts.Rule, ...]] = {}
    for rule in rules:
        if rule.namespace:
            inside[rule.namespace] = (*inside.get(rule.namespace, ()), rule.wire())
        else:
            everywhere.append(rule.wire())
    return Account(f"agent-of-{cluster}", system, tuple(everywhere), inside)
