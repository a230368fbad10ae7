"""The manifests that make an API server a broker, and a cluster its member."""

from base64 import b64encode
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from hanse.model import naming
from hanse.model.admission_policies import PolicyScope, policy_manifests
from hanse.model.broker_namespace import GIVEN_UP, MEMBER, accounts_namespace
from hanse.model.clusterset import CLUSTER_UID
from hanse.model.facts import Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterSet,
    ClusterSetSpec,
    Profile,
)
from hanse.model.manifests import (
    SECRET,
    SERVICE_ACCOUNT,
    Manifest,
    Subject,
    binding_manifests,
    create_only,
    manifest,
    namespace,
    role_manifests,
)
from hanse.model.naming import BROKER_SECRET, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId, Meta, Wire
from hanse.model.rbac import RbacRule
from hanse.model.tokens import TokenAccount
from hanse.model.write_rules import (
    ACCOUNTS,
    HOME,
    FeatureAccess,
    WriteRule,
    granted_rules,
)

KUBECONFIG = "kubeconfig"
SERVICES = "services"
"""The feature that every member has."""

CLUSTER_ID = "hanse.dev/cluster-id"
"""Annotation of the Secret: the id under which the cluster joined."""

BROKER_UID = "hanse.dev/broker-uid"
"""Annotation of the Secret: the uid of kube-system of the broker that it is for."""

FEATURES = "hanse.dev/features"
"""Annotation of a member's account: the features that it has rights for, parted by commas."""

FIRST_LEASE_SECONDS = 3600
"""Duration of the Lease of a member that has joined and not renewed it yet."""

RESERVED = ("broker", "default")
"""Ids that no cluster may have: the broker's own, and that of a namespace's default account."""


class BrokerCredentials(Struct, frozen=True):
    """URL and credentials with which a member's agent connects to the broker."""

    server: str
    token: str
    authority: bytes = b""
    server_name: str = ""
    insecure: bool = False

    def __repr__(self) -> str:
        """The server only: the token must not get into logs."""
        return f"BrokerCredentials({self.server!r}, <secret>)"


def cluster_id_error(cluster: ClusterId) -> str:
    """What is wrong with a cluster's id, and what to do; empty if it is valid.

    It must be a DNS label (RFC 1123), and neither `broker` nor `default`.
    """
    if not naming.CLUSTER_ID.fullmatch(cluster):
        return (
            f"cluster id {cluster!r} is not a DNS label; use up to 63 lower-case letters, "
            "digits and dashes, with a letter or digit at both ends"
        )
    if cluster in RESERVED:
        return f"cluster id {cluster!r} is taken by the broker itself; choose another"
    return ""


def broker_rules(access: FeatureAccess, broker_namespace: str) -> tuple[RbacRule, ...]:
    """The RBAC rules on the broker that every member with a feature has.

    Those for objects named like the member are not among them: `own_rules` has them. Raises
    MissingWriteRule if no write rule covers what a watch declares to write.
    """
    placed = _placed(broker_namespace)
    return granted_rules(access, Role.BROKER, placed=placed, name="")


def own_rules(
    access: Iterable[FeatureAccess], broker_namespace: str, cluster: ClusterId
) -> tuple[RbacRule, ...]:
    """The RBAC rules on the broker for one member only: those limited to objects named like it."""
    rules = tuple(rule for each in access for rule in each.rules)
    named = FeatureAccess("", (), rules)
    granted = granted_rules(named, Role.BROKER, placed=_placed(broker_namespace), name=cluster)
    return tuple(rule for rule in granted if rule.names == (cluster,))


def broker(access: Sequence[FeatureAccess], broker_namespace: str) -> tuple[Manifest, ...]:
    """The namespaces, admission policies and members' roles that make an API server a broker.

    A role for each feature; our CRDs, the ClusterSet and the members are not among the objects.
    """
    return (
        namespace(broker_namespace),
        namespace(accounts_namespace(broker_namespace)),
        *broker_policies((rule for each in access for rule in each.rules), broker_namespace),
        *(
            made
            for each in access
            for made in role_manifests(
                _member_role(broker_namespace, each.feature), broker_rules(each, broker_namespace)
            )
        ),
    )


def broker_policies(rules: Iterable[WriteRule], broker_namespace: str) -> tuple[Manifest, ...]:
    """The admission policies of a broker, with their bindings, by write rules.

    They hold ServiceAccounts of the namespace of accounts and of the broker's own; in the broker's
    own namespace also those of `hanse-system`, which are agents of the broker's own cluster.
    """
    accounts = accounts_namespace(broker_namespace)
    scope = PolicyScope(
        broker_namespace,
        (f"{accounts}:", f"{broker_namespace}:"),
        (f"{SYSTEM_NAMESPACE}:",),
        _placed(broker_namespace),
    )
    return policy_manifests(rules, scope)


def cluster_set(profile: Profile) -> Manifest:
    """The ClusterSet `default` of a new broker, with this profile; an existing one is kept."""
    spec = ClusterSetSpec(profile=profile)
    return create_only(ClusterSet(metadata=Meta(name="default"), spec=spec))


