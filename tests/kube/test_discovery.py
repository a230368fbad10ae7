"""Which kinds are served: in the new form and the old one, and as CRDs come and go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import msgspec
import pytest

from hanse.kube.client import Client
from hanse.kube.discovery import DiscoveryChange, refresh
from hanse.kube.errors import Unreachable
from hanse.kube.transport import JSON, Request, Response, Transport
from hanse.kube.watch_events import Listed, NotServed
from hanse.kube.watcher import list_and_watch
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Node, Service
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Kind
from hanse.runtime.api import ClusterClient
from tests.kube.scripted_transport import ScriptedTransport, answer, refusal
from tests.support.faults import Network
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EXPORTS = "serviceexports.multicluster.x-k8s.io"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def definition(*versions: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": EXPORTS},
        "spec": {
            "group": "multicluster.x-k8s.io",
            "scope": "Namespaced",
            "names": {
                "kind": "ServiceExport",
                "plural": "serviceexports",
                "singular": "serviceexport",
                "listKind": "ServiceExportList",
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": schema},
                }
                for version in versions
            ],
        },
    }


class Older:
    """A server that knows only the old form of discovery."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        return await self._inner.send(msgspec.structs.replace(request, accept=JSON))

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def cluster() -> InProcessTransport:
    return InProcessTransport(ApiServer("lubeck", clock=LoopClock()))


async def define(client: Client, *versions: str) -> None:
    body = msgspec.json.encode(definition(*versions))
    await client.send(Request("POST", CRDS, body=body))


async def test_the_old_form_and_the_new_one_are_equivalent() -> None:
    transport = cluster()
    newer, older = Client(transport), Client(Older(transport))

    await refresh(newer)
    await refresh(older)

    assert newer.rest_mapper.served == older.rest_mapper.served
    assert newer.rest_mapper.served is not None
    assert {Service.kind, Node.kind, Lease.kind} <= newer.rest_mapper.served.kinds


async def test_kinds_of_the_core_group_need_not_be_asked_for() -> None:
    client = Client(InProcessTransport(ApiServer("lubeck", clock=LoopClock())))

    await refresh(client, core=False)

    served = client.rest_mapper.served
    assert served is not None
    assert (served.resolve(Lease), served.resolve(Node)) == (Lease.kind, None)
    assert client.rest_mapper.served_kind(Node) == Node.kind
    await client.list(Node)


async def test_a_definition_that_appears_or_goes_is_reported() -> None:
    client = Client(cluster())
    await refresh(client)

    await define(client, "v1alpha1")
    appeared = await refresh(client)
    unchanged = await refresh(client)
    await client.send(Request("DELETE", f"{CRDS}/{EXPORTS}"))
    gone = await refresh(client)

    exports = Kind("multicluster.x-k8s.io", "v1alpha1", "ServiceExport", "serviceexports")
    assert appeared == DiscoveryChange(appeared=frozenset({exports}))
    assert unchanged == DiscoveryChange()
    assert gone == DiscoveryChange(gone=frozenset({exports}))


async def test_a_kind_is_asked_for_in_the_version_that_is_there() -> None:
    client = Client(cluster())
    await define(client, "v1alpha1")

    before = client.rest_mapper.served_kind(ServiceExport)
    await refresh(client)
    after = client.rest_mapper.served_kind(ServiceExport)

    assert (before.version, after.version) == ("v1beta1", "v1alpha1")
    assert (await client.list(ServiceExport)).objects == ()


async def test_a_stream_finds_its_kind_in_another_version_as_soon_as_it_is_defined() -> None:
    client = Client(cluster())
    stream = list_and_watch(client, ServiceExport, random=Random(1))

    absent = await anext(stream)
    await define(client, "v1alpha1")
    await refresh(client)
    found = await anext(stream)
    await stream.aclose()

    assert absent == NotServed()
    assert isinstance(found, Listed)


async def test_a_kind_that_no_definition_has_is_rarely_asked_for_and_found_at_once() -> None:
    network = Network(Random(0))
    client = ClusterClient(network.transport("us", "lubeck", cluster()), Random(0))
    stream = list_and_watch(client, ServiceExport, random=Random(1))

    discovering = asyncio.create_task(client.discover(), name="discover")
    absent = await anext(stream)
    next_event = asyncio.create_task(anext(stream), name="next event")
    await asyncio.sleep(600)
    asked = [w for w in network.watched if w.request.path.endswith("/serviceexports")]
    await define(client, "v1alpha1")
    await asyncio.sleep(1)
    found = next_event.result()
    discovering.cancel()
    await asyncio.wait({discovering})
    await stream.aclose()

    assert absent == NotServed()
    assert len(asked) < 12
    assert isinstance(found, Listed)


AGGREGATED = {
    "items": [
        {
            "metadata": {"name": "metrics.k8s.io"},
            "versions": [
                {
                    "version": "v1",
                    "freshness": "Current",
                    "resources": [
                        {"resource": "nodes", "responseKind": {"kind": "X"}, "scope": "Cluster"}
                    ],
                }
            ],
        }
    ]
}
STALE = {
    "items": [
        {
            "metadata": {"name": "metrics.k8s.io"},
            "versions": [{"version": "v1", "freshness": "Stale"}],
        }
    ]
}
METRICS = Kind("metrics.k8s.io", "v1", "X", "nodes", namespaced=False)


async def test_an_aggregated_api_that_is_down_is_taken_to_be_as_it_was() -> None:
    none = answer({"items": []})
    client = Client(ScriptedTransport(none, answer(AGGREGATED), none, answer(STALE)))

    first = await refresh(client)
    while_down = await refresh(client)

    assert first == DiscoveryChange(appeared=frozenset({METRICS}))
    assert while_down == DiscoveryChange()


async def test_in_the_old_form_too() -> None:
    groups = answer({"groups": [{"name": "metrics.k8s.io", "versions": [{"version": "v1"}]}]})
    kinds = answer({"resources": [{"name": "nodes", "kind": "X", "namespaced": False}]})
    none = answer({"versions": []})
    client = Client(
        ScriptedTransport(none, groups, kinds, none, groups, refusal(503, "ServiceUnavailable"))
    )

    first = await refresh(client)
    while_down = await refresh(client)

    assert first == DiscoveryChange(appeared=frozenset({METRICS}))
    assert while_down == DiscoveryChange()


async def test_what_is_no_discovery_document_is_not_an_api_server() -> None:
    client = Client(ScriptedTransport(Response(200, b"<html>"), Response(200, b"<html>")))

    with pytest.raises(Unreachable):
        await refresh(client)
