"""The rights, kinds and namespaces of an installation, each with the features that need it."""

from collections.abc import Iterable, Sequence

from hanse import app
from hanse.cli.manifests.value_source import ALWAYS, ChartFile, Condition, ValueSource
from hanse.cli.manifests.values import Values
from hanse.model.agent_manifests import (
    BASE,
    base_manifests,
    feature_manifests,
    feature_namespaces,
    rights_by_feature,
)
from hanse.model.crds import crds
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.feature_names import ADMISSION, FEATURES, HOOKED, needed_by
from hanse.model.manifests import (
    SERVICE_ACCOUNT,
    Manifest,
    Subject,
    binding_manifests,
    manifest,
    namespace,
    role_manifests,
)
from hanse.model.naming import DNS, SYSTEM_NAMESPACE
from hanse.model.objects import Object, Wire
from hanse.model.rbac import Right, rbac_rules, watch_rights, without_covered


def rights_files() -> tuple[ChartFile, ...]:
    """The chart files of the agent's account, of features' namespaces, and of features' rights.

    Those of a namespace or a feature are conditional on the features that need them.
    """
    rights = _agent_rights("")
    spaces: dict[str, set[str]] = {}
    for feature, granted in rights.items():
        for name in feature_namespaces(granted):
            spaces.setdefault(name, set()).update(_condition(feature).features)
    return (
        ChartFile("rights", _base_objects),
        *(
            ChartFile(
                f"namespace-{name}",
                lambda _, name=name: [namespace(name).wire],  # type: ignore[misc]
                Condition(features=_ordered(users)),
            )
            for name, users in sorted(spaces.items())
        ),
        *(
            ChartFile(
                f"rights-{feature}",
                lambda values, feature=feature: _feature_objects(values, feature),  # type: ignore[misc]
                _condition(feature),
            )
            for feature in rights
            if feature != BASE
        ),
    )


def crd_files() -> tuple[ChartFile, ...]:
    """A chart file for the CRD of each of our kinds that features watch outside a broker.

    It is conditional on these features.
    """
    users: dict[type[Object], set[str]] = {}
    for feature in FEATURES:
        for kind in app.own_kinds(app.Options(features=(feature,))):
            users.setdefault(kind, set()).add(feature)
    return tuple(
        ChartFile(
            f"crd-{definition['metadata']['name']}",
            lambda _, definition=definition: [definition],  # type: ignore[misc]
            Condition(features=_ordered(features)),
        )
        for kind, features in users.items()
        for definition in crds([kind])
    )


def dns_rights_files() -> tuple[ChartFile, ...]:
    """The chart files of the name server's account, and of what it may read, one per feature.

    All need the value `dns.enabled`, the latter also their feature.
    """
    base = watch_rights((), Role.LOCAL)
    return (
        ChartFile("dns-rights", lambda _: _wires(_dns_base()), Condition("dns.enabled")),
        *(
            ChartFile(
                f"dns-rights-{feature}",
                lambda _, feature=feature, granted=granted: _wires(  # type: ignore[misc]
                    _dns_roles(f"{DNS}-{feature}", without_covered(granted, base))
                ),
                Condition("dns.enabled", (feature,)),
            )
            for feature, granted in _dns_rights().items()
        ),
    )


def rights_of(values: Values) -> dict[str, list[Right]]:
    """The agent's rights by feature, of those that the values switch on, webhooks included.

    Those that every agent has are under `BASE`.
    """
    return {
        feature: rights
        for feature, rights in _agent_rights(values.cluster_id).items()
        if _condition(feature).holds(values)
    }


def _agent_rights(cluster: str) -> dict[str, list[Right]]:
    """The rights of an agent in its own cluster, by feature; all features are on.

    Those that every agent has are under `BASE`.
    """
    return rights_by_feature(app.watches_by_feature(), cluster)


def _base_objects(values: ValueSource) -> list[Wire]:
    """The agent's namespace and account, and the rights that every agent has, as JSON values."""
    rights = _agent_rights(values.value("clusterId"))[BASE]
    return _wires(base_manifests(rights, values.joined("features")))


def _feature_objects(values: ValueSource, feature: str) -> list[Wire]:
    """The roles and bindings of a feature of the agent, as JSON values."""
    return _wires(feature_manifests(feature, _agent_rights(values.value("clusterId"))[feature]))


def _condition(feature: str) -> Condition:
    """When the rights of a feature are installed: with any feature that requires it; `BASE` always.

    Those of webhooks with `webhooks.enabled` and any feature that has webhooks.
    """
    if feature == BASE:
        return ALWAYS
    if feature == ADMISSION:
        users = {name for hooked in HOOKED for name in needed_by(hooked)}
        return Condition("webhooks.enabled", _ordered(users))
    return Condition(features=needed_by(feature))


def _dns_rights() -> dict[str, tuple[Right, ...]]:
    """The rights to read that the DNS server needs, by feature, in the order of `FEATURES`.

    Features whose names it reads nothing for are left out.
    """
    view = View("all", global_zones=("example.com",))
    found: dict[str, tuple[Right, ...]] = {}
    for feature in FEATURES:
        sources = app.zone_sources(view, app.Options(features=(feature,)))
        watches = [watch for source in sources for watch in source.watches]
        if granted := watch_rights(watches, Role.LOCAL):
            found[feature] = granted
    return found


def _dns_base() -> tuple[Manifest, ...]:
    """The DNS server's account, with the roles and bindings that it has with any features."""
    rules = rbac_rules((), Role.LOCAL)
    return (
        manifest(SERVICE_ACCOUNT, DNS, SYSTEM_NAMESPACE),
        *role_manifests(DNS, rules),
        *binding_manifests(DNS, DNS, rules, Subject(DNS, SYSTEM_NAMESPACE), {}),
    )


def _dns_roles(name: str, rights: Sequence[Right]) -> tuple[Manifest, ...]:
    """Roles with these rights, bound to the account of the DNS server."""
    rules = [right.rule for right in rights]
    subject = Subject(DNS, SYSTEM_NAMESPACE)
    return (*role_manifests(name, rules), *binding_manifests(name, name, rules, subject, {}))


def _wires(manifests: Iterable[Manifest]) -> list[Wire]:
    """The objects of the manifests, as JSON values."""
    return [one.wire for one in manifests]


def _ordered(features: Iterable[str]) -> tuple[str, ...]:
    """The features in the order of `FEATURES`, each once."""
    chosen = set(features)
    return tuple(name for name in FEATURES if name in chosen)
