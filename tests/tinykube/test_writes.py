"""Create, get, update and validation of objects."""

import pytest

from tests.tinykube.api_client import (
    CONFIGMAPS,
    DEPLOYMENTS,
    PODS,
    Cluster,
    configmap,
    deployment,
    pod,
)
from tinykube.apiserver import is_watch
from tinykube.request import MERGE_PATCH, Request


async def test_a_new_cluster_has_its_namespaces_and_its_own_service() -> None:
    cluster = Cluster()

    assert await cluster.names("/api/v1/namespaces") == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]
    own = await cluster.get("/api/v1/namespaces/default/services/kubernetes")
    assert own["spec"]["clusterIP"] == "10.0.0.1"
    assert await cluster.names("/apis/networking.k8s.io/v1/ipaddresses") == ["10.0.0.1"]
    assert await cluster.names("/apis/networking.k8s.io/v1/servicecidrs") == ["kubernetes"]


async def test_a_created_object_gets_its_system_fields() -> None:
    cluster = Cluster()

    made = await cluster.create(
        CONFIGMAPS,
        {"metadata": {"name": "a", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z"}},
    )

    assert made["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert made["metadata"]["uid"] not in ("", "mine")
    assert made["metadata"]["namespace"] == "default"
    assert made == await cluster.get(f"{CONFIGMAPS}/a")


async def test_generated_names_have_the_prefix_and_differ() -> None:
    cluster = Cluster()
    asked = {"metadata": {"generateName": "job-"}}

    names = [(await cluster.create(CONFIGMAPS, asked))["metadata"]["name"] for _ in range(3)]

    assert len(set(names)) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_a_dry_run_answers_and_stores_nothing() -> None:
    cluster = Cluster()
    before = cluster.api.storage.version

    made = await cluster.create(CONFIGMAPS, configmap("a"), dryRun="All")

    assert made["metadata"]["name"] == "a"
    assert cluster.api.storage.version == before
    assert (await cluster.send("GET", f"{CONFIGMAPS}/a")).status == 404


async def test_the_same_seed_gives_the_same_uids() -> None:
    uids = [
        (await Cluster().create(CONFIGMAPS, configmap("a")))["metadata"]["uid"] for _ in range(2)
    ]

    assert uids[0] == uids[1]


@pytest.mark.parametrize(
    ("path", "obj", "status", "message"),
    [
        pytest.param(
            "/api/v1/namespaces/nowhere/configmaps",
            configmap("a"),
            404,
            'namespaces "nowhere" not found',
            id="no namespace",
        ),
        pytest.param(
            CONFIGMAPS,
            {"metadata": {}},
            422,
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is '
            "required",
            id="no name",
        ),
        pytest.param(
            CONFIGMAPS,
            {"metadata": {"name": "a", "namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            CONFIGMAPS,
            {"metadata": {"name": "a", "labels": {"x": "?"}}},
            422,
            'metadata.labels: Invalid value: "?": a valid label must be an empty string',
            id="bad label",
        ),
        pytest.param(
            CONFIGMAPS,
            {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}},
            400,
            'Secret in version "v1" cannot be handled as a ConfigMap',
            id="another kind",
        ),
        pytest.param(
            "/api/v1/namespaces/default/wagons",
            {},
            404,
            "the server could not find the requested resource",
            id="no such resource",
        ),
        pytest.param(
            "/apis/nothing.example/v1/wagons", {}, 404, "404 page not found\n", id="no such group"
        ),
        pytest.param(
            "/api/v1/configmaps",
            configmap("a"),
            405,
            "the server does not allow this method on the requested resource",
            id="no namespace in the path",
        ),
    ],
)
async def test_what_cannot_be_created_is_refused_with_the_message_of_kubernetes(
    path: str, obj: dict[str, object], status: int, message: str
) -> None:
    cluster = Cluster()
    before = cluster.api.storage.version

    answer = await cluster.send("POST", path, obj)

    assert answer.status == status
    assert message in answer.message
    assert cluster.api.storage.version == before


async def test_a_name_is_taken_once() -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a"))

    answer = await cluster.send("POST", CONFIGMAPS, configmap("a"))

    assert answer.status == 409
    assert answer.body["reason"] == "AlreadyExists"
    assert answer.message == 'configmaps "a" already exists'


async def test_a_stale_resource_version_is_refused() -> None:
    cluster = Cluster()
    first = await cluster.create(CONFIGMAPS, configmap("a", x="1"))
    await cluster.merge(f"{CONFIGMAPS}/a", {"data": {"x": "2"}})

    answer = await cluster.send("PUT", f"{CONFIGMAPS}/a", first)

    assert answer.status == 409
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert (await cluster.get(f"{CONFIGMAPS}/a"))["data"] == {"x": "2"}


async def test_a_uid_that_is_another_is_refused() -> None:
    cluster = Cluster()
    made = await cluster.create(CONFIGMAPS, configmap("a"))
    made["metadata"] |= {"uid": "other"}

    answer = await cluster.send("PUT", f"{CONFIGMAPS}/a", made)

    assert answer.status == 409
    assert "Precondition failed: UID in precondition: other" in answer.message


async def test_a_change_that_changes_nothing_is_not_written() -> None:
    cluster = Cluster()
    made = await cluster.create(CONFIGMAPS, configmap("a", x="1"))
    before = cluster.api.storage.version

    put = await cluster.send("PUT", f"{CONFIGMAPS}/a", made)
    patched = await cluster.merge(f"{CONFIGMAPS}/a", {"data": {"x": "1"}})

    assert put.body == patched == made
    assert cluster.api.storage.version == before


async def test_a_lease_is_made_by_a_put_where_there_is_none() -> None:
    cluster = Cluster()
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}

    made = await cluster.send("PUT", path, lease)
    again = await cluster.send("PUT", path, lease)

    assert made.status == 201
    assert again.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified" in again.message


async def test_generation_counts_changes_of_the_spec_only() -> None:
    cluster = Cluster()
    path = f"{DEPLOYMENTS}/web"
    await cluster.create(DEPLOYMENTS, deployment("web"))

    labelled = await cluster.merge(path, {"metadata": {"labels": {"a": "b"}}})
    scaled = await cluster.merge(path, {"spec": {"replicas": 3}})
    reported = await cluster.merge(f"{path}/status", {"status": {"replicas": 3}})

    assert [o["metadata"]["generation"] for o in (labelled, scaled, reported)] == [1, 2, 2]


async def test_spec_and_status_are_written_at_their_own_endpoints() -> None:
    cluster = Cluster()
    path = f"{DEPLOYMENTS}/web"
    await cluster.create(DEPLOYMENTS, {**deployment("web"), "status": {"replicas": 9}})

    main = await cluster.merge(path, {"spec": {"replicas": 2}, "status": {"replicas": 8}})
    status = await cluster.merge(
        f"{path}/status", {"spec": {"replicas": 7}, "status": {"replicas": 2}}
    )

    assert main["status"] == {}
    assert main["spec"]["replicas"] == 2
    assert status["spec"]["replicas"] == 2
    assert status["status"] == {"replicas": 2}


@pytest.mark.parametrize(
    ("validation", "status"), [("Strict", 400), ("Warn", 201), ("Ignore", 201)]
)
async def test_unknown_fields_are_refused_warned_of_or_dropped(
    validation: str, status: int
) -> None:
    cluster = Cluster()
    obj = {**pod("p"), "colour": "red"}
    obj["spec"]["containers"][0]["imag"] = "x"

    answer = await cluster.send("POST", PODS, obj, fieldValidation=validation)

    assert answer.status == status
    warned = answer.headers.get("warning", "")
    assert ('299 - "unknown field \\"colour\\""' in warned) == (validation == "Warn")
    if status == 400:
        assert answer.message == (
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
            'unknown field "spec.containers[0].imag", unknown field "colour"'
        )
    else:
        assert "colour" not in answer.body


async def test_a_stateful_set_that_was_read_can_be_applied_again() -> None:
    cluster = Cluster()
    sets, made = DEPLOYMENTS.replace("deployments", "statefulsets"), deployment("store")
    claim = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = {**made["spec"], "volumeClaimTemplates": [claim]}
    read = await cluster.create(sets, {**made, "kind": "StatefulSet", "spec": spec})
    assert read["spec"]["volumeClaimTemplates"][0]["kind"] == "PersistentVolumeClaim"

    again = await cluster.send("PUT", f"{sets}/store", read, fieldValidation="Strict")

    assert again.status == 200, again.message


async def test_a_field_given_twice_is_named() -> None:
    body = b'{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'

    answer = await Cluster().send("POST", CONFIGMAPS, body, fieldValidation="Strict")

    assert answer.status == 400
    assert 'duplicate field "x"' in answer.message


async def test_pods_get_what_their_author_left_out() -> None:
    made = await Cluster().create(PODS, pod("p"))

    spec = made["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1


async def test_a_selector_must_match_its_template_and_stay() -> None:
    cluster = Cluster()
    wrong = deployment("web", selector={"matchLabels": {"app": "other"}})

    refused = await cluster.send("POST", DEPLOYMENTS, wrong)
    await cluster.create(DEPLOYMENTS, deployment("web"))
    change = {"spec": {"selector": {"matchLabels": {"app": "x"}}}}
    moved = await cluster.send("PATCH", f"{DEPLOYMENTS}/web", change, kind=MERGE_PATCH)

    assert "`selector` does not match template `labels`" in refused.message
    assert moved.status == 422
    assert "field is immutable" in moved.message


def test_a_watch_is_known_by_its_query_or_its_path() -> None:
    assert is_watch(Request("GET", "/api/v1/pods", (("watch", "1"),)))
    assert is_watch(Request("GET", "/api/v1/watch/pods"))
    assert not is_watch(Request("GET", "/api/v1/pods", (("watch", "false"),)))
    assert not is_watch(Request("DELETE", "/api/v1/pods", (("watch", "1"),)))
    assert not is_watch(Request("GET", "/api/v1/namespaces/watch/pods"))


async def test_a_namespace_may_be_called_watch() -> None:
    cluster = Cluster()
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": "watch"}})
    await cluster.create("/api/v1/namespaces/watch/configmaps", configmap("c"))

    assert await cluster.names("/api/v1/namespaces/watch/configmaps") == ["c"]


async def test_of_a_toleration_only_its_seconds_may_change() -> None:
    cluster = Cluster()
    given = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    await cluster.create(PODS, pod("p", tolerations=[given]))

    async def change(toleration: dict[str, object]) -> int:
        known = (await cluster.send("GET", f"{PODS}/p")).body
        tolerations = [toleration, *known["spec"]["tolerations"][1:]]
        changed = {**known, "spec": {**known["spec"], "tolerations": tolerations}}
        return (await cluster.send("PUT", f"{PODS}/p", changed)).status

    assert await change({**given, "tolerationSeconds": 9}) == 200
    assert await change({**given, "key": "b"}) == 422
