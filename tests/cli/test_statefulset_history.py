"""Where `hanse statefulsets` finds a set that a cluster hosts, and its templates."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from hanse.cli.apply import apply_definitions
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.statefulsets.history import read_history, restart
from hanse.features.statefulsets.names import SET
from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.clock import WallClock
from hanse.kube.errors import BadCredentials, KubeError, Unreachable
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.apps import ControllerRevision, StatefulSet
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import ClusterSet, FederatedStatefulSet
from hanse.model.manifests import crd_manifests
from hanse.model.objects import Meta, Object
from hanse.model.ownership import OWNER
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio

POD = {
    "metadata": {"labels": {"app": "store"}},
    "spec": {"containers": [{"name": "store", "image": "redis:8"}]},
}
SPEC = {"selector": {"matchLabels": {"app": "store"}}, "serviceName": "store", "template": POD}


class Failing(InProcessTransport):
    """A server from which no response comes."""

    def __init__(self, error: KubeError) -> None:
        self._error = error

    async def send(self, request: Request) -> Response:
        raise self._error


def federated(**labels: str) -> FederatedStatefulSet:
    wire = {
        "metadata": {"name": "store", "namespace": "shop", "labels": labels},
        "spec": {"template": {"spec": SPEC}},
    }
    return msgspec.convert(wire, FederatedStatefulSet)


async def server(*objects: Object) -> InProcessTransport:
    """A cluster with these objects in its namespace shop."""
    transport = InProcessTransport(ApiServer("cluster", clock=WallClock()))
    client = Client(transport)
    await apply_definitions(client, crd_manifests((ClusterSet, FederatedStatefulSet)))
    for one in (Namespace(metadata=Meta(name="shop")), *objects):
        await client.create(one)
    return transport


Fleet = Callable[..., tuple[ClusterAccess, ...]]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Makes clusters of transports; the transport stands for the credentials."""
    monkeypatch.setattr("hanse.cli.clusters._transport", lambda transport: transport)
    return lambda **transports: tuple(
        ClusterAccess(name, cast("Credentials", one)) for name, one in transports.items()
    )


UNREAD = pytest.mark.parametrize(
    "error",
    [Unreachable("connection refused"), BadCredentials("Unauthorized")],
    ids=["unreachable", "wrong credentials"],
)


@UNREAD
async def test_a_hosted_set_is_restarted_while_another_cluster_cannot_be_read(
    fleet: Fleet, error: KubeError
) -> None:
    hub = await server(
        ClusterSet(metadata=Meta(name="hanse")), federated(**{OWNER: "statefulsets"})
    )
    host = await server(federated())

    await restart(fleet(bergen=Failing(error), hub=hub, lubeck=host), "shop", "store")

    changed = await Client(host).read(FederatedStatefulSet, "store", "shop")
    annotations: dict[str, Any] = changed.spec.template.spec["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations


@UNREAD
async def test_a_host_that_cannot_be_read_is_named(fleet: Fleet, error: KubeError) -> None:
    hub = await server(
        ClusterSet(metadata=Meta(name="hanse")), federated(**{OWNER: "statefulsets"})
    )

    with pytest.raises((CommandFailed, InputError), match=r"bergen.*(refused|Unauthorized)"):
        await restart(fleet(bergen=Failing(error), hub=hub), "shop", "store")


@UNREAD
async def test_the_history_of_a_cluster_is_read_while_another_cannot_be(
    fleet: Fleet, error: KubeError
) -> None:
    hub = await server(
        ClusterSet(metadata=Meta(name="hanse")), federated(**{OWNER: "statefulsets"})
    )
    meta = {"namespace": "shop", "name": "store", "labels": {SET: "store"}}
    host = await server(federated(), msgspec.convert({"metadata": meta, "spec": SPEC}, StatefulSet))
    client = Client(host)
    owner = await client.read(StatefulSet, "store", "shop")
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "store"}
    revision = {
        "metadata": {
            "name": "store-1",
            "namespace": "shop",
            "ownerReferences": [{**reference, "uid": owner.metadata.uid}],
        },
        "revision": 1,
        "data": {"spec": {"template": POD}},
    }
    await client.create(msgspec.convert(revision, ControllerRevision))

    found = await read_history(fleet(bergen=Failing(error), hub=hub, lubeck=host), "shop", "store")

    assert (found.cluster, [one.number for one in found.revisions]) == ("lubeck", [1])
