"""Subresources and reviews: scale, token, binding, eviction."""

from base64 import b64decode

import msgspec
import pytest

from tests.tinykube.api_client import (
    CRDS,
    DEPLOYMENTS,
    PODS,
    WIDGETS,
    Cluster,
    deployment,
    pod,
    widget,
    widget_crd,
)
from tinykube.request import MERGE_PATCH
from tinykube.users import MASTERS, User

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SECRETS = "/api/v1/namespaces/default/secrets"


async def test_a_deployment_is_scaled() -> None:
    cluster = Cluster()
    await cluster.create(DEPLOYMENTS, deployment("web", replicas=1))
    path = f"{DEPLOYMENTS}/web/scale"

    shown = await cluster.get(path)
    shown["spec"]["replicas"] = 4
    put = await cluster.send("PUT", path, shown)
    patched = await cluster.merge(path, {"spec": {"replicas": 5}})

    assert shown["kind"] == "Scale"
    assert shown["status"] == {"replicas": 0, "selector": "app=web"}
    assert put.body["spec"]["replicas"] == 4
    assert patched["spec"]["replicas"] == 5
    web = await cluster.get(f"{DEPLOYMENTS}/web")
    assert web["spec"]["replicas"] == 5
    assert web["metadata"]["generation"] == 3


async def test_a_scale_of_the_past_is_refused() -> None:
    cluster = Cluster()
    await cluster.create(DEPLOYMENTS, deployment("web", replicas=1))
    path = f"{DEPLOYMENTS}/web/scale"
    old = await cluster.get(path)
    await cluster.merge(path, {"spec": {"replicas": 2}})

    stale = await cluster.send("PUT", path, {**old, "spec": {"replicas": 9}})
    negative = await cluster.send("PATCH", path, {"spec": {"replicas": -1}}, kind=MERGE_PATCH)

    assert stale.status == 409
    assert negative.status == 422
    assert (await cluster.get(path))["spec"]["replicas"] == 2


async def test_a_custom_resource_is_scaled_by_the_paths_of_its_definition() -> None:
    cluster = Cluster()
    await cluster.create(CRDS, widget_crd())
    await cluster.create(WIDGETS, widget("w", replicas=2))
    await cluster.merge(f"{WIDGETS}/w/status", {"status": {"replicas": 1, "selector": "a=b"}})

    shown = await cluster.get(f"{WIDGETS}/w/scale")
    await cluster.merge(f"{WIDGETS}/w/scale", {"spec": {"replicas": 3}})

    assert shown["spec"] == {"replicas": 2}
    assert shown["status"] == {"replicas": 1, "selector": "a=b"}
    assert (await cluster.get(f"{WIDGETS}/w"))["spec"]["replicas"] == 3


async def test_a_requested_token_names_its_account_until_it_expires() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})

    issued = await cluster.create(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 600}})
    token = issued["status"]["token"]
    user = cluster.api.authenticate(token)
    cluster.clock.advance(seconds=601)

    assert user is not None
    assert user.name == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in user.groups
    assert issued["status"]["expirationTimestamp"] == "2026-01-02T03:14:05Z"
    assert cluster.api.authenticate(token) is None


async def test_a_policy_sees_the_default_lifetime_of_a_token_that_asks_for_none() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [{**rule, "resources": ["serviceaccounts/token"]}]},
        "validations": [{"expression": "object.spec.expirationSeconds == 3600"}],
    }
    await cluster.create(f"{policies}ies", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    await cluster.create(f"{policies}ybindings", {"metadata": {"name": "p"}, "spec": bound})

    sent = {"spec": {"expirationSeconds": None, "boundObjectRef": None}}
    hour = await cluster.send("POST", f"{ACCOUNTS}/robot/token", sent)
    longer = {"spec": {"expirationSeconds": 3601}}
    refused = await cluster.send("POST", f"{ACCOUNTS}/robot/token", longer)

    assert hour.status == 201, hour.message
    assert "failed expression" in refused.message


async def test_a_token_is_invalid_once_its_account_is_deleted() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    issued = await cluster.create(f"{ACCOUNTS}/robot/token", {"spec": {}})

    await cluster.send("DELETE", f"{ACCOUNTS}/robot")
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})

    assert cluster.api.authenticate(issued["status"]["token"]) is None


async def test_a_token_of_another_cluster_or_a_changed_one_is_invalid() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    issued = await cluster.create(f"{ACCOUNTS}/robot/token", {"spec": {}})
    token = issued["status"]["token"]

    assert cluster.api.authenticate(token[:-2] + "xx") is None
    assert cluster.api.authenticate("nonsense") is None
    assert cluster.api.authenticate("") is None


async def test_a_token_shorter_than_ten_minutes_is_refused() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})

    short = await cluster.send(
        "POST", f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 60}}
    )
    nobody = await cluster.send("POST", f"{ACCOUNTS}/nobody/token", {"spec": {}})

    assert "may not specify a duration less than 10 minutes" in short.message
    assert nobody.status == 404


async def test_a_token_secret_is_filled_and_its_token_lasts_as_long_as_it() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    notes = {"kubernetes.io/service-account.name": "robot"}
    wanted = {
        "metadata": {"name": "key", "annotations": notes},
        "type": "kubernetes.io/service-account-token",
    }
    await cluster.create(SECRETS, wanted)

    filled = await cluster.get(f"{SECRETS}/key")
    token = b64decode(filled["data"]["token"]).decode()
    known = cluster.api.authenticate(token)
    await cluster.send("DELETE", f"{SECRETS}/key")

    assert known is not None
    assert cluster.api.authenticate(token) is None


