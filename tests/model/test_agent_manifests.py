"""The rights of an agent follow the features that are on, and nothing else."""

import pytest

from hanse import app
from hanse.cli.yaml_text import to_yaml
from hanse.model.agent_manifests import (
    BASE,
    agent_manifests,
    outdated_manifests,
    rights_by_feature,
)
from hanse.model.feature_names import (
    FEATURES,
    HOOKED,
    UnknownFeature,
    needed_by,
    parse_features,
)
from hanse.model.manifests import Manifest
from hanse.model.naming import SLOT_LEASES
from hanse.model.rbac import RbacRule

ONE_SCREEN = 40
"""Lines of a terminal."""

DANGEROUS = {
    "deployments": {"networks"},
    "statefulsets": {"statefulsets"},
    "roles": {"networks"},
    "rolebindings": {"networks"},
    "serviceaccounts": {"networks"},
    "validatingadmissionpolicies": {"networks"},
    "mutatingwebhookconfigurations": set(HOOKED),
    "validatingwebhookconfigurations": set(HOOKED),
    "namespaces": {"networks", "statefulsets"},
}
"""What would let an agent run or change anything, and the features that need to create it."""


def manifests_of(*features: str) -> tuple[Manifest, ...]:
    options = app.Options(features=features)
    return agent_manifests(app.watches_by_feature(options), "lubeck")


def rules_of(*features: str) -> list[RbacRule]:
    by_feature = rights_by_feature(app.watches_by_feature(app.Options(features=features)), "lubeck")
    return [right.rule for rights in by_feature.values() for right in rights]


def names_of(manifests: tuple[Manifest, ...], kind: str) -> set[str]:
    return {one.name for one in manifests if one.kind.name == kind}


def test_the_roles_of_a_services_only_agent_fit_one_screen() -> None:
    roles = [m for m in manifests_of("services") if m.kind.name == "ClusterRole"]
    rules = [rule for role in roles for rule in role.wire["rules"]]

    assert {role.name for role in roles} == {"hanse-agent", "hanse-agent-services"}
    assert len(rules) <= 16
    for role in roles:
        assert len(to_yaml([role.wire]).splitlines()) <= ONE_SCREEN


def test_a_services_only_agent_has_no_namespace_but_its_own() -> None:
    assert names_of(manifests_of("services"), "Namespace") == {"hanse-system"}


@pytest.mark.parametrize("resource", DANGEROUS)
def test_what_could_take_over_a_cluster_is_created_only_by_the_feature_that_needs_it(
    resource: str,
) -> None:
    creating = {
        feature
        for feature in FEATURES
        if any(rule.resource == resource and "create" in rule.verbs for rule in rules_of(feature))
    }

    assert creating == {n for feature in DANGEROUS[resource] for n in needed_by(feature)}


@pytest.mark.parametrize("feature", FEATURES)
def test_no_feature_escalates_impersonates_or_takes_all(feature: str) -> None:
    for rule in rules_of(feature):
        assert not {"*", "escalate", "bind", "impersonate", "deletecollection"} & set(rule.verbs)
        assert "*" not in (rule.resource, rule.group)
        assert not rule.resource.endswith(("/exec", "/token", "/ephemeralcontainers", "/proxy"))


@pytest.mark.parametrize("feature", FEATURES)
def test_no_agent_reads_secrets_everywhere(feature: str) -> None:
    for rule in rules_of(feature):
        assert rule.resource != "secrets" or rule.namespace


def test_an_agent_writes_only_its_own_lease_and_the_secret_with_its_token_in_its_namespace() -> (
    None
):
    rights = rights_by_feature(app.watches_by_feature(app.Options(features=("services",))), "a")
    patched = [r.rule for r in rights[BASE] if r.rule.namespace and "patch" in r.rule.verbs]

    assert {(r.resource, r.names) for r in patched} == {
        ("leases", ("hanse-agent",)),
        ("secrets", ("hanse-broker",)),
    }


def test_only_networks_hold_the_leases_of_address_pools() -> None:
    held = {
        f: {n for r in rules_of(f) if r.resource == "leases" for n in r.names} for f in FEATURES
    }

    assert held.pop("networks") == {"hanse-agent", *SLOT_LEASES}
    assert not [feature for feature, names in held.items() if names & {*SLOT_LEASES}]


def test_webhooks_left_behind_can_be_removed_without_the_right_to_make_any() -> None:
    of_hooks = [r for r in rules_of("services") if r.resource.endswith("webhookconfigurations")]

    assert of_hooks
    for rule in of_hooks:
        assert rule.names == ("hanse-webhooks",)
        assert set(rule.verbs) == {"get", "list", "watch", "delete"}


@pytest.mark.parametrize("feature", FEATURES)
def test_what_guards_a_cluster_is_changed_and_deleted_only_by_our_names(feature: str) -> None:
    """An agent that could delete any policy could delete those that bound it, or a broker's."""
    for rule in rules_of(feature):
        if rule.group == "admissionregistration.k8s.io" and set(rule.verbs) != {"create"}:
            assert rule.names
            assert all(n.startswith(("hanse-webhooks", "networks.hanse.dev-")) for n in rule.names)


def test_rights_of_features_that_are_off_are_outdated() -> None:
    every = app.watches_by_feature()

    old = outdated_manifests(every, manifests_of("services"), "lubeck")

    names = [str(one) for one in old]
    assert "ClusterRole hanse-agent-networks" in names
    assert "Role avi-system/hanse-agent" in names
    assert "ClusterRole hanse-agent-services" not in names
    assert "ClusterRole hanse-agent" not in names
    assert [one.kind.name.endswith("Binding") for one in old] == sorted(
        [one.kind.name.endswith("Binding") for one in old], reverse=True
    )
    assert outdated_manifests(every, manifests_of(*FEATURES), "lubeck")[0].name == "hanse-agent"


def test_every_right_has_a_reason() -> None:
    without = [
        f"{feature}: {right.rule.resource}"
        for feature, rights in rights_by_feature(app.watches_by_feature(), "lubeck").items()
        for right in rights
        if not right.reasons
    ]

    assert without == []


def test_features_are_named_parted_by_commas_and_bring_what_they_need() -> None:
    assert parse_features("policies, services") == ("services", "membership", "policies")
    assert parse_features("all") == FEATURES


@pytest.mark.parametrize("text", ["", " , ", "service", "all,services"])
def test_an_unknown_feature_is_refused_with_those_that_exist(text: str) -> None:
    with pytest.raises(UnknownFeature, match="choose of services, statefulsets"):
        parse_features(text)


def test_the_names_of_features_are_those_of_the_objects() -> None:
    made = {name for name in app.watches_by_feature() if name != BASE}

    assert made == {*FEATURES, "admission"}
    for feature in FEATURES:
        has_hooks = bool(app.hooks(app.Options(features=(feature,))))
        assert has_hooks is (feature in {n for hooked in HOOKED for n in needed_by(hooked)})
