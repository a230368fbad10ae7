"""The ServiceAccount of a leader in a member cluster, with the rights that it needs."""

from collections.abc import Iterable

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.write_rules import ACCOUNT, LEADER_RULES
from hanse.model.admission_policies import PolicyScope, policy_manifests
from hanse.model.facts import Role
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.manifests import (
    SERVICE_ACCOUNT,
    Manifest,
    Subject,
    binding_manifests,
    manifest,
    namespace,
    role_manifests,
)
from hanse.model.rbac import RbacRule, rbac_rules
from hanse.model.snapshot import Watch


def leader_account(account: str) -> tuple[Manifest, ...]:
    """The manifests for a member cluster: namespace, ServiceAccount, its roles and write rules."""
    rules = leader_rights(account, Gslb().watches)
    name = f"hanse-{account}"
    subject = Subject(account, NAMESPACE)
    return (
        namespace(NAMESPACE),
        manifest(SERVICE_ACCOUNT, account, NAMESPACE),
        *policy_manifests(
            LEADER_RULES,
            PolicyScope(name, (f"{NAMESPACE}:{account}",), values={ACCOUNT: account}),
        ),
        *role_manifests(name, rules),
        *binding_manifests(name, name, rules, subject, {}),
    )


def leader_rights(account: str, watches: Iterable[Watch]) -> tuple[RbacRule, ...]:
    """What a leader's account may do in a site: what the watches need, and tokens of its own."""
    own_token = RbacRule(NAMESPACE, "", "serviceaccounts/token", ("create",), (account,))
    return (*rbac_rules(watches, Role.SITE), own_token)