async def test_a_token_that_is_bound_to_a_secret_ends_with_it() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    secret = await cluster.create(SECRETS, {"metadata": {"name": "first"}})
    uid = secret["metadata"]["uid"]

    def bound(name: str, uid: str) -> dict[str, object]:
        reference = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid}
        return {"spec": {"boundObjectRef": reference}}

    issued = await cluster.create(f"{ACCOUNTS}/robot/token", bound("first", uid))
    free = await cluster.create(f"{ACCOUNTS}/robot/token", {"spec": {}})
    other = await cluster.send("POST", f"{ACCOUNTS}/robot/token", bound("first", "other"))
    absent = await cluster.send("POST", f"{ACCOUNTS}/robot/token", bound("second", uid))
    known = cluster.api.authenticate(issued["status"]["token"])
    await cluster.send("DELETE", f"{SECRETS}/first")

    assert known is not None
    assert cluster.api.authenticate(issued["status"]["token"]) is None
    assert cluster.api.authenticate(free["status"]["token"]) is not None
    assert (other.status, absent.status) == (409, 404)
    assert "does not match the UID in record" in other.message
    assert absent.message == 'secrets "second" not found'


async def test_access_reviews_name_the_user_and_allow_an_administrator_everything() -> None:
    cluster = Cluster()
    hans = User("hans", ("guild", MASTERS))

    me = await cluster.send(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user=hans
    )
    may = await cluster.create(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    )
    what = await cluster.send(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}}
    )

    assert me.body["status"]["userInfo"] == {"username": "hans", "groups": ["guild", MASTERS]}
    assert may["status"]["allowed"] is True
    assert what.status == 422


async def test_a_pod_is_bound_once() -> None:
    cluster = Cluster()
    await cluster.create(PODS, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}

    await cluster.create(f"{PODS}/p/binding", binding)
    again = await cluster.send("POST", f"{PODS}/p/binding", binding)

    bound = await cluster.get(f"{PODS}/p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    assert again.status == 409


@pytest.mark.parametrize("options", [None, {"gracePeriodSeconds": 0}])
async def test_an_evicted_pod_is_deleted(options: dict[str, int] | None) -> None:
    cluster = Cluster()
    await cluster.create(PODS, pod("p"))
    eviction = {"metadata": {"name": "p"}, "deleteOptions": options}

    await cluster.create(f"{PODS}/p/eviction", msgspec.to_builtins(eviction))

    assert await cluster.names(PODS) == []


@pytest.mark.parametrize(
    ("query", "options"),
    [({"dryRun": "All"}, None), ({"dryRun": "All"}, {}), ({}, {"dryRun": ["All"]})],
    ids=["query", "query and options", "options"],
)
async def test_an_eviction_that_is_a_dry_run_deletes_nothing(
    query: dict[str, str], options: dict[str, list[str]] | None
) -> None:
    cluster = Cluster()
    await cluster.create(PODS, pod("p"))
    eviction = {"metadata": {"name": "p"}, "deleteOptions": options}

    await cluster.create(f"{PODS}/p/eviction", eviction, **query)

    assert await cluster.names(PODS) == ["p"]


async def budgeted_pod(cluster: Cluster, name: str, phase: str, *, ready: bool) -> None:
    """Create a pod of the budget `web`, in this phase."""
    labelled = pod(name)
    labelled["metadata"]["labels"] = {"app": "web"}
    await cluster.create(PODS, labelled)
    conditions = [{"type": "Ready", "status": str(ready)}]
    await cluster.merge(
        f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": conditions}}
    )


async def evict(cluster: Cluster, name: str, **budget: object) -> int:
    """The status of the eviction of a pod under a new budget `web`."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, **budget}
    made = {"metadata": {"name": "web"}, "spec": spec}
    await cluster.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", made)
    return (
        await cluster.send("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
    ).status


@pytest.mark.parametrize(("policy", "status"), [("IfHealthyBudget", 429), ("AlwaysAllow", 201)])
async def test_an_eviction_that_a_budget_forbids_is_refused(policy: str, status: int) -> None:
    cluster = Cluster()
    await budgeted_pod(cluster, "p", "Running", ready=False)

    assert await evict(cluster, "p", maxUnavailable=0, unhealthyPodEvictionPolicy=policy) == status


@pytest.mark.parametrize(("needed", "status"), [(1, 201), (2, 429)])
async def test_a_pod_that_is_not_ready_is_evicted_if_enough_others_are(
    needed: int, status: int
) -> None:
    cluster = Cluster()
    await budgeted_pod(cluster, "ready", "Running", ready=True)
    await budgeted_pod(cluster, "p", "Running", ready=False)

    assert await evict(cluster, "p", minAvailable=needed) == status


async def test_a_ready_pod_is_not_evicted_if_just_enough_are() -> None:
    cluster = Cluster()
    await budgeted_pod(cluster, "p", "Running", ready=True)

    assert await evict(cluster, "p", minAvailable=1) == 429


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_no_budget_holds_a_pod_that_does_not_run(phase: str) -> None:
    cluster = Cluster()
    await budgeted_pod(cluster, "p", phase, ready=False)

    assert await evict(cluster, "p", minAvailable=1) == 201
