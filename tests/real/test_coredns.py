"""An unmodified CoreDNS answers for our imports, in the KEP-1645 profile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode
import pytest

from hanse.app import BROKER
from hanse.dns.corefile import server_block
from hanse.features.services.feature import Services
from hanse.features.statefulsets.names import part_name
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone import StatefulSetZone
from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import COREDNS_SERVER
from hanse.model.dns.zones import View
from hanse.model.kinds.core import Service
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.stateful import (
    Replica,
    Share,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from tests.dns.builders import NODATA, parse_answer
from tests.dns.coredns import in_words
from tests.scenarios.names import DnsClient, serve_names
from tests.scenarios.services import ServicesScenario
from tests.support.federation import install_crds
from tests.support.ports import free_ports
from tests.support.scenario import Check, Scenario
from tests.support.testbed_kubernetes import kubernetes_testbed

ZONE = "clusterset.local"
PATIENCE = timedelta(seconds=60)
Ask = Callable[[str, str], Awaitable[dns.message.Message]]


@asynccontextmanager
async def coredns(
    fleet: RealFleet, cluster: str, folder: Path, more: str = ""
) -> AsyncIterator[Ask]:
    """Run CoreDNS for one cluster, with more server blocks; yields a function that queries it."""
    program = (await find_or_build((COREDNS_SERVER,), cache_folder()))[COREDNS_SERVER.name]
    [port] = free_ports(1)
    corefile = folder / "Corefile"
    corefile.write_text(
        f".:{port} {{\n"
        "  bind 127.0.0.1\n"
        f"  kubernetes cluster.local {ZONE} {{\n"
        f"    kubeconfig {fleet.kubeconfig} {cluster}\n"
        f"    multicluster {ZONE}\n"
        "  }\n"
        "}\n" + more.replace(":53 {", f":{port} {{\n    bind 127.0.0.1")
    )
    with (folder / "coredns.log").open("wb") as result:
        process = await asyncio.create_subprocess_exec(
            program, "-conf", str(corefile), stdout=result, stderr=result
        )

    async def ask(name: str, type_: str) -> dns.message.Message:
        fqdn = name if name.endswith(".") else f"{name}.svc.{ZONE}"
        query = dns.message.make_query(fqdn, type_)
        return await dns.asyncquery.udp(query, "127.0.0.1", timeout=2, port=port)

    try:
        yield ask
    finally:
        process.terminate()
        await process.wait()


def answers(ask: Ask, name: str, type_: str, *wanted: str) -> Check[None]:
    """Check that a name has exactly these records, in any order."""

    async def check() -> None:
        try:
            answer = await ask(name, type_)
        except (dns.exception.Timeout, OSError) as error:
            raise AssertionError(f"no answer: {error}") from None
        records = {r.to_text() for group in answer.answer for r in group}
        assert records == set(wanted), f"{name} {type_}: {records}, not {set(wanted)}"

    return check


async def same(ask: Ask, ours: DnsClient, name: str, type_: str) -> None:
    """CoreDNS and our server answer the same, except addresses of port names, which only it has."""
    theirs = parse_answer(await ask(name, type_))
    response = await ours(f"{name}.svc.{ZONE}", type_)
    if name.startswith("_") and type_ != "SRV" and response.code == NODATA:
        return
    assert in_words(response, type_) == in_words(theirs, type_), f"{name} {type_}"


@pytest.fixture
async def services(real_clusters: RealFleet, tmp_path: Path) -> AsyncIterator[ServicesScenario]:
    async with (
        kubernetes_testbed(real_clusters, tmp_path) as testbed,
        Scenario(testbed, "named-quay", lambda: (Services(),)) as scenario,
    ):
        services = ServicesScenario(scenario)
        await services.open("kep-1645", lease=30)
        await scenario.start_agents()
        yield services


async def test_a_stock_coredns_answers_for_imports(
    real_clusters: RealFleet, services: ServicesScenario, tmp_path: Path
) -> None:
    scenario = services.scenario
    for cluster in ("bergen", "hamburg"):
        await services.serve_and_export(cluster, "web", {"http": 80, "tls": 443})
        await services.serve(cluster, "db", headless=True)
        await services.export(cluster, "db")
    await services.pods("bergen", "db", True, True, hostnames=("db-0", "db-1"))
    await services.pods("hamburg", "db", True, slot="b", hostnames=("db-0",))
    await scenario.eventually(
        services.everywhere("web", "bergen", "hamburg", ports={"http": 80, "tls": 443})
    )
    await scenario.eventually(
        services.has_endpoints("lubeck", "db", bergen=[True, True], hamburg=[True])
    )
    found = await services.found("lubeck", ServiceImport)
    assert found is not None
    [address] = found.spec.ips
    web, db = f"web.{scenario.namespace}", f"db.{scenario.namespace}"
    pods = {
        c: [a for a, _ in several]
        for c, several in (await services.endpoints("lubeck", "db")).items()
    }

    async with coredns(real_clusters, "lubeck", tmp_path) as ask:
        await scenario.eventually(answers(ask, web, "A", address), within=PATIENCE)
        srv = f"0 100 443 {web}.svc.{ZONE}."
        await scenario.eventually(answers(ask, f"_tls._tcp.{web}", "SRV", srv))
        everybody = (*pods["bergen"], *pods["hamburg"])
        await scenario.eventually(answers(ask, db, "A", *everybody))
        await scenario.eventually(answers(ask, f"db-1.bergen.{db}", "A", pods["bergen"][1]))
        await scenario.eventually(answers(ask, f"db-0.hamburg.{db}", "A", *pods["hamburg"]))
        unknown = await ask(f"nothing.{scenario.namespace}", "A")
        assert unknown.rcode() == dns.rcode.NXDOMAIN
        async with serve_names(scenario, "lubeck", View("lubeck", local="lubeck")) as ours:
            await scenario.eventually(ours.answers(f"{web}.svc.{ZONE}", "A", address))
            for name in (web, db, f"db-0.bergen.{db}", f"nothing.{scenario.namespace}"):
                for label in ("", "_http._tcp.", "_tls._tcp.", "_smtp._tcp."):
                    for type_ in ("A", "AAAA", "SRV"):
                        await same(ask, ours, f"{label}{name}", type_)

        await services.unexport("bergen", "db")
        await scenario.eventually(answers(ask, db, "A", *pods["hamburg"]))
        for cluster in ("bergen", "hamburg"):
            await services.unexport(cluster)
        await scenario.eventually(answers(ask, web, "A"))


async def test_replicas_of_the_clusters_own_domain_are_found_beside_its_services(
    real_clusters: RealFleet, services: ServicesScenario, tmp_path: Path
) -> None:
    scenario, broker = services.scenario, services.admin(BROKER)
    await install_crds(scenario, BROKER, StatefulSetShares, StatefulSetPart)
    await scenario.make_namespace(BROKER, scenario.namespace)
    namespace, replica = scenario.namespace, "store-bergen-0"
    shares = StatefulSetSharesSpec(
        shares=(Share(name="bergen", replicas=1),), service="etcd", load_balanced=True
    )
    record = StatefulSetShares(metadata=Meta(name="store", namespace=namespace), spec=shares)
    replicas = (Replica(name=replica, ready=True, addresses=("198.19.0.1",)),)
    report = StatefulSetPartSpec(
        namespace=namespace, name="store", cluster="bergen", share=1, replicas=replicas
    )
    meta = Meta(name=part_name(namespace, "store", "bergen"), namespace=BROKER_NAMESPACE)
    await scenario.eventually(partial(broker.create, record))
    await scenario.eventually(partial(broker.create, StatefulSetPart(metadata=meta, spec=report)))
    view, options = View("lubeck", local="lubeck"), StatefulSetOptions(zone="cluster.local")
    zone = StatefulSetZone(view, BROKER_NAMESPACE, options)
    own = await services.admin("lubeck").read(Service, "kubernetes", "default")

    async with serve_names(scenario, "lubeck", view, zone) as ours:
        block = server_block(options.federation_zone, [f"127.0.0.1:{ours.port}"])
        async with coredns(real_clusters, "lubeck", tmp_path, block) as ask:
            name = f"{replica}.etcd.{namespace}.{options.federation_zone}."
            await scenario.eventually(answers(ask, name, "A", "198.19.0.1"), within=PATIENCE)
            names = "kubernetes.default.svc.cluster.local."
            await scenario.eventually(answers(ask, names, "A", own.spec.cluster_ip))
    await broker.delete(StatefulSetPart, meta.name, BROKER_NAMESPACE)
