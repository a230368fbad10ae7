"""Every row of the specification, queried by real packets of a server beside a cluster.

Packets are real, so time is too, on either engine.
"""

from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from hanse.model.dns.zones import View
from hanse.model.kinds.core import Service
from hanse.model.kinds.multicluster import ServiceImport
from tests.dns.builders import NODATA, NXDOMAIN
from tests.scenarios.names import DnsClient, serve_names
from tests.scenarios.services import ServicesScenario

ZONE = "clusterset.local"
NOBODY = View("all")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


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
        assert {(await near(web)).records for _ in range(4)} == {(lubeck,)}, "local first"

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
