"""The one declaration of what members write on a broker: nothing is writable without a rule."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from hanse import app
from hanse.features.federation.manifests import rules_for, supervisor_policies
from hanse.features.gslb.manifests import leader_account
from hanse.features.services.manifests import broker, member
from hanse.model.facts import Role
from hanse.model.manifests import Manifest
from hanse.model.objects import Wire
from hanse.model.write_rules import (
    BOUND_TOKEN,
    METADATA,
    FeatureAccess,
    MissingWriteRule,
    WriteRule,
    granted_rules,
    undeclared_writes,
)
from tinykube.expressions import Scope, compile_expression
from tinykube.policies import compile_policy

HOME = "harbour"
ACCESS = app.broker_access(app.Options(broker_namespace=HOME))
MADE = (*broker(ACCESS, HOME), *member(ACCESS, HOME, "lubeck", "uid", new=True))
_READ = {"get", "list", "watch"}


def _of_kind(kind: str, made: tuple[Manifest, ...] = MADE) -> list[Wire]:
    return [one.wire for one in made if one.kind.name == kind]


def _writable(made: tuple[Manifest, ...]) -> Iterator[tuple[str, str, str]]:
    """Group, resource and verb of everything that roles let an account write."""
    for role in (*_of_kind("Role", made), *_of_kind("ClusterRole", made)):
        for rule in role["rules"]:
            for resource in rule["resources"]:
                for verb in set(rule["verbs"]) - _READ:
                    yield rule["apiGroups"][0], resource, verb


def _held(made: tuple[Manifest, ...] = MADE) -> set[tuple[str, str]]:
    """Group and resource of everything that a policy holds."""
    return {
        (rule["apiGroups"][0], resource)
        for policy in _of_kind("ValidatingAdmissionPolicy", made)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
        if set(rule["operations"]) == {"CREATE", "UPDATE", "DELETE"}
    }


def test_everything_that_a_member_can_write_is_held_by_a_policy() -> None:
    writable = {(group, resource) for group, resource, _ in _writable(MADE)}

    assert len(writable) >= 10
    assert writable <= _held()


def test_every_watch_of_the_broker_that_writes_is_declared() -> None:
    options = app.Options(broker_namespace=HOME)
    rules = tuple(rule for access in ACCESS for rule in access.rules)
    everything = FeatureAccess("all", app.watches(options), rules)

    assert undeclared_writes(everything, Role.BROKER) == ()


_WATCHED = {watch.kind.kind for watch in ACCESS[0].watches if watch.writes}


@pytest.mark.parametrize(
    "rule", [r for r in ACCESS[0].rules if r.kind in _WATCHED and r.verbs], ids=lambda r: r.name
)
def test_a_write_without_a_rule_generates_no_role(rule: WriteRule) -> None:
    rest = tuple(one for one in ACCESS[0].rules if one != rule)

    with pytest.raises(MissingWriteRule, match=rule.resource):
        granted_rules(replace(ACCESS[0], rules=rest), Role.BROKER, placed={}, name="")


def test_everything_that_a_supervisor_can_write_in_a_member_is_held_by_a_policy() -> None:
    rules = rules_for(app.watches(), "lubeck", "hamburg")
    policies = supervisor_policies(app.supervisor_rules(), "lubeck")

    writable = {(rule.group, rule.resource) for rule in rules if set(rule.verbs) - _READ}
    assert len(writable) >= 10
    assert writable <= _held(policies)


def test_everything_that_a_gslb_leader_can_write_in_a_site_is_held_by_a_policy() -> None:
    made = leader_account("gslb-leader")

    writable = {(group, resource) for group, resource, _ in _writable(made)}
    assert len(writable) >= 6
    assert writable <= _held(made)


def test_the_policies_that_joining_waits_for_are_written_last() -> None:
    supervisors = supervisor_policies(app.supervisor_rules(), "lubeck")
    names = [m.name for m in broker(ACCESS, HOME) if m.kind.name.startswith("ValidatingAdmission")]

    assert names[-2:] == [f"{HOME}-slices"] * 2, "see `members_attack`"
    assert [m.name for m in supervisors][-2:] == ["hanse-supervisor-leases"] * 2


def test_nothing_else_than_create_patch_and_delete_is_granted() -> None:
    verbs = {verb for _, _, verb in _writable(MADE)}

    assert verbs == {"create", "patch", "delete"}


def test_a_services_only_member_writes_in_the_broker_namespace_alone() -> None:
    only = member(ACCESS[:1], HOME, "lubeck", "uid", new=True)

    cluster_wide = [rule for role in _of_kind("ClusterRole", only) for rule in role["rules"]]
    assert all(set(rule["verbs"]) <= _READ for rule in cluster_wide)
    assert {group for group, _, _ in _writable(only)} == {
        "",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "hanse.dev",
        "multicluster.x-k8s.io",
    }
    assert not [b for b in _of_kind("ClusterRoleBinding", only) if "statefulsets" in str(b)]


@pytest.mark.parametrize(
    ("secret", "allowed"),
    [
        pytest.param("rome-0a1b2c3d", True, id="its own"),
        pytest.param("rome-2-0a1b2c3d", False, id="that of an account whose name begins alike"),
        pytest.param("other", False, id="any other"),
    ],
)
def test_a_token_is_bound_to_a_secret_of_its_own_account(secret: str, allowed: bool) -> None:
    reference = {"kind": "Secret", "name": secret}
    sent = {"object": {"spec": {"boundObjectRef": reference}}, "request": {"name": "rome"}}
    rule = compile_expression(BOUND_TOKEN.expression, frozenset(sent))

    assert rule.evaluate(Scope(sent)) is allowed


def test_owner_references_and_finalizers_are_frozen_everywhere() -> None:
    for access in ACCESS:
        for rule in access.rules:
            assert "finalizers" not in rule.sets, rule.name
            assert set(rule.sets) <= set(METADATA)
            if "ownerReferences" in rule.sets:
                assert rule.name == "shares", "it goes with its set"


def test_members_accounts_are_in_a_namespace_of_their_own() -> None:
    (account,) = _of_kind("ServiceAccount")
    subjects = [
        subject
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for binding in _of_kind(kind)
        for subject in binding["subjects"]
    ]

    assert account["metadata"]["namespace"] == f"{HOME}-accounts"
    assert {subject["namespace"] for subject in subjects} == {f"{HOME}-accounts"}


def test_no_requirement_uses_optional_fields() -> None:
    supervisors = supervisor_policies(app.supervisor_rules(), "lubeck")
    for policy in _of_kind("ValidatingAdmissionPolicy", (*MADE, *supervisors)):
        for validation in policy["spec"]["validations"]:
            assert ".?" not in validation["expression"], "small evaluators do not carry them"


@pytest.mark.parametrize(
    ("me", "name", "allowed"),
    [
        ("eu-west", "store-eu-west-0", True),
        ("eu-west", "store-west-0", False),
        ("west", "store-west-0", True),
        ("west", "store-eu-west-0", False),
        ("west", "store", True),
    ],
)
def test_a_member_creates_no_service_with_the_name_of_anothers_replica(
    me: str, name: str, allowed: bool
) -> None:
    """A name is that of the member with the longest id in it: eu-west is not west."""
    (policy,) = (
        compile_policy(one)
        for one in _of_kind("ValidatingAdmissionPolicy")
        if one["metadata"]["name"] == f"{HOME}-service-names"
    )
    scopes = [
        Scope(
            {
                "object": {"metadata": {"name": name}},
                "request": {"operation": "CREATE"},
                "params": {"metadata": {"name": member}},
                "variables": {"me": me},
            }
        )
        for member in ("west", "eu-west")
    ]

    assert all(policy.validations[0].expression.evaluate(s) for s in scopes) is allowed


def test_no_policy_stops_users_where_the_kind_of_its_parameters_is_not_served() -> None:
    """An API server refuses by the matchConstraints and the failurePolicy alone then."""
    supervisors = supervisor_policies(app.supervisor_rules(), "lubeck")
    policies = _of_kind("ValidatingAdmissionPolicy", (*MADE, *supervisors))
    custom = [
        p["spec"] for p in policies if "/" in p["spec"].get("paramKind", {}).get("apiVersion", "")
    ]

    assert len(custom) >= 3
    for spec in custom:
        selector = spec["matchConstraints"].get("namespaceSelector", {})
        at_home = selector == {"matchLabels": {"kubernetes.io/metadata.name": HOME}}
        assert at_home or spec["failurePolicy"] == "Ignore"
    ignoring = [p["metadata"]["name"] for p in policies if p["spec"]["failurePolicy"] == "Ignore"]
    assert ignoring == [f"{HOME}-service-names"], "all others refuse what they cannot evaluate"


_LEDGER = "ledger.hanse.dev/version"
_FEDERATED = "federated.anp.antreaplus.vmware.com"


def _policy(annotations: Wire | None = None, labels: Wire | None = None, priority: int = 5) -> Wire:
    meta = {"name": "deny", "annotations": annotations, "labels": labels}
    present = {name: value for name, value in meta.items() if value is not None}
    return {"metadata": present, "spec": {"priority": priority}}


def _supervisor_may(rule: str, operation: str, before: Wire | None, after: Wire | None) -> bool:
    """Whether all requirements of a rule let a supervisor through."""
    (policy,) = (
        compile_policy(one)
        for one in _of_kind(
            "ValidatingAdmissionPolicy", supervisor_policies(app.supervisor_rules(), "lubeck")
        )
        if one["metadata"]["name"] == f"hanse-supervisor-{rule}"
    )
    scope = Scope(
        {
            "object": after,
            "oldObject": before,
            "request": {"operation": operation, "namespace": "shop"},
            "variables": {"me": "lubeck"},
        }
    )
    return all(one.expression.evaluate(scope) for one in policy.validations)


_LEFT = _policy({_LEDGER: "v", "ledger.hanse.dev/resolve": "keep", "team": "a"}, {"app": "web"})


@pytest.mark.parametrize("rule", ["clusternetworkpolicies", "networkpolicies"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_LEFT, _policy({"team": "a"}, {"app": "web"})),
        (_policy({_LEDGER: "v"}), _policy()),
        (_policy({_LEDGER: "v"}), _policy({})),
        (_policy({_LEDGER: "v", _FEDERATED: "false"}), _policy({_FEDERATED: "false"})),
    ],
)
def test_a_supervisor_removes_its_version_from_a_policy_that_left_the_federation(
    rule: str, before: Wire, after: Wire
) -> None:
    assert _supervisor_may(rule, "UPDATE", before, after)


@pytest.mark.parametrize("rule", ["clusternetworkpolicies", "networkpolicies"])
@pytest.mark.parametrize(
    "after",
    [
        pytest.param(_policy({"team": "a"}, {"app": "web"}, 1), id="another spec"),
        pytest.param({"metadata": _policy({"team": "a"}, {"app": "web"})["metadata"]}, id="none"),
        pytest.param(_policy({"team": "a"}, {"app": "x"}), id="another label"),
        pytest.param(_policy({"team": "a"}), id="no labels"),
        pytest.param(_policy({"team": "b"}, {"app": "web"}), id="another annotation"),
        pytest.param(_policy({}, {"app": "web"}), id="a user's annotation gone"),
        pytest.param(_policy(None, {"app": "web"}), id="no annotations"),
        pytest.param(_policy({"team": "a", "x": "y"}, {"app": "web"}), id="one more"),
        pytest.param(_policy({"team": "a", _FEDERATED: "true"}, {"app": "web"}), id="taken"),
        pytest.param(_policy({"team": "a", _LEDGER: "w"}, {"app": "web"}), id="another version"),
        pytest.param(
            {**_policy({"team": "a"}, {"app": "web"}), "status": {"phase": "x"}}, id="a status"
        ),
    ],
)
def test_a_supervisor_changes_nothing_else_of_a_policy_that_is_not_federated(
    rule: str, after: Wire
) -> None:
    assert not _supervisor_may(rule, "UPDATE", _LEFT, after)
    assert not _supervisor_may(rule, "DELETE", _LEFT, None)
    assert not _supervisor_may(rule, "CREATE", None, after) or _FEDERATED in str(after)
