"""Federated Services: members in several clusters, one Service in all of them."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import FEDERATED
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.model.kinds.core import Node, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM, NativeService, VirtualMachine
from tests.scenarios.guild import GLOBAL, NAMESPACED, Guild, address, guild_on
from tests.support.stage import Features, Stage


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices(), Machines())


@pytest.fixture
async def guild(stage: Stage) -> AsyncIterator[Guild]:
    async with guild_on(stage) as guild:
        yield guild


SOMEBODY_ELSES = {"type": "LoadBalancer", "load_balancer_class": "example.org/by-hand"}
L1, L2 = address("lubeck", 1), address("lubeck", 2)
H1 = address("hamburg", 1)
B1 = address("bergen", 1)


def outside_address(node: Node) -> str:
    told = {a.type: a.address for a in node.status.addresses}
    return told.get("ExternalIP") or told["InternalIP"]


async def test_ha_the_same_service_in_several_clusters_is_one_everywhere(guild: Guild) -> None:
    stage = guild.stage
    await guild.join("lubeck", 1)
    await guild.join("bergen", 1, name="web-in-bergen")
    await stage.eventually(guild.everywhere(lubeck=[L1], bergen=[B1]))

    await guild.pods("lubeck", 1, 2)
    await stage.eventually(guild.everywhere(lubeck=[L1, L2], bergen=[B1]))
    await guild.person("bergen").delete(Service, "web-in-bergen", guild.shop)

    await stage.eventually(guild.everywhere(lubeck=[L1, L2]))
    await guild.edit("lubeck", Service, "web", {"metadata": {"annotations": {GLOBAL: None}}})
    await stage.eventually(guild.everywhere())


async def test_slicing_each_cluster_serves_what_all_others_use(guild: Guild) -> None:
    stage = guild.stage
    for cluster in guild.league.members:
        marks = {GLOBAL: f"{cluster}-{guild.shop}"}
        await guild.join(cluster, 1, name="part", marks=marks)

    for cluster in guild.league.members:
        name = f"{cluster}-{guild.shop}"
        await stage.eventually(guild.everywhere(name, **{cluster: [address(cluster, 1)]}))


async def test_every_type_of_service_is_reached_as_the_table_says(guild: Guild) -> None:
    stage, web = guild.stage, guild.web
    await guild.join("lubeck", 1, external_ips=("198.51.100.7",))
    await guild.join("hamburg", 1, name="nodes", type="NodePort")
    await guild.join("bergen", 1, name="balanced", **SOMEBODY_ELSES)
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}}
    await guild.edit("bergen", Service, "balanced", status, subresource="status")

    nodes = (await guild.person("hamburg").list(Node)).objects
    ready = sorted(outside_address(n) for n in nodes if n.ready)
    outside = {"lubeck": ["198.51.100.7"], "hamburg": ready, "bergen": ["192.0.2.9"]}
    own = {cluster: [address(cluster, 1)] for cluster in outside}
    for cluster in guild.league.members:
        seen = {**outside, cluster: own[cluster]}
        await stage.eventually(guild.has(cluster, **{c: a for c, a in seen.items() if a}))
    found = await guild.find("lubeck", Service, web)
    assert found is not None
    assert [(p.name, p.port) for p in found.spec.ports] == [("http", 80)]


async def test_an_external_name_is_ignored_and_told(guild: Guild) -> None:
    stage = guild.stage
    await guild.serve("lubeck", type="ExternalName", external_name="example.org", ports=())
    await guild.join("bergen", 1)

    await stage.eventually(guild.everywhere(bergen=[B1]))
    await stage.eventually(
        guild.is_told("lubeck", Service, "web", "Federated", "ExternalName", guild.shop)
    )


async def test_a_service_of_a_namespace_is_where_the_namespace_is_and_comes_with_it(
    guild: Guild,
) -> None:
    stage = guild.stage
    yard = f"{guild.shop}-yard"
    for cluster in ("lubeck", "bergen"):
        await stage.make_namespace(cluster, yard)
    await guild.join("bergen", 1, marks={NAMESPACED: "all"}, space=yard)
    for cluster in ("lubeck", "bergen"):
        await stage.eventually(guild.has(cluster, "all", yard, bergen=[B1]))

    await stage.make_namespace("hamburg", yard)

    await stage.eventually(guild.has("hamburg", "all", yard, bergen=[B1]))


async def test_a_later_member_with_another_protocol_is_left_out_until_it_agrees(
    guild: Guild,
) -> None:
    stage = guild.stage
    await guild.join("lubeck", 1)
    await stage.eventually(guild.everywhere(lubeck=[L1]))
    await stage.always(guild.has("lubeck", lubeck=[L1]), timedelta(seconds=2))  # to be older
    await guild.join("bergen", 1)
    udp = {"spec": {"ports": [{"port": 80, "name": "http", "protocol": "UDP"}]}}
    await guild.edit("bergen", Service, "web", udp)
    await stage.eventually(
        guild.is_told("bergen", Service, "web", "Federated", "ProtocolConflict", guild.shop)
    )
    await stage.eventually(guild.everywhere(lubeck=[L1]))

    tcp = {"spec": {"ports": [{"port": 80, "name": "http", "protocol": "TCP"}]}}
    await guild.edit("bergen", Service, "web", tcp)

    await stage.eventually(guild.everywhere(lubeck=[L1], bergen=[B1]))
    await stage.eventually(
        guild.is_told("bergen", Service, "web", "Federated", "Joined", guild.shop)
    )


async def test_a_foreign_service_of_that_name_is_left_alone_until_it_goes(guild: Guild) -> None:
    stage = guild.stage
    theirs = await guild.serve("hamburg", guild.web, marks={}, space=SYSTEM)
    await guild.join("lubeck", 1)
    for cluster in ("lubeck", "bergen"):
        await stage.eventually(guild.has(cluster, lubeck=[L1]))
    await stage.eventually(
        guild.is_told("hamburg", Service, guild.web, "FederatedNameFree", "NameTaken", SYSTEM)
    )
    found = await guild.find("hamburg", Service, guild.web)
    assert found is not None
    assert (found.metadata.uid, found.spec) == (theirs.metadata.uid, theirs.spec)

    await guild.person("hamburg").delete(Service, guild.web, SYSTEM)

    await stage.eventually(guild.has("hamburg", lubeck=[L1]))


async def test_what_people_and_a_mesh_put_on_services_stays(guild: Guild) -> None:
    stage = guild.stage
    mesh = {"istio.io/rev": "stable", "topology.istio.io/network": "n1"}
    wishes = {"networking.istio.io/exportTo": "*", GLOBAL: guild.web}
    await guild.serve("lubeck", labels=mesh, marks=wishes)
    await guild.pods("lubeck", 1)
    await stage.eventually(guild.everywhere(lubeck=[L1]))
    marks = {"labels": mesh, "annotations": {"external-dns.alpha.kubernetes.io/hostname": "a.b"}}
    await guild.edit("bergen", Service, guild.web, {"metadata": marks}, space=SYSTEM)

    await guild.pods("lubeck", 1, 2)
    await stage.eventually(guild.everywhere(lubeck=[L1, L2]))

    member = await guild.find("lubeck", Service, "web", guild.shop)
    made = await guild.find("bergen", Service, guild.web)
    assert member is not None
    assert made is not None
    assert member.metadata.labels == mesh
    assert member.metadata.annotations == wishes
    assert mesh.items() <= made.metadata.labels.items()
    assert made.metadata.annotations["external-dns.alpha.kubernetes.io/hostname"] == "a.b"
    elsewhere = await guild.find("hamburg", Service, guild.web)
    assert elsewhere is not None
    assert not mesh.keys() & elsewhere.metadata.labels.keys()


async def test_a_machine_is_a_service_without_any_leader(guild: Guild) -> None:
    stage = guild.stage
    for supervisor in guild.league.supervisors:
        await stage.kill_agent(supervisor)
    await guild.machine("bergen", "db-1", "10.7.0.1")
    await guild.machine("bergen", "db-2", "10.7.0.2")

    async def served() -> None:
        listed = await guild.person("bergen").list(EndpointSlice, namespace=guild.shop)
        found = [a for s in listed.objects for e in s.endpoints or () for a in e.addresses]
        assert sorted(found) == ["10.7.0.1", "10.7.0.2"]

    await stage.eventually(served)
    for name in ("db-1", "db-2"):
        await guild.person("bergen").delete(VirtualMachine, name, guild.shop)

    async def gone() -> None:
        assert await guild.find("bergen", Service, "db", guild.shop) is None

    await stage.eventually(gone)


async def test_machines_and_native_services_join_federated_services(guild: Guild) -> None:
    stage = guild.stage
    await guild.machine("bergen", "db-1", "10.7.0.1", ports="http:80/TCP", joins=guild.web)
    await guild.native("hamburg", "cloud", internal_ip="10.8.0.1", external_ip="203.0.113.8")
    await guild.join("lubeck", 1)
    await stage.eventually(
        guild.everywhere(bergen=["10.7.0.1"], hamburg=["203.0.113.8"], lubeck=[L1])
    )

    await guild.person("bergen").delete(VirtualMachine, "db-1", guild.shop)
    await guild.person("hamburg").delete(NativeService, "cloud", guild.shop)

    await stage.eventually(guild.everywhere(lubeck=[L1]))


async def test_a_settled_federation_writes_nothing_and_neither_does_a_restart(
    guild: Guild,
) -> None:
    stage = guild.stage
    await guild.join("lubeck", 1)
    await guild.join("bergen", 1)
    await stage.eventually(guild.everywhere(lubeck=[L1], bergen=[B1]))
    await stage.settled()

    start = len(stage.network.sent)
    for name in guild.league.supervisors:
        await stage.kill_agent(name)
        await stage.start_agent(name)
    await stage.eventually(guild.league.all_led())
    await stage.settled()

    written = [
        f"{w.source}: {w.request.method} {w.target}{w.request.path}"
        for w in stage.writes_since(start)
        if "/federations/" not in w.request.path
    ]
    assert written == []


async def test_what_is_generated_says_so(guild: Guild) -> None:
    await guild.join("lubeck", 1)
    await guild.stage.eventually(guild.everywhere(lubeck=[L1]))

    found = await guild.find("bergen", Service, guild.web)
    assert found is not None
    assert FEDERATED in found.metadata.annotations
    assert found.spec.selector == {}
    assert found.spec.cluster_ip not in ("", "None")


async def test_a_load_balancer_with_a_host_name_stands_as_that_name_until_it_is_known(
    guild: Guild,
) -> None:
    await guild.join("bergen", 1, **SOMEBODY_ELSES)
    status = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.invalid"}]}}}
    await guild.edit("bergen", Service, "web", status, subresource="status")

    for cluster in ("lubeck", "hamburg"):
        await guild.stage.eventually(guild.has(cluster, bergen=["lb.invalid"]))
    await guild.stage.eventually(guild.has("bergen", bergen=[B1]))
