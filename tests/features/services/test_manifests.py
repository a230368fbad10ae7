"""Manifests of a broker and its members."""

import base64
import json

import pytest

from hanse.features.services.feature import Services
from hanse.features.services.manifests import (
    BrokerCredentials,
    broker,
    broker_policies,
    broker_rules,
    broker_secret,
    cluster_id_error,
    member,
)
from hanse.features.services.write_rules import MEMBER_RULES
from hanse.kube.credentials import from_secret
from hanse.model.manifests import Manifest
from hanse.model.objects import Wire
from hanse.model.write_rules import FeatureAccess

HOME = "harbour"
WATCHES = Services(HOME).watches
ACCESS = FeatureAccess("services", WATCHES, MEMBER_RULES)


def _wire_of(name: str, made: tuple[Manifest, ...]) -> Wire:
    (found,) = [one.wire for one in made if str(one) == name]
    return found


def test_members_may_write_nothing_outside_the_broker_namespace() -> None:
    writing = [r for r in broker_rules(ACCESS, HOME) if set(r.verbs) - {"get", "list", "watch"}]

    assert writing
    assert {rule.namespace for rule in writing} == {HOME}


def test_members_may_not_change_leases_but_each_renews_its_own_lease_and_token() -> None:
    shared = {r.resource: r.verbs for r in broker_rules(ACCESS, HOME)}

    made = member((ACCESS,), HOME, "lubeck", "uid", new=True)
    lease = _wire_of(f"Role {HOME}/{HOME}:lubeck", made)
    token = _wire_of(f"Role {HOME}-accounts/{HOME}:lubeck", made)

    assert shared["leases"] == ("get", "list", "watch")
    assert [*lease["rules"], *token["rules"]] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["patch"],
            "resourceNames": ["lubeck"],
        },
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "verbs": ["create"],
            "resourceNames": ["lubeck"],
        },
    ]


def test_a_lease_has_the_uid_of_its_cluster_and_an_existing_one_is_left_to_the_agent() -> None:
    name = f"Lease {HOME}/lubeck"

    new = _wire_of(name, member((ACCESS,), HOME, "lubeck", "the uid", new=True))
    current = _wire_of(name, member((ACCESS,), HOME, "lubeck", "the uid", new=False))

    assert new["metadata"]["annotations"] == {"hanse.dev/cluster-uid": "the uid"}
    assert new["spec"]["leaseDurationSeconds"] > 0
    assert "spec" not in current


def test_every_policy_is_bound_to_its_namespace_and_holds_members() -> None:
    made = [one.wire for one in broker_policies(MEMBER_RULES, HOME)]
    written = [one for one in made if one["kind"] == "ValidatingAdmissionPolicy"]
    bound = [one for one in made if one["kind"] == "ValidatingAdmissionPolicyBinding"]

    assert {p["metadata"]["name"] for p in written} == {b["spec"]["policyName"] for b in bound}
    for binding in bound:
        selector = binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]
        assert selector["kubernetes.io/metadata.name"] in (HOME, f"{HOME}-accounts")
    conditional = [p["spec"]["matchConditions"] for p in written if "matchConditions" in p["spec"]]
    for (condition,) in conditional:
        assert f"'system:serviceaccount:{HOME}-accounts:'" in condition["expression"]
    assert len(written) - len(conditional) == 1, "everybody's tokens are short"


def test_a_broker_needs_no_more_than_its_namespace_policies_and_roles() -> None:
    kinds = {one.kind.name for one in broker((ACCESS,), HOME)}

    assert kinds == {
        "Namespace",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ClusterRole",
        "Role",
    }


def test_credentials_show_their_class_and_server_and_no_token() -> None:
    way = BrokerCredentials("https://broker:6443", "the token")

    assert repr(way) == "BrokerCredentials('https://broker:6443', <secret>)"


@pytest.mark.anyio
async def test_an_agent_reads_its_broker_connection_from_the_secret() -> None:
    way = BrokerCredentials("https://broker:6443", "the token", b"-- a certificate --", "broker")

    secret = broker_secret("lubeck", HOME, way, "uid")

    text = base64.b64decode(secret.wire["data"]["kubeconfig"])
    access = await from_secret(text, origin="secret").config()
    assert access.endpoint.url == "https://broker:6443"
    assert access.endpoint.server_name == "broker"
    assert access.identity.token == "the token"
    assert access.namespace == HOME
    assert "the token" not in repr(way)
    assert json.loads(text)["users"][0]["name"] == "lubeck"


@pytest.mark.parametrize("good", ["lubeck", "a", "7", "north-1", "a" * 63])
def test_an_id_is_a_label(good: str) -> None:
    assert cluster_id_error(good) == ""


@pytest.mark.parametrize("bad", ["", "Lubeck", "a.b", "-a", "a-", "a" * 64, "lübeck", "a b", "a\n"])
def test_anything_else_is_refused_with_what_to_write(bad: str) -> None:
    assert "is not a DNS label; use up to 63" in cluster_id_error(bad)


@pytest.mark.parametrize("taken", ["broker", "default"])
def test_ids_that_mean_something_else_are_refused(taken: str) -> None:
    assert "choose another" in cluster_id_error(taken)
