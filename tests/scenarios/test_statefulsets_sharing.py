"""Several sets behind one headless Service: it serves all of them and goes with the last."""

import msgspec
import pytest

from hanse.app import BROKER
from hanse.kube.request import Request
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import (
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    StatefulSetTemplate,
)
from hanse.model.labels import OWNER
from hanse.model.objects import Meta
from tests.scenarios.shipyard import Shipyard, headless, spec_of
from tests.support.stage import Check

HOST = "hamburg"


@pytest.mark.virtual
@pytest.mark.parametrize("names", [("alpha", "store"), ("store", "alpha")], ids=["before", "after"])
async def test_two_sets_share_a_service_and_the_last_takes_it_along(
    shipyard: Shipyard, names: tuple[str, str]
) -> None:
    stage = shipyard.stage
    await shipyard.person(BROKER).create(headless("etcd", stage.shop))
    for name in names:
        await submit(shipyard, name)
        await stage.eventually(is_told_ready(shipyard, name))
    service = await uids(shipyard)

    await shipyard.person(BROKER).delete(StatefulSet, names[0], stage.shop)
    await stage.eventually(has_no_set(shipyard, names[0]))
    await stage.settled()
    assert await uids(shipyard) == service, "it was never away"
    await is_told_ready(shipyard, names[1])()

    await shipyard.person(BROKER).delete(StatefulSet, names[1], stage.shop)
    await stage.eventually(shipyard.is_gone())
    for cluster in stage.names:
        assert await shipyard.found(cluster, Service, "etcd") is None


@pytest.mark.virtual
async def test_a_set_that_is_let_go_of_leaves_the_service_to_the_other(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.person(BROKER).create(headless("etcd", stage.shop))
    for name in ("alpha", "store"):
        await submit(shipyard, name)
        await stage.eventually(is_told_ready(shipyard, name))

    path = f"/apis/apps/v1/namespaces/{stage.shop}/statefulsets/alpha"
    body = msgspec.json.encode({"propagationPolicy": "Orphan"})
    await shipyard.person(BROKER).send(Request("DELETE", path, body=body))

    async def let_go() -> None:
        for cluster in stage.names:
            own = await shipyard.found(cluster, StatefulSet, f"alpha-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels
            service = await shipyard.found(cluster, Service, "etcd")
            assert service is not None
            assert service.metadata.labels["statefulsets.hanse.dev/set"] == "store"
            assert OWNER in service.metadata.labels

    await stage.eventually(let_go)


@pytest.mark.virtual
async def test_two_sets_of_a_host_share_a_service(shipyard: Shipyard) -> None:
    stage, host = shipyard.stage, shipyard.person(HOST)
    await host.create(headless("etcd", stage.shop))
    for name in ("alpha", "store"):
        template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(3)))
        meta = Meta(name=name, namespace=stage.shop)
        spec = FederatedStatefulSetSpec(template=template)
        await host.create(FederatedStatefulSet(metadata=meta, spec=spec))
        await stage.eventually(runs_everywhere(shipyard, name))
    there = await shipyard.person(BROKER).read(Service, "etcd", stage.shop)

    await host.delete(FederatedStatefulSet, "alpha", stage.shop)
    await stage.eventually(has_no_set(shipyard, "alpha"))
    await stage.settled()

    still = await shipyard.person(BROKER).read(Service, "etcd", stage.shop)
    assert still.metadata.uid == there.metadata.uid, "it was never away"
    await runs_everywhere(shipyard, "store")()
    await host.delete(FederatedStatefulSet, "store", stage.shop)
    await stage.eventually(has_no_set(shipyard, "store"))
    await stage.settled()
    assert await shipyard.found(BROKER, Service, "etcd") is None


async def submit(shipyard: Shipyard, name: str) -> None:
    meta = Meta(name=name, namespace=shipyard.stage.shop)
    await shipyard.person(BROKER).create(StatefulSet(metadata=meta, spec=spec_of(3)))


async def uids(shipyard: Shipyard) -> dict[str, str]:
    """The headless Service of every cluster."""
    names = shipyard.stage.names
    found = {c: await shipyard.found(c, Service, "etcd") for c in names}
    return {c: s.metadata.uid for c, s in found.items() if s is not None}


def is_told_ready(shipyard: Shipyard, name: str) -> Check[None]:
    """That all replicas of a set are ready and nothing is in their way."""

    async def check() -> None:
        door = await shipyard.person(BROKER).read(StatefulSet, name, shipyard.stage.shop)
        told = {c.type: c for c in door.status.conditions}
        assert "Ready" in told
        assert told["Ready"].status == "True", told
        assert "Trouble" not in told, told["Trouble"].message

    return check


def runs_everywhere(shipyard: Shipyard, name: str) -> Check[None]:
    """That every cluster runs one replica of a set."""

    async def check() -> None:
        for cluster in shipyard.stage.names:
            own = await shipyard.found(cluster, StatefulSet, f"{name}-{cluster}")
            assert own is not None
            assert own.status.ready_replicas == 1

    return check


def has_no_set(shipyard: Shipyard, name: str) -> Check[None]:
    """That no cluster runs anything of a set."""

    async def check() -> None:
        for cluster in shipyard.stage.names:
            assert await shipyard.found(cluster, StatefulSet, f"{name}-{cluster}") is None

    return check
