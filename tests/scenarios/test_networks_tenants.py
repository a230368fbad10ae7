"""Tenants that try to label, allocate, change or open foreign objects, and what they may do."""

import asyncio
from typing import Any

from hanse.features.networks.names import CNI_ARGS, NETWORK, READINESS, TENANT
from hanse.features.networks.service_addresses import AssignedSlot
from hanse.kube.errors import KubeError
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Endpoints, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network
from tests.scenarios.networks import NetworksScenario, made, refusal

POD = {"containers": [{"name": "main", "image": "none"}]}


async def two_tenants(tenancy: NetworksScenario) -> tuple[str, str]:
    """Two tenants with their networks; gives a namespace of each."""

    async def settle(name: str) -> str:
        tenant = await tenancy.create_tenant(name)
        await tenancy.scenario.eventually(tenancy.has_phase(f"{tenant}.default", "Ready"))
        return await tenancy.create_namespace(tenant)

    spaces = await asyncio.gather(settle("acme"), settle("bolt"))
    return spaces[0], spaces[1]


async def test_what_tenants_make_is_stamped_and_what_they_forge_is_refused(
    guarded: NetworksScenario,
) -> None:
    space, other = await two_tenants(guarded)
    acme, bolt = space.removesuffix("-web"), other.removesuffix("-web")
    anna = await guarded.tenant_client()

    pod = await anna.create(made(Pod, "web", space, spec=POD))
    network = await guarded.admin.read(Network, f"{acme}.default")
    assert pod.metadata.labels == {TENANT: acme, NETWORK: "default"}
    assert pod.spec.dns_policy == "None"
    assert pod.spec.dns_config is not None
    assert pod.spec.dns_config.nameservers == (network.status.dns_service_ip,)
    alias = await guarded.admin.read(Endpoints, "kubernetes-default", f"{acme}-default")
    cluster = await guarded.admin.read(EndpointSlice, "kubernetes", "default")
    assert [a.ip for s in alias.subsets for a in s.addresses] == [
        a for endpoint in cluster.endpoints or () for a in endpoint.addresses
    ]
    service = await anna.create(made(Service, "web", space, spec={"ports": [{"port": 80}]}))
    assert service.metadata.labels == {TENANT: acme, NETWORK: "default"}

    forged = {"labels": {TENANT: bolt}, "spec": POD}
    assert f"belongs to tenant {acme}" in await refusal(
        anna.create(made(Pod, "forged", space, **forged))
    )
    borrowed = {"labels": {NETWORK: "lab"}, "spec": POD}
    assert f"tenant {acme} has no network lab" in await refusal(
        anna.create(made(Pod, "borrowed", space, **borrowed))
    )
    relabel = {"metadata": {"labels": {NETWORK: "lab"}}}
    for kind in (Pod, Service):
        message = await refusal(anna.patch(kind, "web", space, relabel))
        assert "cannot be changed" in message
    template = {"metadata": {"labels": {"a": "b", TENANT: bolt}}, "spec": POD}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    message = await refusal(anna.create(made(Deployment, "web", space, spec=spec)))
    assert "spec.template.metadata.labels" in message
    await anna.patch(Pod, "web", space, {"metadata": {"labels": {"colour": "red"}}})


async def test_a_tenant_cannot_touch_what_is_kept_for_it(guarded: NetworksScenario) -> None:
    space, _ = await two_tenants(guarded)
    acme = space.removesuffix("-web")
    anna = await guarded.tenant_client()
    await guarded.scenario.eventually(guarded.there(NetworkPolicy, "hanse-deny", space))
    alias = "kubernetes-default-kubernetes"

    for kind, name, where in (
        (Service, "kubernetes-default", f"{acme}-default"),
        (EndpointSlice, alias, f"{acme}-default"),
        (NetworkPolicy, "hanse-deny", space),
        (Deployment, "kube-dns-default", f"{acme}-kube-system"),
    ):
        message = await refusal(anna.delete(kind, name, where))
        assert "is kept by Hanse" in message, message
        change = {"metadata": {"annotations": {"mine": "now"}}}
        assert "is kept by Hanse" in await refusal(anna.patch(kind, name, where, change))


