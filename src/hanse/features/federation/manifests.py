"""The manifests of a federation: accounts, claims, Secrets and the Federation itself."""

from base64 import b64encode
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from hanse.model.admission_policies import PolicyScope, policy_manifests
from hanse.model.facts import Role
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    CLUSTER_SET,
    SUPERVISOR,
    SYSTEM,
    ClusterClaim,
    Federation,
    FederationSpec,
    Member,
)
from hanse.model.manifests import (
    SECRET,
    SERVICE_ACCOUNT,
    Manifest,
    Subject,
    binding_manifests,
    manifest,
    namespace,
    role_manifests,
)
from hanse.model.objects import ClusterId, Meta, to_wire
from hanse.model.rbac import RbacRule, rbac_rules
from hanse.model.snapshot import Watch
from hanse.model.tokens import TokenAccount
from hanse.model.write_rules import CLUSTER, WriteRule

ACCOUNTS = "hanse-supervisor"
"""The start of the names of supervisors' accounts in a member, and of their policies."""

SUPERVISOR_LABEL = "hanse.dev/supervisor"
"""Label of the objects that belong to the account of one supervisor in a member."""


def account_name(supervisor: ClusterId) -> str:
    """The name of a supervisor's ServiceAccount and roles in a member.

    For an empty supervisor, the name of the account that all supervisors once shared.
    """
    return f"{ACCOUNTS}-{supervisor}" if supervisor else ACCOUNTS


def token_account(member: str, supervisor: ClusterId) -> TokenAccount:
    """The account of a supervisor in a member, whose tokens are issued to its agent."""
    return TokenAccount(member, SYSTEM, account_name(supervisor), {SUPERVISOR_LABEL: supervisor})


def rules_for(
    watches: Iterable[Watch], cluster: ClusterId, supervisor: ClusterId
) -> tuple[RbacRule, ...]:
    """The rights of a supervisor in a member: watch it, write as its leader, renew its token.

    They include the leader's Lease of that member in SYSTEM.
    """
    own = (account_name(supervisor),)
    renewal = RbacRule(SYSTEM, "", f"{SERVICE_ACCOUNT.plural}/token", ("create",), own)
    return (*rbac_rules(watches, Role.MEMBER, Role.LED, leases=[(SYSTEM, cluster)]), renewal)


def account_manifests(rules: Iterable[RbacRule], supervisor: ClusterId) -> tuple[Manifest, ...]:
    """Namespaces, ServiceAccount, roles and bindings: these rights of one supervisor in a member.

    For an empty supervisor those of the account that all supervisors once shared, without label.
    """
    granted, name = tuple(rules), account_name(supervisor)
    namespaces = sorted({SYSTEM, *(rule.namespace for rule in granted if rule.namespace)})
    labels = {SUPERVISOR_LABEL: supervisor} if supervisor else {}
    return (
        *(namespace(scope) for scope in namespaces),
        manifest(SERVICE_ACCOUNT, name, SYSTEM, labels=labels),
        *role_manifests(name, granted, labels),
        *binding_manifests(name, name, granted, Subject(name, SYSTEM), labels),
    )


def supervisor_policies(rules: Iterable[WriteRule], cluster: ClusterId) -> tuple[Manifest, ...]:
    """The admission policies in a member that limit the writes of supervisors to these rules."""
    scope = PolicyScope(ACCOUNTS, (f"{SYSTEM}:{ACCOUNTS}",), values={CLUSTER: cluster})
    return policy_manifests(rules, scope)


def claim_manifests(
    cluster: ClusterId, cluster_set: str, *, supervisor: bool
) -> tuple[Manifest, ...]:
    """The ClusterClaims of a member: id, cluster set, and the supervisor claim if `supervisor`."""
    values = {CLUSTER_ID: cluster, CLUSTER_SET: cluster_set}
    if supervisor:
        values[SUPERVISOR] = "true"
    return tuple(_cluster_claim(name, value) for name, value in values.items())


def secret_name(member: ClusterId) -> str:
    """The name of the Secret with a member's credentials."""
    return f"member-{member}"


def member_secret(member: ClusterId, token: str, authority: bytes) -> Manifest:
    """The Secret with a member's token, and its CA certificate if `authority` is not empty."""
    data = {"token": b64encode(token.encode()).decode()}
    if authority:
        data["ca.crt"] = b64encode(authority).decode()
    body = {"type": "Opaque", "data": data}
    return manifest(SECRET, secret_name(member), SYSTEM, body=body)


def federation(name: str, cluster_set: str, servers: Mapping[ClusterId, str]) -> Manifest:
    """The Federation with these members, by the URLs of their API servers.

    Each member's Secret has the default name, `secret_name`.
    """
    members = tuple(member_entry(cluster, server) for cluster, server in servers.items())
    return federation_with_members(name, cluster_set, members)


def federation_with_members(name: str, cluster_set: str, members: tuple[Member, ...]) -> Manifest:
    """The Federation with these member entries."""
    spec = FederationSpec(set_as_written=cluster_set, members=members)
    return Manifest(Federation.kind, to_wire(Federation(metadata=Meta(name=name), spec=spec)))


def keep_as_written(wanted: Manifest, found: FederationSpec) -> Manifest:
    """The wanted Federation; ids and a set name that `found` has, too, are spelled as there.

    Members and other fields are the wanted ones.
    """
    spec = msgspec.convert(wanted.wire["spec"], FederationSpec)
    ids = {member.cluster_id: member.id_as_written for member in found.members}
    members = tuple(
        replace(one, id_as_written=ids.get(one.cluster_id, one.id_as_written))
        for one in spec.members
    )
    same_set = found.cluster_set == spec.cluster_set
    kept = replace(
        spec,
        set_as_written=found.set_as_written if same_set else spec.set_as_written,
        members=members,
    )
    return replace(wanted, wire={**wanted.wire, "spec": msgspec.to_builtins(kept)})


def member_entry(cluster: ClusterId, server: str) -> Member:
    """The entry of a member in a Federation, with the default name of its Secret."""
    return Member(id_as_written=cluster, server=server, secret=secret_name(cluster))


def _cluster_claim(name: str, value: str) -> Manifest:
    claim = ClusterClaim(metadata=Meta(name=name), value=value)
    return Manifest(ClusterClaim.kind, to_wire(claim))