def member(
    access: Sequence[FeatureAccess],
    broker_namespace: str,
    cluster: ClusterId,
    uid: str,
    *,
    new: bool,
) -> tuple[Manifest, ...]:
    """The objects of one member on the broker: account and its namespace, rights, record, Lease.

    With `new` the Lease has no holder and a long duration, so that a member that has just joined
    does not count as dead before its agent first renews it; else the Lease's spec is left to the
    agent.
    """
    labels = {MEMBER: cluster}
    accounts = accounts_namespace(broker_namespace)
    account = Subject(cluster, accounts)
    own_role = f"{broker_namespace}:{cluster}"
    own = own_rules(access, broker_namespace, cluster)
    body = {"spec": {"leaseDurationSeconds": FIRST_LEASE_SECONDS}} if new else {}
    annotations = {CLUSTER_UID: uid}
    lease = manifest(
        Lease.kind, cluster, broker_namespace, body=body, labels=labels, annotations=annotations
    )
    return (
        namespace(accounts),
        *(
            made
            for each in access
            for made in _feature_rights(each, broker_namespace, account, labels)
        ),
        *role_manifests(own_role, own),
        manifest(
            SERVICE_ACCOUNT,
            cluster,
            accounts,
            labels=labels,
            annotations={
                CLUSTER_UID: uid,
                FEATURES: ",".join(each.feature for each in access),
                GIVEN_UP: "false",
            },
        ),
        *binding_manifests(own_role, own_role, own, account, labels),
        member_record(broker_namespace, cluster, uid),
        lease,
    )


def member_account(broker: str, broker_namespace: str, cluster: ClusterId) -> TokenAccount:
    """The account of a member on a broker, whose tokens are issued to its agent."""
    return TokenAccount(broker, accounts_namespace(broker_namespace), cluster, {MEMBER: cluster})


def member_record(broker_namespace: str, cluster: ClusterId, uid: str) -> Manifest:
    """The ClusterMember of a member with its uid; its agent writes the other fields."""
    spec = msgspec.to_builtins(ClusterMemberSpec(cluster_id=cluster, uid=uid))
    labels = {MEMBER: cluster}
    return manifest(
        ClusterMember.kind, cluster, broker_namespace, body={"spec": spec}, labels=labels
    )


def former_member(broker_namespace: str, cluster: ClusterId) -> tuple[Manifest, ...]:
    """What a member that was given up keeps on the broker: an account that may read its own record.

    Its agent finds there that it has left, and may patch the status of the record to say when it
    has withdrawn what it wrote at home. The account is annotated as given up.
    """
    kind, role = ClusterMember.kind, f"{broker_namespace}:{cluster}"
    rules = (
        RbacRule(broker_namespace, kind.group, kind.plural, ("get",), (cluster,)),
        RbacRule(broker_namespace, kind.group, f"{kind.plural}/status", ("patch",), (cluster,)),
    )
    account = Subject(cluster, accounts_namespace(broker_namespace))
    labels = {MEMBER: cluster}
    return (
        *role_manifests(role, rules, labels),
        manifest(
            SERVICE_ACCOUNT,
            account.name,
            account.namespace,
            labels=labels,
            annotations={GIVEN_UP: "true"},
        ),
        *binding_manifests(role, role, rules, account, labels),
    )


def _feature_rights(
    access: FeatureAccess, broker_namespace: str, account: Subject, labels: dict[str, str]
) -> tuple[Manifest, ...]:
    """The role of a feature, and its binding to a member's account."""
    role = _member_role(broker_namespace, access.feature)
    rules = broker_rules(access, broker_namespace)
    name = role.replace(":member", f":{account.name}:member", 1)
    return (*role_manifests(role, rules), *binding_manifests(name, role, rules, account, labels))


def broker_secret(
    cluster: ClusterId, broker_namespace: str, credentials: BrokerCredentials, broker_uid: str
) -> Manifest:
    """The Secret `hanse-broker` in `hanse-system` of a member, with the broker's kubeconfig.

    Its annotations have the id of the cluster and the uid of the broker. The member's agent reloads
    it when it changes.
    """
    text = msgspec.json.encode(
        _broker_kubeconfig(cluster, broker_namespace, credentials)
    )  # JSON is YAML
    return manifest(
        SECRET,
        BROKER_SECRET,
        SYSTEM_NAMESPACE,
        body={"type": "Opaque", "data": {KUBECONFIG: b64encode(text).decode()}},
        annotations={CLUSTER_ID: cluster, BROKER_UID: broker_uid},
    )


def _placed(broker_namespace: str) -> dict[str, str]:
    """The actual namespaces for the placeholders HOME and ACCOUNTS of write rules."""
    return {HOME: broker_namespace, ACCOUNTS: accounts_namespace(broker_namespace)}


def _member_role(broker_namespace: str, feature: str) -> str:
    """The name of the role for members with a feature; for `services` it has no feature in it."""
    base = f"{broker_namespace}:member"
    return base if feature == SERVICES else f"{base}:{feature}"


def _broker_kubeconfig(
    cluster: ClusterId, broker_namespace: str, credentials: BrokerCredentials
) -> Wire:
    """A kubeconfig with one context for the broker, whose user is the cluster with its token.

    The authority, the TLS server name and the insecure flag are in it only if they are set.
    """
    server: Wire = {"server": credentials.server}
    if credentials.authority:
        server["certificate-authority-data"] = b64encode(credentials.authority).decode()
    if credentials.server_name:
        server["tls-server-name"] = credentials.server_name
    if credentials.insecure:
        server["insecure-skip-tls-verify"] = True
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "broker",
        "clusters": [{"name": "broker", "cluster": server}],
        "users": [{"name": cluster, "user": {"token": credentials.token}}],
        "contexts": [
            {
                "name": "broker",
                "context": {"cluster": "broker", "user": cluster, "namespace": broker_namespace},
            }
        ],
    }
