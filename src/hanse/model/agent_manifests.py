"""The objects of an agent in its own cluster: namespaces, its account, and rights by feature."""

from collections.abc import Mapping, Sequence

from hanse.model.facts import Role
from hanse.model.feature_names import FEATURES, with_required
from hanse.model.kinds.federation import SYSTEM
from hanse.model.manifests import (
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    Manifest,
    Subject,
    binding_manifests,
    manifest,
    namespace,
    role_manifests,
)
from hanse.model.naming import AGENT, BROKER_SECRET, SLOT_LEASES, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.rbac import (
    RbacRule,
    Right,
    agent_rights,
    lease_rights,
    watch_rights,
    without_covered,
)
from hanse.model.snapshot import Watch

FEATURE = "hanse.dev/feature"
"""Label of roles and bindings: the feature that they are for."""

FEATURES_GRANTED = "hanse.dev/features"
"""Annotation of the agent's ServiceAccount: the features that it has rights for."""

BASE = "agent"
"""The name of what every agent has, whatever features it runs."""

WatchesByFeature = Mapping[str, Sequence[Watch]]
"""The watches of features by their names; those of `BASE` are every agent's."""

_ROLES = (Role.LOCAL, Role.MEMBER, Role.LED)
"""A supervisor's agent may lead its own cluster, so it has a leader's rights there."""


def rights_by_feature(
    watches: WatchesByFeature, cluster: ClusterId, system: str = SYSTEM_NAMESPACE
) -> dict[str, list[Right]]:
    """The rights of an agent in its own cluster, by feature; what every agent has comes first.

    A feature's rights are those that the agent does not have anyway. The only Secret that an agent
    may read and patch by itself is the one with the broker's kubeconfig. `system` is its namespace.
    """
    token = Right(
        RbacRule(system, "", SECRET.plural, ("get", "patch"), (BROKER_SECRET,)),
        ("the token for the broker, which the agent renews, only with a Secret that has it",),
        is_special=True,
    )
    base = [*agent_rights(watches.get(BASE, ()), [(system, AGENT)]), token]
    by_feature = {BASE: base}
    for feature, watched in watches.items():
        if feature != BASE:
            needed = (
                *watch_rights(watched, *_ROLES),
                *lease_rights(_leases(feature, cluster, system)),
            )
            by_feature[feature] = [*without_covered(needed, base)]
    return by_feature


def _leases(feature: str, cluster: ClusterId, system: str) -> list[tuple[str, str]]:
    """Namespace and name of the Leases that a feature holds in its own cluster.

    For `membership` the one named like the cluster, in the federation's namespace; for `networks`
    all SLOT_LEASES, in the agent's namespace; none for other features.
    """
    match feature:
        case "membership":
            return [(SYSTEM, cluster)]
        case "networks":
            return [(system, name) for name in SLOT_LEASES]
        case _:
            return []


def base_manifests(rights: Sequence[Right], features: str) -> tuple[Manifest, ...]:
    """The objects that every agent has: namespace, ServiceAccount, and bound roles of these rights.

    The account's annotation `hanse.dev/features` is `features`, a comma-separated list.
    """
    return (
        namespace(SYSTEM_NAMESPACE),
        manifest(
            SERVICE_ACCOUNT, AGENT, SYSTEM_NAMESPACE, annotations={FEATURES_GRANTED: features}
        ),
        *_bound_roles(BASE, rights),
    )


def granted_features(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The features in the annotation of an agent's ServiceAccount, and those they need.

    All features if there is no annotation or it names none.
    """
    return with_required(annotations.get(FEATURES_GRANTED, "").split(",")) or FEATURES


def feature_namespaces(rights: Sequence[Right]) -> tuple[str, ...]:
    """The namespaces, sorted, in which a feature has rights; not the agent's own, nor "" (all)."""
    return tuple(sorted({r.rule.namespace for r in rights} - {"", SYSTEM_NAMESPACE}))


def feature_manifests(feature: str, rights: Sequence[Right]) -> tuple[Manifest, ...]:
    """The roles and bindings of one feature; its namespaces have to exist."""
    return _bound_roles(feature, rights)


def agent_manifests(watches: WatchesByFeature, cluster: ClusterId) -> tuple[Manifest, ...]:
    """The namespaces, ServiceAccount, roles and bindings of an agent in its own cluster.

    They are for the features that `watches` names; there is no Deployment among them.
    """
    rights = rights_by_feature(watches, cluster)
    features = {name: granted for name, granted in rights.items() if name != BASE}
    names = sorted({n for granted in features.values() for n in feature_namespaces(granted)})
    return (
        *base_manifests(rights[BASE], ",".join(name for name in FEATURES if name in features)),
        *(namespace(name) for name in names),
        *(m for name, granted in features.items() for m in feature_manifests(name, granted)),
    )


def outdated_manifests(
    every: WatchesByFeature, wanted: Sequence[Manifest], cluster: ClusterId
) -> tuple[Manifest, ...]:
    """Roles and bindings of `every` feature and of earlier versions that are not `wanted`.

    They are computed, whether a cluster has them or not; bindings come first, to be deleted so.
    """
    kept = {(m.kind, m.namespace, m.name) for m in wanted}
    granted = rights_by_feature(every, cluster)
    everything = [m for name, rights in granted.items() for m in _bound_roles(name, rights)]
    former = [
        manifest(kind, AGENT, name)
        for name in sorted({n for rights in granted.values() for n in feature_namespaces(rights)})
        for kind in (ROLE, ROLE_BINDING)
    ]
    old = [m for m in (*everything, *former) if (m.kind, m.namespace, m.name) not in kept]
    return tuple(sorted(old, key=lambda m: not m.kind.name.endswith("Binding")))


def role_name(feature: str) -> str:
    """The name of a feature's roles and bindings: `hanse-agent-<feature>`, or AGENT for BASE."""
    return AGENT if feature == BASE else f"{AGENT}-{feature}"


def _bound_roles(feature: str, rights: Sequence[Right]) -> tuple[Manifest, ...]:
    """Roles with these rights, bound to the agent's account and labelled by the feature."""
    name, rules = role_name(feature), [right.rule for right in rights]
    labels = {FEATURE: feature}
    subject = Subject(AGENT, SYSTEM_NAMESPACE)
    return (
        *role_manifests(name, rules, labels),
        *binding_manifests(name, name, rules, subject, labels),
    )
