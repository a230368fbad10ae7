"""Manifests of a broker and its members."""

import base64
import json
from collections.abc import Sequence

import pytest

from hanse.features.services.broker_policies import policies
from hanse.features.services.feature import Services
from hanse.features.services.manifests import (
    BrokerCredentials,
    agent_manifests,
    broker,
    broker_rules,
    broker_secret,
    cluster_id_error,
    member,
)
from hanse.features.statefulsets.feature import StatefulSets
from hanse.kube.credentials import from_secret
from hanse.model.manifests import Manifest
from hanse.model.naming import SLOT_LEASES
from hanse.model.objects import Wire
from hanse.model.snapshot import Watch

HOME = "harbour"
WATCHES = Services(HOME).watches


def _wire_of(name: str, made: tuple[Manifest, ...]) -> Wire:
    (found,) = [one.wire for one in made if str(one) == name]
    return found


def test_members_may_write_nothing_outside_the_broker_namespace() -> None:
    writing = [r for r in broker_rules(WATCHES, HOME) if set(r.verbs) - {"get", "list", "watch"}]

    assert writing
    assert {rule.namespace for rule in writing} == {HOME}


def test_members_record_events_where_they_write() -> None:
    beyond = StatefulSets(HOME).watches

    def event_namespaces(watches: Sequence[Watch]) -> set[str]:
        return {r.namespace for r in broker_rules(watches, HOME) if r.resource == "events"}

    assert (event_namespaces(WATCHES), event_namespaces(beyond)) == ({HOME}, {""})


def test_members_may_not_change_leases_but_each_renews_its_own_lease_and_token() -> None:
    shared = {r.resource: r.verbs for r in broker_rules(WATCHES, HOME)}

    own = _wire_of(f"Role {HOME}/{HOME}:lubeck", member(WATCHES, HOME, "lubeck", "uid", new=True))

    assert shared["leases"] == ("get", "list", "watch")
    assert own["rules"] == [
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

    new = _wire_of(name, member(WATCHES, HOME, "lubeck", "the uid", new=True))
    current = _wire_of(name, member(WATCHES, HOME, "lubeck", "the uid", new=False))

    assert new["metadata"]["annotations"] == {"hanse.dev/cluster-uid": "the uid"}
    assert new["spec"]["leaseDurationSeconds"] > 0
    assert "spec" not in current


def test_every_policy_is_bound_to_the_broker_namespace_and_to_its_members() -> None:
    made = [one.wire for one in policies(HOME)]
    written = [one for one in made if one["kind"] == "ValidatingAdmissionPolicy"]
    bound = [one for one in made if one["kind"] == "ValidatingAdmissionPolicyBinding"]

    assert {p["metadata"]["name"] for p in written} == {b["spec"]["policyName"] for b in bound}
    inside = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": HOME}}}
    anywhere = {b["metadata"]["name"] for b in bound if "matchResources" not in b["spec"]}
    assert anywhere == {f"{HOME}-{what}" for what in ("services", "sets", "events")}, (
        "what users submit in their own"
    )
    for binding in bound:
        assert binding["spec"].get("matchResources", inside) == inside
    for policy in written:
        (condition,) = policy["spec"]["matchConditions"]
        assert f"'system:serviceaccount:{HOME}:'" in condition["expression"]


def test_a_broker_needs_no_more_than_its_namespace_policies_and_roles() -> None:
    kinds = {one.kind.name for one in broker(WATCHES, HOME)}

    assert kinds == {
        "Namespace",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ClusterRole",
        "Role",
    }


def test_an_agent_writes_only_its_own_lease_and_the_secret_with_its_token() -> None:
    role = _wire_of("Role hanse-system/hanse-agent", agent_manifests(WATCHES, "lubeck"))

    patched = [rule for rule in role["rules"] if "patch" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in patched] == [
        ["hanse-agent", *SLOT_LEASES],
        ["hanse-broker"],
    ]


@pytest.mark.anyio
async def test_an_agent_reads_its_broker_connection_from_the_secret() -> None:
    way = BrokerCredentials("https://broker:6443", "the token", b"-- a certificate --", "broker")

    secret = broker_secret("lubeck", HOME, way)

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
