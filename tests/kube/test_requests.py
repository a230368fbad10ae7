"""Requests are values: what goes on the wire is known without sending it."""

from datetime import timedelta

import msgspec
import pytest

from hanse.kube import requests
from hanse.kube.transport import MERGE_PATCH
from hanse.model.objects import Kind

SERVICE = Kind("", "v1", "Service", "services")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(requests.resource_path(SERVICE), "/api/v1/services", id="everywhere"),
        pytest.param(
            requests.resource_path(SERVICE, "shop"),
            "/api/v1/namespaces/shop/services",
            id="namespace",
        ),
        pytest.param(
            requests.resource_path(SERVICE, "shop", "web", "status"),
            "/api/v1/namespaces/shop/services/web/status",
            id="subresource",
        ),
        pytest.param(
            requests.resource_path(LEASE, "kube-system", "a"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a",
            id="group",
        ),
        pytest.param(
            requests.resource_path(NODE, "ignored", "n1"), "/api/v1/nodes/n1", id="cluster-scoped"
        ),
        pytest.param(
            requests.resource_path(ROLE, "", "system:basic user/x?"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic%20user%2Fx%3F",
            id="quoted",
        ),
    ],
)
def test_a_path_names_the_group_the_namespace_and_the_object(path: str, expected: str) -> None:
    assert path == expected


def test_a_create_names_its_field_manager_and_may_be_a_dry_run() -> None:
    request = requests.create(SERVICE, "shop", {"a": 1}, field_manager="hanse", dry_run=True)

    assert request.method == "POST"
    assert request.target == "/api/v1/namespaces/shop/services?fieldManager=hanse&dryRun=All"
    assert request.body == b'{"a":1}'


def test_a_patch_is_a_merge_patch() -> None:
    change = {"metadata": {"resourceVersion": "7"}}

    request = requests.patch(
        SERVICE, "web", "shop", change, field_manager="hanse", subresource="status"
    )

    assert (request.method, request.content_type) == ("PATCH", MERGE_PATCH)
    assert request.target.startswith("/api/v1/namespaces/shop/services/web/status?")
    assert msgspec.json.decode(request.body) == change


def test_a_delete_carries_its_preconditions() -> None:
    request = requests.delete(SERVICE, "web", "shop", uid="u1", resource_version="7")

    assert msgspec.json.decode(request.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u1", "resourceVersion": "7"},
    }


def test_a_delete_without_preconditions_sends_none() -> None:
    request = requests.delete(SERVICE, "web", "shop", propagation="Orphan")

    assert "preconditions" not in msgspec.json.decode(request.body)


def test_an_empty_name_never_becomes_a_request_for_everything() -> None:
    with pytest.raises(ValueError, match="needs its name"):
        requests.delete(SERVICE, "", "shop")


def test_a_list_is_paged_and_never_asks_for_old_state() -> None:
    request = requests.list_page(SERVICE, labels="a=b,c", after="token=")

    assert request.target == "/api/v1/services?labelSelector=a%3Db%2Cc&limit=500&continue=token%3D"
    assert "resourceVersion" not in dict(request.query)


def test_a_watch_resumes_with_bookmarks_and_a_time_of_its_own() -> None:
    request = requests.watch(SERVICE, after="41", timeout=timedelta(seconds=301.7))

    assert dict(request.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "301",
        "resourceVersion": "41",
    }


def test_a_streamed_list_asks_for_the_newest_state() -> None:
    query = dict(requests.watch_list(SERVICE, timeout=timedelta(minutes=5)).query)

    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in query
