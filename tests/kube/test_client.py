"""The typed calls: answers become objects, refusals become typed errors."""

import msgspec
import pytest

from hanse.kube.client import Client
from hanse.kube.errors import (
    AlreadyExists,
    BadCredentials,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Throttled,
    UndecodableObject,
    Unreachable,
)
from hanse.kube.rest_mapper import ServedKinds
from hanse.kube.transport import Response
from hanse.kube.watch_events import Unreadable
from hanse.model.kinds.core import Service
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Kind, Meta
from tests.kube.scripted_transport import ScriptedTransport, answer, page, refusal, service
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_a_read_gives_the_object() -> None:
    server = ScriptedTransport(answer(service("web", 7, clusterIP="10.0.0.1")))

    found = await Client(server).read(Service, "web", "shop")

    assert (found.name, found.metadata.resource_version) == ("web", "7")
    assert server.requests[0].target == "/api/v1/namespaces/shop/services/web"


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (refusal(400, "BadRequest"), Invalid),
        (refusal(401, "Unauthorized"), BadCredentials),
        (refusal(403, "Forbidden"), Forbidden),
        (refusal(404, "NotFound"), NotFound),
        (refusal(409, "Conflict"), Conflict),
        (refusal(409, "AlreadyExists"), AlreadyExists),
        (refusal(410, "Expired"), Gone),
        (refusal(422, "Invalid"), Invalid),
        (refusal(429, "TooManyRequests"), Throttled),
        (refusal(500, "InternalError"), ServerError),
        (Response(502, b"<html>bad gateway</html>"), ServerError),
        (Response(200, b"<html>welcome</html>"), Unreachable),
        (answer({"metadata": {"name": 7}}), UndecodableObject),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value.status),
)
async def test_every_refusal_has_its_type(response: Response, error: type[KubeError]) -> None:
    with pytest.raises(KubeError) as raised:
        await Client(ScriptedTransport(response)).read(Service, "web", "shop")

    assert type(raised.value) is error


async def test_a_create_is_sent_in_the_version_that_is_served() -> None:
    older = Kind("multicluster.x-k8s.io", "v1alpha1", "ServiceExport", "serviceexports")
    server = ScriptedTransport(answer({"metadata": {"name": "web", "resourceVersion": "1"}}))
    client = Client(server)
    client.rest_mapper.update(ServedKinds(frozenset({older})))

    await client.create(ServiceExport(metadata=Meta(name="web", namespace="shop")))

    assert server.requests[0].path == (
        "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/shop/serviceexports"
    )
    assert msgspec.json.decode(server.requests[0].body)["apiVersion"] == older.api_version


async def test_a_delete_that_a_finalizer_holds_gives_what_is_left() -> None:
    dying = service("web", 9)
    dying["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    server = ScriptedTransport(
        answer(dying), answer({"kind": "Status", "status": "Success"}), answer(service("web", 9))
    )
    client = Client(server)

    left = await client.delete(Service, "web", "shop", uid="uid-web")
    status_result = await client.delete(Service, "web", "shop")
    object_result = await client.delete(Service, "web", "shop")

    assert left is not None
    assert left.metadata.finalizers == ("x/y",)
    assert status_result is None
    assert object_result is None


async def test_a_list_follows_its_pages() -> None:
    server = ScriptedTransport(
        page(service("a", 1), service("b", 2), version=5, after="next"),
        page(service("c", 3), version=5),
    )

    listed = await Client(server).list(Service, namespace="shop", labels="app=web")

    assert [s.name for s in listed.objects] == ["a", "b", "c"]
    assert listed.resource_version == "5"
    assert dict(server.requests[1].query)["continue"] == "next"
    assert dict(server.requests[1].query)["labelSelector"] == "app=web"


async def test_a_list_whose_pages_expire_begins_again() -> None:
    server = ScriptedTransport(
        page(service("a", 1), version=5, after="next"),
        refusal(410, "Expired"),
        page(service("a", 6), version=9),
    )

    listed = await Client(server).list(Service)

    assert listed.resource_version == "9"
    assert [s.metadata.resource_version for s in listed.objects] == ["6"]


async def test_a_list_that_always_expires_is_given_up() -> None:
    server = ScriptedTransport(*[refusal(410, "Expired")] * 9)

    with pytest.raises(Gone):
        await Client(server).list(Service)


async def test_one_bad_object_does_not_hide_the_others_of_a_list() -> None:
    bad = service("bad", 2, ports="eighty")
    server = ScriptedTransport(page(service("a", 1), bad, service("c", 3), version=5))

    listed = await Client(server).list(Service)

    assert [s.name for s in listed.objects] == ["a", "c"]
    [unreadable] = listed.unreadable
    assert isinstance(unreadable, Unreadable)
    assert (unreadable.namespace, unreadable.name) == ("shop", "bad")
    assert "ports" in unreadable.reason


async def test_an_object_without_even_a_name_is_reported() -> None:
    server = ScriptedTransport(page({"metadata": {"name": 5}}, service("a", 1), version=5))

    listed = await Client(server).list(Service)

    assert [s.name for s in listed.objects] == ["a"]
    assert listed.unreadable[0].name == ""


async def test_an_empty_list_may_say_null() -> None:
    server = ScriptedTransport(answer({"metadata": {"resourceVersion": "3"}, "items": None}))

    listed = await Client(server).list(Service)

    assert listed.objects == ()
    assert listed.resource_version == "3"


async def test_a_client_beside_another_does_not_wait_behind_it() -> None:
    server = ScriptedTransport(
        refusal(429, "TooManyRequests", retry_after="60"), answer(service("web", 1))
    )
    client = Client(server)
    with pytest.raises(Throttled):
        await client.read(Service, "web", "shop")

    found = await client.with_own_limit().read(Service, "web", "shop")

    assert found.name == "web"