async def test_a_tenant_cannot_open_or_lead_into_another_network(guarded: NetworksScenario) -> None:
    space, other = await two_tenants(guarded)
    anna = await guarded.tenant_client()
    theirs = await guarded.admin.create(made(Pod, "secret", other, spec=POD))
    address = await guarded.scenario.eventually(address_of(guarded, theirs.metadata.name, other))

    hole: Any = {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}
    message = await refusal(anna.create(made(NetworkPolicy, "hole", space, spec=hole)))
    assert "namespaceSelector: it may select namespaces of other tenants" in message
    await anna.create(made(Service, "lure", space, spec={"ports": [{"port": 80}]}))
    slice_ = {
        "labels": {"kubernetes.io/service-name": "lure"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
    }
    message = await refusal(anna.create(made(EndpointSlice, "lure-1", space, **slice_)))
    assert "is a pod of another network" in message
    own = {**slice_, "endpoints": [{"addresses": ["198.51.100.1"]}]}
    piece = await anna.create(made(EndpointSlice, "lure-2", space, **own))
    assert piece.metadata.labels[NETWORK] == "default"


def address_of(tenancy: NetworksScenario, name: str, space: str) -> Any:
    async def check() -> str:
        pod = await tenancy.admin.read(Pod, name, space)
        assert pod.status.pod_ip, "no address yet"
        found = (
            tenancy.scenario.agent("lubeck").reconciler.snapshot().get("lubeck", Pod, name, space)
        )
        assert found is not None, "the agent has not seen it"
        assert found.status.pod_ip, "the agent has not seen its address"
        return pod.status.pod_ip

    return check


async def test_addresses_come_from_the_networks_own_pool_and_never_twice(
    guarded: NetworksScenario,
) -> None:
    space, other = await two_tenants(guarded)
    acme = space.removesuffix("-web")
    name = await guarded.create_network(acme, "own", service={"cidrs": ["10.91.0.0/27"]})
    await guarded.scenario.eventually(guarded.has_phase(name, "Ready"))
    anna = await guarded.tenant_client()
    ports = {"ports": [{"port": 80}]}
    mine = {"labels": {NETWORK: "own"}, "spec": ports}

    async def attempt(at: int) -> str:
        try:
            return (await anna.create(made(Service, f"s{at}", space, **mine))).spec.cluster_ip
        except KubeError as error:
            return str(error)

    given = await asyncio.gather(*(attempt(at) for at in range(24)))

    assert all(address.startswith("10.91.0.") for address in given), given
    assert len(set(given)) == 24
    plain = [
        (await anna.create(made(Service, f"p{at}", other, spec=ports))).spec.cluster_ip
        for at in range(12)
    ]
    assert not any(address.startswith("10.91.0.") for address in plain)
    outside = {**mine, "spec": {**ports, "clusterIP": plain[0]}}
    assert f"is outside of network {name}" in await refusal(
        anna.create(made(Service, "outside", space, **outside))
    )
    stolen = {**ports, "clusterIP": "10.91.0.29"}
    assert "is in a range of network" in await refusal(
        anna.create(made(Service, "stolen", guarded.scenario.namespace, spec=stolen))
    )
    for at in range(5):  # 30 usable, two of them the network's own and 24 given
        await attempt(100 + at)
    assert f"no IPv4 address of network {name} is free" in await attempt(200)


async def test_a_pod_on_a_provider_network_comes_through_by_itself(
    guarded: NetworksScenario,
) -> None:
    space, _ = await two_tenants(guarded)
    acme = space.removesuffix("-web")
    subnets = [{"name": "front", "cidr": "10.30.0.0/24"}]
    name = await guarded.create_network(acme, "lab", "vpc", vpcID="v-1", subnets=subnets)
    await guarded.scenario.eventually(guarded.has_phase(name, "Ready"))
    anna = await guarded.tenant_client()

    pod = await anna.create(made(Pod, "web", space, labels={NETWORK: "lab"}, spec=POD))
    assert [g.name for g in pod.spec.scheduling_gates] == [READINESS]
    message = await refusal(
        anna.patch(Pod, "web", space, {"metadata": {"annotations": {CNI_ARGS: "VPCID=v-2"}}})
    )
    assert "cannot be changed" in message

    async def runs() -> None:
        now = await guarded.admin.read(Pod, "web", space)
        assert now.spec.scheduling_gates == ()
        assert "VPCID=v-1" in now.metadata.annotations[CNI_ARGS]
        assert now.spec.node_name, "not scheduled yet"

    await guarded.scenario.eventually(runs)
    bad = {"labels": {NETWORK: "lab"}, "annotations": {"arktos.futurewei.com/nic": "{"}}
    assert "write JSON such as" in await refusal(
        anna.create(made(Pod, "bad", space, **bad, spec=POD))
    )


async def test_while_the_agent_is_down_only_tenants_wait(guarded: NetworksScenario) -> None:
    space, _ = await two_tenants(guarded)
    anna = await guarded.tenant_client()
    door = guarded.scenario.agents["lubeck"]
    await guarded.scenario.kill_agent("lubeck")
    guarded.scenario.testbed.set_webhook_server(
        guarded.scenario.testbed.webhook_endpoint(door.name), None
    )

    message = await refusal(anna.create(made(Pod, "web", space, spec=POD)))
    assert "failed calling webhook" in message
    plain = guarded.scenario.namespace
    await anna.create(made(Pod, "web", plain, spec=POD))
    await anna.create(made(Service, "web", plain, spec={"ports": [{"port": 80}]}))
    await guarded.scenario.start_agent("lubeck")

    async def served() -> None:
        await anna.create(made(Pod, "web", space, spec=POD))

    await guarded.scenario.eventually(served)


async def test_replicas_give_addresses_out_of_parts_of_the_pool_that_are_their_own(
    guarded: NetworksScenario,
) -> None:
    scenario = guarded.scenario
    await scenario.kill_agent("lubeck")
    replicas = [await scenario.start_agent("lubeck", name) for name in ("one", "two")]

    async def apart() -> None:
        held = [a.reconciler.snapshot().fact(AssignedSlot, "lubeck") for a in replicas]
        assert {None if h is None else h.slot.number for h in held} == {0, 1}, held

    await scenario.eventually(apart)
    for name in ("one", "two"):
        await scenario.kill_agent(f"lubeck/{name}")
    await scenario.start_agent("lubeck")
    await scenario.eventually(guarded.webhook_is_called)
