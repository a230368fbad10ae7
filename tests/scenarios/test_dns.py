"""Every row of the specification, queried by real packets of a server beside a cluster.

Packets are real, so time is too, on either engine.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import EXTERNAL_DNS
from hanse.features.federated.zone import FederatedZone
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.kube.lease_observer import CLOCK_PRECISION
from hanse.model.dns.zones import View
from hanse.model.kinds.core import (
    Namespace,
    Node,
    NodeAddress,
    NodeStatus,
    ObservedCondition,
    Service,
)
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import Meta, Wire
from hanse.model.ownership import PAUSED
from tests.dns.builders import NODATA, NXDOMAIN
from tests.scenarios.federated import GLOBAL, FederatedScenario, federated_scenario
from tests.scenarios.names import DnsClient, serve_names
from tests.scenarios.services import ServicesScenario
from tests.support.scenario import Features, Scenario

ZONE = "clusterset.local"
NOBODY = View("all")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices(), Machines())


async def served(services: ServicesScenario, cluster: str, name: str, ports: dict[str, int]) -> str:
    """Export a Service with one ready pod; gives its address."""
    service: Service = await services.serve(cluster, name, ports)
    await services.pods(cluster, name, True)
    await services.export(cluster, name)
    return service.spec.cluster_ip


async def test_names_of_services_with_addresses(services: ServicesScenario) -> None:
    scenario = services.scenario
    web = f"web.{scenario.namespace}.svc.{ZONE}"
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(serve_names(scenario, "hamburg", NOBODY))
        near = await stack.enter_async_context(
            serve_names(scenario, "lubeck", View("lubeck", local="lubeck"))
        )
        await scenario.eventually(ask.answers(web, "A", code=NXDOMAIN))
        own = await services.serve("lubeck", "web", {"http": 80, "tls": 443})
        for slot in ("a", "b"):  # addresses of two clusters may be alike on embedded ones
            await services.pods("lubeck", "web", True, slot=slot)
        await services.export("lubeck")
        other = await served(services, "bergen", "web", {"http": 80, "tls": 443})
        lubeck = own.spec.cluster_ip
        await scenario.eventually(ask.answers(f"bergen.{web}", "A", other))
        await scenario.eventually(ask.answers(f"lubeck.{web}", "A", lubeck))

        async def in_turn() -> None:
            turns = Counter([(await ask(web)).records for _ in range(20)])
            fair = {(lubeck,): 10, (other,): 10} if lubeck != other else {(lubeck,): 20}
            assert turns == fair, "each as often as the others, once nothing changes"

        await scenario.eventually(in_turn)

        async def local_first() -> None:
            assert {(await near(web)).records for _ in range(4)} == {(lubeck,)}

        await scenario.eventually(local_first)

        for name, owner in ((web, web), (f"bergen.{web}", f"bergen.{web}")):
            await scenario.eventually(ask.answers(f"_tls._tcp.{name}", "SRV", f"0 50 443 {owner}."))
            both = (f"0 50 443 {owner}.", f"0 50 80 {owner}.")
            await scenario.eventually(ask.answers(name, "SRV", *both))
        await _negative(ask, web)

        await services.pods("lubeck", "web", False, slot="a")
        await services.pods("lubeck", "web", False, slot="b")
        await scenario.eventually(near.answers(web, "A", other))
        await scenario.eventually(ask.answers(f"lubeck.{web}", "A", code=NODATA))


async def _negative(ask: DnsClient, web: str) -> None:
    for name, rtype, code in (
        (web, "AAAA", NODATA),
        (web, "TXT", NODATA),
        (web.partition(".")[2], "A", NODATA),
        (f"svc.{ZONE}", "A", NODATA),
        (f"_udp.{web}", "SRV", NXDOMAIN),
        (f"_smtp._tcp.{web}", "SRV", NXDOMAIN),
        (f"riga.{web}", "A", NXDOMAIN),
        (f"no.{web}", "A", NXDOMAIN),
        (f"no-{web}", "A", NXDOMAIN),
    ):
        for tcp in (False, True):
            answer = await ask(name, rtype, tcp=tcp)
            assert (answer.code, answer.authority) == (code, ("SOA",)), name
    version = await ask(f"dns-version.{ZONE}", "TXT")
    assert version.records == ('"1.0.0"',)
    assert version.message is not None
    assert version.message.answer[0].ttl == 5
    for name, rtype in ((web, "ANY"), (ZONE, "AXFR"), ("example.org", "A")):
        assert (await ask(name, rtype, tcp=True)).code == "REFUSED"


async def test_names_of_pods(services: ServicesScenario) -> None:
    scenario = services.scenario
    db = f"db.{scenario.namespace}.svc.{ZONE}"
    for cluster, slot in (("bergen", "c"), ("hamburg", "d")):
        await services.serve(cluster, "db", headless=True)
        await services.export(cluster, "db")
        hostnames = ("db-0", "db-1") if cluster == "bergen" else ()
        await services.pods(cluster, "db", True, True, slot=slot, hostnames=hostnames)
    first, second = "10.200.99.1", "10.200.99.2"
    third, fourth = "10.200.100.1", "10.200.100.2"
    async with serve_names(scenario, "lubeck", View("lubeck", local="lubeck")) as ask:
        await scenario.eventually(ask.answers(db, "A", first, second, third, fourth))
        await scenario.eventually(ask.answers(f"bergen.{db}", "A", first, second))
        await scenario.eventually(ask.answers(f"db-1.bergen.{db}", "A", second))
        await scenario.eventually(ask.answers(f"10-200-100-1.hamburg.{db}", "A", third))
        assert (await ask(f"db-0.hamburg.{db}")).code == NXDOMAIN
        pods = [f"db-{n}.bergen.{db}." for n in (0, 1)]
        pods += [f"10-200-100-{n}.hamburg.{db}." for n in (1, 2)]
        everyone = [f"0 50 8080 {pod}" for pod in pods]
        await scenario.eventually(ask.answers(f"_http._tcp.{db}", "SRV", *everyone))
        await scenario.eventually(ask.answers(db, "SRV", *everyone))
        await scenario.eventually(ask.answers(f"_http._tcp.bergen.{db}", "SRV", *everyone[:2]))
        found = (await ask(f"_http._tcp.{db}", "SRV")).message
        assert found is not None
        addresses = {str(one.name): str(one[0]) for one in found.additional}
        assert addresses == dict(zip(pods, (first, second, third, fourth), strict=True))

        firsts = {str((await _message(ask, db))[0]) for _ in range(8)}
        assert firsts == {first, second, third, fourth}, "each is first in its turn"

        await services.pods("bergen", "db", False, True, slot="c", hostnames=("db-0", "db-1"))
        await scenario.eventually(ask.answers(db, "A", second, third, fourth))
        await scenario.eventually(ask.answers(f"db-0.bergen.{db}", "A", code=NXDOMAIN))


async def _message(ask: DnsClient, name: str) -> list[object]:
    answer = await ask(name)
    assert answer.message is not None
    return list(answer.message.answer[0])


async def test_names_in_the_profile_of_the_kep(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    web = f"web.{scenario.namespace}.svc.{ZONE}"
    await served(services, "bergen", "web", {"http": 80})
    await scenario.eventually(services.imports("lubeck", "web", "bergen"))

    async def addresses() -> tuple[str, ...]:
        found = await services.found("lubeck", ServiceImport)
        assert found is not None
        assert found.spec.ips, "an address of its own is given to it"
        return found.spec.ips

    ips = await scenario.eventually(addresses)
    async with serve_names(scenario, "lubeck", View("lubeck", local="lubeck")) as ask:
        await scenario.eventually(ask.answers(web, "A", *ips))
        await scenario.eventually(ask.answers(f"_http._tcp.{web}", "SRV", f"0 50 80 {web}."))
        assert (await ask(f"bergen.{web}")).code == NXDOMAIN, "clusters are not named there"


async def test_a_dead_cluster_leaves_the_answers(services: ServicesScenario) -> None:
    scenario = services.scenario
    web = f"web.{scenario.namespace}.svc.{ZONE}"
    lubeck = await served(services, "lubeck", "web", {"http": 80})
    bergen = await served(services, "bergen", "web", {"http": 80})
    async with serve_names(scenario, "hamburg", NOBODY) as ask:
        await scenario.eventually(ask.answers(f"bergen.{web}", "A", bergen))
        await scenario.eventually(ask.answers(f"lubeck.{web}", "A", lubeck))

        await scenario.kill_agent("bergen")

        lease = timedelta(seconds=3)
        within = lease + timedelta(seconds=2)

        async def gone() -> None:
            answer = await ask(f"bergen.{web}")
            assert answer.code in (NODATA, NXDOMAIN), answer

        await scenario.eventually(gone, within=within)
        assert {(await ask(web)).records for _ in range(4)} == {(lubeck,)}


async def pause_agent(scenario: Scenario, cluster: str) -> None:
    """Have the agent of a cluster write nothing but its Lease."""
    pause: Wire = {"metadata": {"annotations": {PAUSED: "true"}}}
    await scenario.admin(cluster).patch(Namespace, scenario.system, "", pause)

    async def is_paused() -> None:
        assert scenario.agent(cluster).reconciler.paused

    await scenario.eventually(is_paused)


async def test_a_name_server_that_starts_answers_no_cluster_that_is_dead(
    services: ServicesScenario,
) -> None:
    """Nor does one that runs, although no agent withdraws the endpoints of the dead cluster."""
    scenario = services.scenario
    web = f"web.{scenario.namespace}.svc.{ZONE}"
    lubeck = await served(services, "lubeck", "web", {"http": 80})
    bergen = await served(services, "bergen", "web", {"http": 80})
    async with serve_names(scenario, "hamburg", NOBODY) as running:
        await scenario.eventually(running.answers(f"bergen.{web}", "A", bergen))
        await scenario.eventually(running.answers(f"lubeck.{web}", "A", lubeck))
        await pause_agent(scenario, "hamburg")
        await scenario.kill_agent("bergen")

        async def is_gone() -> None:
            answer = await running(f"bergen.{web}")
            assert answer.code in (NODATA, NXDOMAIN), answer

        await scenario.eventually(is_gone)
        await asyncio.sleep(2 * CLOCK_PRECISION)

        async with serve_names(scenario, "hamburg", NOBODY) as started:
            codes: set[str] = set()

            async def is_left_out() -> None:
                answer = await started(f"bergen.{web}")
                codes.add(answer.code)
                assert answer.records == (), answer
                assert {(await started(web)).records} <= {(), (lubeck,)}
                await is_gone()

            await scenario.always(is_left_out, timedelta(seconds=8))
            await started.answers(f"lubeck.{web}", "A", lubeck)()
            assert set(await services.endpoints("hamburg")) == {"lubeck", "bergen"}
            assert codes <= {"SERVFAIL", NODATA, NXDOMAIN}, codes


async def test_names_outside_of_federated_services_lead_to_the_ports_to_dial(
    scenario: Scenario,
) -> None:
    host, view = f"{scenario.namespace}.example.org", View("out", global_zones=("example.org",))
    marks = {f"{EXTERNAL_DNS[1]}/hostname": host}
    async with AsyncExitStack() as stack:
        federated = await stack.enter_async_context(federated_scenario(scenario))
        ask = await stack.enter_async_context(
            serve_names(scenario, "hamburg", view, FederatedZone(view))
        )
        await scenario.eventually(ask.answers(host, "A", code=NXDOMAIN))
        await federated.join("lubeck", 1, marks={GLOBAL: federated.web, **marks})
        await scenario.eventually(ask.answers(host, "A", "10.210.1.1"))
        await federated.join("bergen", 1, type="NodePort")
        made = await federated.admin("bergen").read(Service, "web", federated.namespace)
        node = await _ready_node(federated, "bergen", "203.0.113.3")
        stack.push_async_callback(federated.admin("bergen").delete, Node, node, "")
        [port] = made.spec.ports

        async def leads_to_both() -> None:
            assert {"10.210.1.1", "203.0.113.3"} <= {*(await ask(host)).records}
            assert {
                f"0 50 8080 10-210-1-1.{host}.",
                f"0 50 {port.node_port} 203-0-113-3.{host}.",
            } <= {*(await ask(f"_http._tcp.{host}", "SRV")).records}, "neither is the Service's 80"

        await scenario.eventually(leads_to_both)
        answer = await ask(f"203-0-113-3.{host}")
        assert answer.records == ("203.0.113.3",)
        await federated.admin("lubeck").delete(Service, "web", federated.namespace)
        await scenario.eventually(ask.answers(host, "A", code=NXDOMAIN))


async def _ready_node(federated: FederatedScenario, cluster: str, address: str) -> str:
    """Register a node that is ready, with an address outside; gives its name."""
    name = f"{federated.namespace}-node"
    status = NodeStatus(
        addresses=(NodeAddress(type="ExternalIP", address=address),),
        conditions=(ObservedCondition(type="Ready", status="True"),),
    )
    await federated.put_with_status(cluster, Node(metadata=Meta(name=name), status=status))
    return name
