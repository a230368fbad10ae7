"""Clusterset IPs of kep-1645: the endpoints that a proxy needs behind derived Services."""

from datetime import timedelta
from typing import Any

import msgspec

from hanse.app import BROKER
from hanse.features.services.derived import derived_name
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.kube.transport import Request
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, Endpoint, EndpointSlice
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from tests.scenarios.services import ServicesScenario
from tests.support.faults import LinkFaults
from tests.support.scenario import Check, describe_writes

WEB = {"app": "web"}
DERIVED = derived_name(Key("import", "web"))
NAMED_TARGET = {"name": "http", "port": 80, "targetPort": "web"}


async def create(services: ServicesScenario, cluster: ClusterId, path: str, body: Any) -> None:
    namespace = services.scenario.namespace
    body = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    await services.admin(cluster).send(
        Request("POST", path.format(namespace), body=msgspec.json.encode(body))
    )


async def deploy(services: ServicesScenario, cluster: ClusterId, name: str, port: int) -> None:
    """Two pods that serve the port named `web` at this number."""
    container = {"name": "web", "image": "web", "ports": [{"name": "web", "containerPort": port}]}
    labels = {**WEB, "version": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    await create(services, cluster, "/apis/apps/v1/namespaces/{}/deployments", body)


async def serve_pods(services: ServicesScenario, cluster: ClusterId, **spec: Any) -> None:
    """An exported Service whose target port is a name, with two pods."""
    fields = {"selector": WEB, "ports": [NAMED_TARGET], **spec}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": fields}
    await create(services, cluster, "/api/v1/namespaces/{}/services", body)
    await deploy(services, cluster, "first", 8080)
    await services.export(cluster)


async def list_slices(
    services: ServicesScenario, cluster: ClusterId, service: str
) -> list[EndpointSlice]:
    """The slices that a proxy reads for a Service."""
    listed = await services.admin(cluster).list(
        EndpointSlice,
        namespace=services.scenario.namespace,
        labels=f"{KUBE_SERVICE}={service}",
    )
    return list(listed.objects)


async def pod_addresses(services: ServicesScenario, cluster: ClusterId) -> set[str]:
    """The addresses of the pods behind a cluster's own Service."""
    found = await list_slices(services, cluster, "web")
    return {a for s in found for e in s.endpoints or () for a in e.addresses}


async def derived_endpoints(
    services: ServicesScenario, cluster: ClusterId
) -> dict[ClusterId, dict[str, tuple[int | None, Endpoint]]]:
    """Port and endpoint by address and source cluster, behind a cluster's derived Service."""
    found: dict[ClusterId, dict[str, tuple[int | None, Endpoint]]] = {}
    for endpoint_slice in await list_slices(services, cluster, DERIVED):
        several = found.setdefault(endpoint_slice.metadata.labels[SOURCE_CLUSTER], {})
        for endpoint in endpoint_slice.endpoints or ():
            [port] = endpoint_slice.ports or ()
            several[endpoint.addresses[0]] = (port.port, endpoint)
    return found


def is_backed_by(services: ServicesScenario, cluster: ClusterId, **wanted: set[str]) -> Check[None]:
    """That exactly these addresses are behind a cluster's derived Service, by source."""

    async def check() -> None:
        found = {c: {*e} for c, e in (await derived_endpoints(services, cluster)).items()}
        assert found == wanted, f"{cluster} balances over {found}"

    return check


async def two_pods(services: ServicesScenario, cluster: ClusterId) -> set[str]:
    """The addresses of a cluster's two pods, once they have them."""

    async def check() -> set[str]:
        found = await pod_addresses(services, cluster)
        assert len(found) == 2, f"{cluster} has {found}"
        return found

    return await services.scenario.eventually(check)


async def test_pods_of_all_clusters_are_behind_a_clusterset_ip(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    for cluster in ("bergen", "lubeck"):
        await serve_pods(services, cluster)
    bergen, lubeck = await two_pods(services, "bergen"), await two_pods(services, "lubeck")

    for cluster in scenario.names:
        await scenario.eventually(is_backed_by(services, cluster, bergen=bergen, lubeck=lubeck))

    for cluster in scenario.names:
        for source, endpoints in (await derived_endpoints(services, cluster)).items():
            for port, endpoint in endpoints.values():
                assert port == 8080
                assert endpoint.conditions.ready is True
                assert endpoint.conditions.serving is True
                assert endpoint.conditions.terminating is False
                assert endpoint.target_ref is None
                assert endpoint.hints is None
                assert bool(endpoint.node_name) == (source == cluster)
    await scenario.lengthen_leases()
    await scenario.settled()
    start = len(scenario.network.sent)
    await scenario.restart_agents()
    await scenario.settled()
    assert describe_writes(scenario.writes_since(start)) == []


async def test_a_changed_pod_costs_one_slice_on_the_broker_and_one_in_each_cluster(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    for cluster in ("bergen", "lubeck"):
        await services.serve(cluster)
        for slot in ("a", "b"):
            await services.pods(cluster, "web", True, True, slot=slot)
        await services.export(cluster)
    both = dict.fromkeys(("bergen", "lubeck"), [True] * 4)
    for cluster in scenario.names:
        await scenario.eventually(services.has_endpoints(cluster, **both))
    await scenario.settled()
    start = len(scenario.network.sent)

    await services.pods("lubeck", "web", True, False, slot="b")

    expected = {**both, "lubeck": [False, True, True, True]}
    for cluster in scenario.names:

        async def follows(cluster: ClusterId = cluster) -> None:
            found = await services.endpoints(cluster)
            observed = {c: sorted(ready for _, ready in found[c]) for c in found}
            assert observed == expected

        await scenario.eventually(follows)
    await scenario.settled()
    written = scenario.writes_since(start)
    assert sorted((w.source, w.target) for w in written) == sorted(
        [("lubeck", BROKER), *((cluster, cluster) for cluster in scenario.names)]
    ), describe_writes(written)
    assert all("/endpointslices/" in w.request.path for w in written)


async def test_a_named_port_may_have_another_number_in_other_pods(
    services: ServicesScenario,
) -> None:
    await services.set_profile("kep-1645")
    await serve_pods(services, "lubeck")
    await deploy(services, "lubeck", "second", 9090)

    async def both_numbers() -> None:
        found = (await derived_endpoints(services, "bergen")).get("lubeck", {})
        assert sorted(port or 0 for port, _ in found.values()) == [8080, 8080, 9090, 9090]

    await services.scenario.eventually(both_numbers)


async def test_where_service_addresses_are_published_a_cluster_uses_its_own_pods(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.patch_clusterset({"profile": "kep-1645", "endpoints": "serviceIPs"})
    for cluster in ("bergen", "lubeck"):
        await serve_pods(services, cluster)
    pods = await two_pods(services, "bergen")
    remote = await services.found("lubeck", Service)
    assert remote is not None

    await scenario.eventually(
        is_backed_by(services, "bergen", bergen=pods, lubeck={remote.spec.cluster_ip})
    )
    endpoints = (await derived_endpoints(services, "bergen"))["lubeck"]
    assert [port for port, _ in endpoints.values()] == [80]


async def test_a_clusters_own_pods_follow_while_the_broker_is_away(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    await serve_pods(services, "lubeck")
    before = await two_pods(services, "lubeck")
    await scenario.eventually(is_backed_by(services, "lubeck", lubeck=before))

    scenario.network.cut("lubeck", BROKER)
    path = f"/apis/apps/v1/namespaces/{scenario.namespace}/deployments/first"
    await services.admin("lubeck").send(Request("DELETE", path))

    await scenario.eventually(is_backed_by(services, "lubeck", lubeck=set()))
    assert await services.found("lubeck", ServiceImport) is not None
    scenario.network.heal_all()
    await scenario.eventually(is_backed_by(services, "bergen", lubeck=set()))


async def test_the_clusterset_ip_stands_when_the_own_export_follows_the_last_of_others(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    await services.serve_and_export("lubeck")
    await scenario.eventually(services.everywhere("web", "lubeck"))
    before = await services.found("bergen", ServiceImport)
    await scenario.kill_agent("bergen")
    await services.serve_and_export("bergen")
    await services.unexport("lubeck")
    await scenario.eventually(services.imports("hamburg", "web"))
    late = LinkFaults(lag=timedelta(seconds=2), lags="endpointslices")

    scenario.network.link("bergen", scenario.broker).faults = late
    await scenario.start_agent("bergen")

    await scenario.eventually(services.everywhere("web", "bergen"))
    after = await services.found("bergen", ServiceImport)
    assert before is not None
    assert after is not None
    assert (after.spec.ips, after.metadata.uid) == (before.spec.ips, before.metadata.uid)
