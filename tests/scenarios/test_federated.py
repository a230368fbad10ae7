"""Federated Services: members in several clusters, one Service in all of them."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import FEDERATED, JOIN
from hanse.features.federated.status import FEDERATED_CONDITION
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.model.conditions import find_condition
from hanse.model.internal_addresses import INTERNAL_FROM
from hanse.model.kinds.core import Node, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import (
    SYSTEM,
    NativeService,
    NetworkInterface,
    VirtualMachine,
)
from tests.scenarios.federated import (
    GLOBAL,
    NAMESPACED,
    FederatedScenario,
    address,
    federated_scenario,
)
from tests.support.scenario import Check, Features, Scenario


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices(), Machines())


@pytest.fixture
async def federated(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    async with federated_scenario(scenario) as federated:
        yield federated


SOMEBODY_ELSES = {"type": "LoadBalancer", "load_balancer_class": "example.org/by-hand"}
L1, L2 = address("lubeck", 1), address("lubeck", 2)
H1 = address("hamburg", 1)
B1 = address("bergen", 1)


def outside_address(node: Node) -> str:
    addresses = {a.type: a.address for a in node.status.addresses}
    return addresses.get("ExternalIP") or addresses["InternalIP"]


async def test_ha_the_same_service_in_several_clusters_is_one_everywhere(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    await federated.join("lubeck", 1)
    await federated.join("bergen", 1, name="web-in-bergen")
    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1]))

    await federated.pods("lubeck", 1, 2)
    await scenario.eventually(federated.everywhere(lubeck=[L1, L2], bergen=[B1]))
    await federated.admin("bergen").delete(Service, "web-in-bergen", federated.namespace)

    await scenario.eventually(federated.everywhere(lubeck=[L1, L2]))
    await federated.edit("lubeck", Service, "web", {"metadata": {"annotations": {GLOBAL: None}}})
    await scenario.eventually(federated.everywhere())


async def test_slicing_each_cluster_serves_what_all_others_use(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    for cluster in federated.membership.members:
        marks = {GLOBAL: f"{cluster}-{federated.namespace}"}
        await federated.join(cluster, 1, name="part", marks=marks)

    for cluster in federated.membership.members:
        name = f"{cluster}-{federated.namespace}"
        await scenario.eventually(federated.everywhere(name, **{cluster: [address(cluster, 1)]}))


async def test_every_type_of_service_is_reached_as_the_table_says(
    federated: FederatedScenario,
) -> None:
    scenario, web = federated.scenario, federated.web
    await federated.join("lubeck", 1, external_ips=("198.51.100.7",))
    await federated.join("hamburg", 1, name="nodes", type="NodePort")
    await federated.join("bergen", 1, name="balanced", **SOMEBODY_ELSES)
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}}
    await federated.edit("bergen", Service, "balanced", status, subresource="status")

    nodes = (await federated.admin("hamburg").list(Node)).objects
    ready = sorted(outside_address(n) for n in nodes if n.ready)
    outside = {"lubeck": ["198.51.100.7"], "hamburg": ready, "bergen": ["192.0.2.9"]}
    own = {cluster: [address(cluster, 1)] for cluster in outside}
    for cluster in federated.membership.members:
        expected = {**outside, cluster: own[cluster]}
        await scenario.eventually(
            federated.has(cluster, **{c: a for c, a in expected.items() if a})
        )
    found = await federated.find("lubeck", Service, web)
    assert found is not None
    assert [(p.name, p.port) for p in found.spec.ports] == [("http", 80)]


async def test_an_external_name_is_ignored_and_reported(federated: FederatedScenario) -> None:
    scenario = federated.scenario
    await federated.serve("lubeck", type="ExternalName", external_name="example.org", ports=())
    await federated.join("bergen", 1)

    await scenario.eventually(federated.everywhere(bergen=[B1]))
    await scenario.eventually(
        federated.has_conditions(
            "lubeck", Service, "web", "Federated", "ExternalName", federated.namespace
        )
    )


async def test_a_service_of_a_namespace_is_where_the_namespace_is_and_comes_with_it(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    yard = f"{federated.namespace}-yard"
    for cluster in ("lubeck", "bergen"):
        await scenario.make_namespace(cluster, yard)
    await federated.join("bergen", 1, marks={NAMESPACED: "all"}, space=yard)
    for cluster in ("lubeck", "bergen"):
        await scenario.eventually(federated.has(cluster, "all", yard, bergen=[B1]))

    await scenario.make_namespace("hamburg", yard)

    await scenario.eventually(federated.has("hamburg", "all", yard, bergen=[B1]))


async def test_a_later_member_with_another_protocol_is_left_out_until_it_agrees(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    await federated.join("lubeck", 1)
    await scenario.eventually(federated.everywhere(lubeck=[L1]))
    await scenario.always(federated.has("lubeck", lubeck=[L1]), timedelta(seconds=2))  # to be older
    await federated.join("bergen", 1)
    udp = {"spec": {"ports": [{"port": 80, "name": "http", "protocol": "UDP"}]}}
    await federated.edit("bergen", Service, "web", udp)
    await scenario.eventually(
        federated.has_conditions(
            "bergen", Service, "web", "Federated", "ProtocolConflict", federated.namespace
        )
    )
    await scenario.eventually(federated.everywhere(lubeck=[L1]))

    tcp = {"spec": {"ports": [{"port": 80, "name": "http", "protocol": "TCP"}]}}
    await federated.edit("bergen", Service, "web", tcp)

    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1]))
    await scenario.eventually(
        federated.has_conditions(
            "bergen", Service, "web", "Federated", "Joined", federated.namespace
        )
    )


async def test_a_foreign_service_of_that_name_is_left_alone_until_it_goes(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    theirs = await federated.serve("hamburg", federated.web, marks={}, space=SYSTEM)
    await federated.join("lubeck", 1)
    for cluster in ("lubeck", "bergen"):
        await scenario.eventually(federated.has(cluster, lubeck=[L1]))
    await scenario.eventually(
        federated.has_conditions(
            "hamburg", Service, federated.web, "FederatedNameFree", "NameTaken", SYSTEM
        )
    )
    found = await federated.find("hamburg", Service, federated.web)
    assert found is not None
    assert (found.metadata.uid, found.spec) == (theirs.metadata.uid, theirs.spec)

    await federated.admin("hamburg").delete(Service, federated.web, SYSTEM)

    await scenario.eventually(federated.has("hamburg", lubeck=[L1]))


async def test_services_of_one_name_become_one_where_their_owners_agree(
    federated: FederatedScenario,
) -> None:
    scenario, space = federated.scenario, federated.namespace
    for cluster in ("lubeck", "bergen"):  # both stand before one of them joins
        await federated.join(cluster, 1, marks={})
    for cluster in ("lubeck", "bergen"):
        marks = {"annotations": {NAMESPACED: "web", JOIN: "true"}}
        await federated.edit(cluster, Service, "web", {"metadata": marks})
    first = await federated.find("lubeck", Service, "web", space)

    for cluster, other, remote in (("lubeck", "bergen", B1), ("bergen", "lubeck", L1)):
        joined = {"?": [address(cluster, 1)], other: [remote]}
        await scenario.eventually(federated.has_endpoints(cluster, "web", space, joined))
    await federated.edit("lubeck", Service, "web", {"metadata": {"annotations": {JOIN: None}}})

    alone = {"?": [L1]}
    await scenario.eventually(federated.has_endpoints("lubeck", "web", space, alone))
    after = await federated.find("lubeck", Service, "web", space)
    assert first is not None
    assert after is not None
    assert (after.metadata.uid, after.spec) == (first.metadata.uid, first.spec)


async def test_annotations_of_users_and_a_mesh_on_services_are_kept(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    mesh = {"istio.io/rev": "stable", "topology.istio.io/network": "n1"}
    wishes = {"networking.istio.io/exportTo": "*", GLOBAL: federated.web}
    await federated.serve("lubeck", labels=mesh, marks=wishes)
    await federated.pods("lubeck", 1)
    await scenario.eventually(federated.everywhere(lubeck=[L1]))
    marks = {"labels": mesh, "annotations": {"external-dns.alpha.kubernetes.io/hostname": "a.b"}}
    await federated.edit("bergen", Service, federated.web, {"metadata": marks}, space=SYSTEM)

    await federated.pods("lubeck", 1, 2)
    await scenario.eventually(federated.everywhere(lubeck=[L1, L2]))

    member = await federated.find("lubeck", Service, "web", federated.namespace)
    made = await federated.find("bergen", Service, federated.web)
    assert member is not None
    assert made is not None
    assert member.metadata.labels == mesh
    assert member.metadata.annotations == wishes
    assert mesh.items() <= made.metadata.labels.items()
    assert made.metadata.annotations["external-dns.alpha.kubernetes.io/hostname"] == "a.b"
    elsewhere = await federated.find("hamburg", Service, federated.web)
    assert elsewhere is not None
    assert not mesh.keys() & elsewhere.metadata.labels.keys()


async def test_a_machine_is_a_service_without_any_leader(federated: FederatedScenario) -> None:
    scenario = federated.scenario
    for supervisor in federated.membership.supervisors:
        await scenario.kill_agent(supervisor)
    await federated.machine("bergen", "db-1", "10.7.0.1")
    await federated.machine("bergen", "db-2", "10.7.0.2")

    async def served() -> None:
        listed = await federated.admin("bergen").list(EndpointSlice, namespace=federated.namespace)
        found = [a for s in listed.objects for e in s.endpoints or () for a in e.addresses]
        assert sorted(found) == ["10.7.0.1", "10.7.0.2"]

    await scenario.eventually(served)
    for name in ("db-1", "db-2"):
        await federated.admin("bergen").delete(VirtualMachine, name, federated.namespace)

    async def gone() -> None:
        assert await federated.find("bergen", Service, "db", federated.namespace) is None

    await scenario.eventually(gone)


async def test_machines_and_native_services_are_reached_as_the_asking_cluster_reaches_them(
    federated: FederatedScenario,
) -> None:
    """By internal addresses where their owner says that a cluster is on their network."""
    scenario = federated.scenario
    await federated.machine(
        "bergen",
        "db-1",
        "10.7.0.1",
        external="203.0.113.7",
        internal_from="bergen,hamburg",
        ports="http:80/TCP",
        joins=federated.web,
    )
    await federated.native("hamburg", "cloud", internal_ip="10.8.0.1", external_ip="203.0.113.8")
    await federated.join("lubeck", 1)
    inside, outside, cloud = ["10.7.0.1"], ["203.0.113.7"], ["203.0.113.8"]
    for cluster, machine in (("bergen", inside), ("hamburg", inside), ("lubeck", outside)):
        check = federated.has(cluster, bergen=machine, hamburg=cloud, lubeck=[L1])
        await scenario.eventually(check)

    change = {"metadata": {"annotations": {INTERNAL_FROM: "lubeck"}}}
    await federated.edit("hamburg", NativeService, "cloud", change)
    tags = {"spec": {"tags": {INTERNAL_FROM: None}}}
    await federated.edit("bergen", VirtualMachine, "db-1", tags)
    near = ["10.8.0.1"]
    for cluster, service in (("bergen", cloud), ("hamburg", cloud), ("lubeck", near)):
        check = federated.has(cluster, bergen=outside, hamburg=service, lubeck=[L1])
        await scenario.eventually(check)

    await federated.admin("bergen").delete(VirtualMachine, "db-1", federated.namespace)
    await federated.admin("hamburg").delete(NativeService, "cloud", federated.namespace)

    await scenario.eventually(federated.everywhere(lubeck=[L1]))


async def test_a_native_service_without_an_address_says_so_until_it_has_one(
    federated: FederatedScenario,
) -> None:
    scenario, lubeck = federated.scenario, federated.admin("lubeck")
    await federated.native("lubeck", "cloud", internal_ip="")

    def says(status: str, *words: str) -> Check[None]:
        async def check() -> None:
            found = await lubeck.read(NativeService, "cloud", federated.namespace)
            said = find_condition(found.status.conditions, FEDERATED_CONDITION)
            assert said is not None, found.status
            assert said.status == status, said
            assert all(word in said.message for word in words), said.message

        return check

    await scenario.eventually(says("False", "cloud-nic has no address", "internalIP"))
    change = {"spec": {"internalIP": "10.8.0.1"}}
    await federated.edit("lubeck", NetworkInterface, "cloud-nic", change)

    await scenario.eventually(says("True"))
    await scenario.eventually(federated.everywhere(lubeck=["10.8.0.1"]))


async def test_a_settled_federation_writes_nothing_and_neither_does_a_restart(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    await federated.join("lubeck", 1)
    await federated.join("bergen", 1)
    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1]))
    await scenario.settled()

    start = len(scenario.network.sent)
    for name in federated.membership.supervisors:
        await scenario.kill_agent(name)
        await scenario.start_agent(name)
    await scenario.eventually(federated.membership.all_led())
    await scenario.settled()

    written = [
        f"{w.source}: {w.request.method} {w.target}{w.request.path}"
        for w in scenario.writes_since(start)
        if "/federations/" not in w.request.path
    ]
    assert written == []


async def test_generated_objects_are_annotated(federated: FederatedScenario) -> None:
    await federated.join("lubeck", 1)
    await federated.scenario.eventually(federated.everywhere(lubeck=[L1]))

    found = await federated.find("bergen", Service, federated.web)
    assert found is not None
    assert FEDERATED in found.metadata.annotations
    assert found.spec.selector == {}
    assert found.spec.cluster_ip not in ("", "None")


async def test_a_load_balancer_with_a_host_name_is_an_fqdn_until_it_resolves(
    federated: FederatedScenario,
) -> None:
    await federated.join("bergen", 1, **SOMEBODY_ELSES)
    status = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.invalid"}]}}}
    await federated.edit("bergen", Service, "web", status, subresource="status")

    for cluster in ("lubeck", "hamburg"):
        await federated.scenario.eventually(federated.has(cluster, bergen=["lb.invalid"]))
    await federated.scenario.eventually(federated.has("bergen", bergen=[B1]))
