from typing import Any

import msgspec
import pytest

from tinykube.builtin_resources import BUILTINS
from tinykube.discovery import respond
from tinykube.request import Request, Response
from tinykube.resources import CustomVersion, Registry, Resource, Subresource

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


def ship(version: str = "v1") -> Resource:
    return Resource(
        "example.com",
        version,
        "Ship",
        "ships",
        singular="ship",
        short_names=("sh",),
        subresources=(Subresource("status", "Ship"),),
        categories=("fleet",),
        custom=CustomVersion(schema={}),
    )


@pytest.fixture
def registry() -> Registry:
    return Registry(BUILTINS)


def answer(registry: Registry, path: str, accept: str = "application/json") -> Response:
    found = respond(registry, Request("GET", path, accept=accept))
    assert found is not None
    return found


def document(registry: Registry, path: str, accept: str = "application/json") -> Any:
    return msgspec.json.decode(answer(registry, path, accept).body)


def test_the_core_group_has_one_version(registry: Registry) -> None:
    assert document(registry, "/api")["versions"] == ["v1"]


def test_groups_name_their_versions_and_the_preferred_one(registry: Registry) -> None:
    registry.define("ships", (ship("v1beta1"), ship("v1")))

    groups = {group["name"]: group for group in document(registry, "/apis")["groups"]}

    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    versions = [version["version"] for version in groups["example.com"]["versions"]]
    assert versions == ["v1", "v1beta1"]
    assert document(registry, "/apis/example.com")["preferredVersion"]["version"] == "v1"


def test_resources_are_listed_with_their_subresources(registry: Registry) -> None:
    listed = document(registry, "/apis/apps/v1")
    by_name = {resource["name"]: resource for resource in listed["resources"]}

    assert listed["groupVersion"] == "apps/v1"
    assert by_name["deployments"]["shortNames"] == ["deploy"]
    assert by_name["deployments"]["categories"] == ["all"]
    assert by_name["deployments/scale"] | {"verbs": []} == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": [],
    }


@pytest.mark.parametrize(("accept", "version"), [(V2, "v2"), (V2BETA1, "v2beta1")])
def test_aggregated_discovery_lists_all_groups(
    registry: Registry, accept: str, version: str
) -> None:
    registry.define("ships", (ship(),))

    got = answer(registry, "/apis", f"{accept},application/json")
    found = msgspec.json.decode(got.body)

    assert got.headers["content-type"] == accept
    assert found["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    custom = next(item for item in found["items"] if item["metadata"]["name"] == "example.com")
    assert custom["versions"] == [
        {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "ships",
                    "responseKind": {"group": "example.com", "version": "v1", "kind": "Ship"},
                    "scope": "Namespaced",
                    "singularResource": "ship",
                    "verbs": list(ship().verbs),
                    "shortNames": ["sh"],
                    "categories": ["fleet"],
                    "subresources": [
                        {
                            "subresource": "status",
                            "responseKind": {
                                "group": "example.com",
                                "version": "v1",
                                "kind": "Ship",
                            },
                            "verbs": ["get", "patch", "update"],
                        }
                    ],
                }
            ],
        }
    ]


def test_the_core_group_is_aggregated_under_its_own_path(registry: Registry) -> None:
    found = document(registry, "/api", V2)

    assert [version["version"] for item in found["items"] for version in item["versions"]] == ["v1"]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "APIGroupList"),
        ("*/*", "APIGroupList"),
        ("", "APIGroupList"),
        (f"{V2},{V2BETA1},application/json", "APIGroupDiscoveryList"),
        (f"application/json,{V2}", "APIGroupList"),
        ("application/vnd.kubernetes.protobuf,application/json", "APIGroupList"),
        (
            "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json",
            "APIGroupList",
        ),
    ],
)
def test_the_client_chooses_the_form(registry: Registry, accept: str, kind: str) -> None:
    assert document(registry, "/apis", accept)["kind"] == kind


def test_a_new_definition_is_discovered_and_a_withdrawn_one_is_not(registry: Registry) -> None:
    before = answer(registry, "/apis")
    registry.define("ships", (ship(),))
    during = answer(registry, "/apis")
    registry.withdraw("ships")

    assert b"example.com" in during.body
    assert answer(registry, "/apis") == before
    assert respond(registry, Request("GET", "/apis/example.com/v1")) is None


def test_a_known_etag_is_answered_with_304(registry: Registry) -> None:
    etag = answer(registry, "/apis").headers["etag"]

    again = respond(registry, Request("GET", "/apis", headers=(("If-None-Match", etag),)))

    assert again is not None
    assert (again.status, again.body) == (304, b"")


def test_the_version_is_that_of_the_kubernetes_it_follows(registry: Registry) -> None:
    version = document(registry, "/version")

    assert (version["major"], version["minor"]) == ("1", "35")
    assert version["gitVersion"].startswith("v1.35.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
def test_it_is_well(registry: Registry, path: str) -> None:
    assert answer(registry, path).body == b"ok"


def test_verbose_health_lists_the_checks(registry: Registry) -> None:
    request = Request("GET", "/readyz", query=(("verbose", ""),))

    found = respond(registry, request)

    assert found is not None
    assert found.body.endswith(b"readyz check passed\n")


def test_the_root_lists_where_to_go(registry: Registry) -> None:
    paths = document(registry, "/")["paths"]

    assert {"/api/v1", "/apis/apps/v1", "/openapi/v3", "/version"} <= set(paths)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/apis/none.example.com"),
        ("GET", "/apis/apps/v9"),
        ("GET", "/api/v1/pods"),
        ("GET", "/metrics"),
        ("GET", "/readyz/etcd"),
        ("GET", "/openapi/v3/apis/none/v1"),
        ("POST", "/version"),
    ],
)
def test_other_requests_are_not_for_it(registry: Registry, method: str, path: str) -> None:
    assert respond(registry, Request(method, path)) is None
