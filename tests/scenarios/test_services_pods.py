"""Exports of Services whose pods are created by controllers."""

from typing import Any

import msgspec

from hanse.kube.transport import Request
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import Meta
from tests.scenarios.services import ServicesScenario
from tests.support.scenario import Check

APP = {"app": "web"}
POD: dict[str, Any] = {
    "metadata": {"labels": APP},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
}


async def deploy(services: ServicesScenario, cluster: str, replicas: int) -> None:
    namespace = services.scenario.namespace
    spec = {"replicas": replicas, "selector": {"matchLabels": APP}, "template": POD}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": spec,
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    body = msgspec.json.encode(deployment)
    await services.admin(cluster).send(Request("POST", path, body=body))


async def scale(services: ServicesScenario, cluster: str, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{services.scenario.namespace}/deployments/web/scale"
    await services.admin(cluster).send(
        Request(
            "PATCH",
            path,
            body=msgspec.json.encode({"spec": {"replicas": replicas}}),
            content_type="application/merge-patch+json",
        )
    )


async def slices(services: ServicesScenario, cluster: str) -> list[EndpointSlice]:
    """What a cluster imports of the service."""
    listed = await services.admin(cluster).list(
        EndpointSlice,
        namespace=services.scenario.namespace,
        labels="multicluster.kubernetes.io/service-name=web",
    )
    return list(listed.objects)


def holds(services: ServicesScenario, cluster: str, pods: int) -> Check[None]:
    """That a cluster knows so many ready pods, in slices of a hundred at most."""

    async def check() -> None:
        found = await slices(services, cluster)
        ready = {e.addresses[0] for s in found for e in s.endpoints or () if e.ready}
        assert len(ready) == pods, f"{cluster} knows {len(ready)} pods"
        assert all(len(s.endpoints or ()) <= 100 for s in found)

    return check


async def test_a_deployment_scaled_to_nothing_empties_the_slice_and_fills_it_again(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve("lubeck", selector=APP)
    await services.export("lubeck")
    await deploy(services, "lubeck", 2)
    await scenario.eventually(services.has_endpoints("bergen", lubeck=[True]))

    await scale(services, "lubeck", 0)
    await scenario.eventually(services.has_endpoints("bergen", lubeck=[]))
    await services.imports("bergen", "web", "lubeck")()
    await scale(services, "lubeck", 1)

    await scenario.eventually(services.has_endpoints("bergen", lubeck=[True]))


async def test_the_pods_of_a_stateful_set_are_known_by_their_host_names(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve("lubeck", selector=APP, headless=True)
    await services.export("lubeck")
    spec = StatefulSetSpec(
        replicas=2,
        selector={"matchLabels": APP},
        template=POD,
        service_name="web",
        pod_management_policy="Parallel",
    )
    meta = Meta(name="web", namespace=scenario.namespace)
    await services.admin("lubeck").create(StatefulSet(metadata=meta, spec=spec))

    await scenario.eventually(holds(services, "bergen", 2))
    names = {e.hostname for s in await slices(services, "bergen") for e in s.endpoints or ()}
    assert names == {"web-0", "web-1"}


async def test_over_a_hundred_pods_are_all_known_in_several_slices(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve("lubeck", selector=APP, headless=True)
    await services.export("lubeck")
    await deploy(services, "lubeck", 103)

    await scenario.eventually(holds(services, "bergen", 103))
    assert len(await slices(services, "bergen")) >= 2

    await scale(services, "lubeck", 1)

    await scenario.eventually(holds(services, "bergen", 1))
