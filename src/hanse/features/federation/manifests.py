"""What a federation is made of, object by object, as an administrator would write it."""

from base64 import b64encode
from collections.abc import Iterable, Mapping

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
    bindings,
    manifest,
    namespace,
    roles,
)
from hanse.model.objects import ClusterId, Meta, Wire, to_wire
from hanse.model.rbac import Rule, rights
from hanse.model.snapshot import Watch

ACCOUNT = "hanse-supervisor"
"""The ServiceAccount in a member by which supervisors come in, and its roles."""


def rules_for(watches: Iterable[Watch], cluster: ClusterId) -> tuple[Rule, ...]:
    """All that supervisors may do in a member: see it, write as its leader, renew their token."""
    renewal = Rule(SYSTEM, "", f"{SERVICE_ACCOUNT.plural}/token", ("create",), (ACCOUNT,))
    return (*rights(watches, Role.MEMBER, Role.LED, leases=[(SYSTEM, cluster)]), renewal)


def account(rules: Iterable[Rule]) -> tuple[Manifest, ...]:
    """The account of supervisors in a member, with these rights."""
    held = tuple(rules)
    spaces = sorted({SYSTEM, *(rule.namespace for rule in held if rule.namespace)})
    return (
        *(namespace(space) for space in spaces),
        manifest(SERVICE_ACCOUNT, ACCOUNT, SYSTEM),
        *roles(ACCOUNT, held),
        *bindings(ACCOUNT, ACCOUNT, held, Subject(ACCOUNT, SYSTEM), {}),
    )


def claims(cluster: ClusterId, cluster_set: str, *, supervisor: bool) -> tuple[Manifest, ...]:
    """What a member says about itself."""
    said = {CLUSTER_ID: cluster, CLUSTER_SET: cluster_set}
    if supervisor:
        said[SUPERVISOR] = "true"
    return tuple(_claim(name, value) for name, value in said.items())


def secret_name(member: ClusterId) -> str:
    """The Secret in supervisors by which they reach a member."""
    return f"member-{member}"


def member_secret(member: ClusterId, token: str, authority: bytes) -> Manifest:
    """A member's credentials, as they lie in each supervisor."""
    data = {"token": b64encode(token.encode()).decode()}
    if authority:
        data["ca.crt"] = b64encode(authority).decode()
    body = {"type": "Opaque", "data": data}
    return manifest(SECRET, secret_name(member), SYSTEM, body=body)


def federation(name: str, cluster_set: str, servers: Mapping[ClusterId, str]) -> Manifest:
    """The federation with these members, by the URLs of their API servers."""
    members = tuple(entry(cluster, server) for cluster, server in servers.items())
    return federation_of(name, cluster_set, members)


def federation_of(name: str, cluster_set: str, members: tuple[Member, ...]) -> Manifest:
    """The federation with these members."""
    spec = FederationSpec(cluster_set=cluster_set, members=members)
    return Manifest(Federation.kind, to_wire(Federation(metadata=Meta(name=name), spec=spec)))


def entry(cluster: ClusterId, server: str) -> Member:
    """A member as a Federation names it."""
    return Member(cluster_id=cluster, server=server, secret=secret_name(cluster))


def token_request(seconds: int) -> Wire:
    """What is asked of a ServiceAccount's `token` subresource."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }


def _claim(name: str, value: str) -> Manifest:
    claim = ClusterClaim(metadata=Meta(name=name), value=value)
    return Manifest(ClusterClaim.kind, to_wire(claim))
