"""ExternalDNS beside each agent that may lead: one owner of records, whoever leads."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.options import GslbOptions
from hanse.local.kubeconfig import write_kubeconfig
from hanse.local.real.binaries import cache_folder, find_available_programs
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import EXTERNAL_DNS_PROGRAM
from hanse.model.kinds.gslb import NAMESPACE
from tests.features.publishing.servers import SECRET, ZONE, ExternalServer, name_server
from tests.scenarios.test_gslb_publishing import BERGEN, HAMBURG, forming, publishes
from tests.support.scenario import Scenario
from tests.support.testbed_kubernetes import kubernetes_testbed

pytestmark = pytest.mark.anyio

HOST = f"shop.{ZONE}"
INTERVAL_SECONDS = 0.5
RUNS = 6
"""Of each ExternalDNS, in which another owner or an old target would show."""


async def test_records_stay_and_do_not_flap_while_leadership_moves(
    real_clusters: RealFleet, tmp_path: Path
) -> None:
    def features() -> tuple[Gslb]:
        return (Gslb(GslbOptions(providers=("dns", "externaldns"))),)

    async with (
        name_server("knot", tmp_path) as theirs,
        kubernetes_testbed(real_clusters, tmp_path) as testbed,
        Scenario(testbed, "handed-over", features) as scenario,
        forming(scenario, HOST) as sites,
        _external_dns(real_clusters, ("lubeck", "hamburg"), theirs, tmp_path),
        _watching(theirs) as answers,
    ):
        await scenario.eventually(lambda: _answered(theirs, HAMBURG, BERGEN))
        await sites.lead("lubeck", False)
        await sites.lead("hamburg")
        await scenario.eventually(publishes(sites, "hamburg", HAMBURG, BERGEN))
        await scenario.eventually(publishes(sites, "lubeck"))
        await asyncio.sleep(RUNS * INTERVAL_SECONDS)
        await sites.stop_serving("bergen")
        await scenario.eventually(lambda: _answered(theirs, HAMBURG))
        serial = await theirs.serial()
        await asyncio.sleep(RUNS * INTERVAL_SECONDS)

        before = 1 if answers[0] == () else 0  # nothing was published when the first was asked for
        assert answers[before:] == [(HAMBURG, BERGEN), (HAMBURG,)]
        assert await theirs.serial() == serial
        (owner,) = (await theirs.ask("owner-a-shop", "TXT")).records
        assert "external-dns/owner=hanse" in owner


async def _answered(theirs: ExternalServer, *addresses: str) -> None:
    found = (await theirs.ask("shop")).records
    assert found == addresses, f"the name server has {found}"


@asynccontextmanager
async def _watching(theirs: ExternalServer) -> AsyncIterator[Sequence[tuple[str, ...]]]:
    """The answers of a name server, each that differs from the one before."""
    seen: list[tuple[str, ...]] = []
    ended = asyncio.Event()

    async def watch() -> None:
        while not ended.is_set():
            found = (await theirs.ask("shop")).records
            if seen[-1:] != [found]:
                seen.append(found)
            await asyncio.sleep(INTERVAL_SECONDS / 20)

    watcher = asyncio.create_task(watch(), name="client")
    try:
        yield seen
    finally:
        ended.set()  # no cancellation: wait_for of Python 3.11, in the library, may swallow it
        await watcher


@asynccontextmanager
async def _external_dns(
    clusters: RealFleet, names: Sequence[str], theirs: ExternalServer, folder: Path
) -> AsyncIterator[None]:
    """ExternalDNS for each cluster, as the guide says: the same owner, and no deletions."""
    programs = await find_available_programs((EXTERNAL_DNS_PROGRAM,), cache_folder())
    if EXTERNAL_DNS_PROGRAM.name not in programs:
        pytest.skip("needs external-dns, which `make kube-binaries` builds")
    async with AsyncExitStack() as stack:
        for name in names:
            kubeconfig = folder / f"{name}.kubeconfig"
            write_kubeconfig(kubeconfig, [clusters.clusters[name].context])
            log = stack.enter_context((folder / f"external-dns-{name}.log").open("wb"))
            process = await asyncio.create_subprocess_exec(
                *(programs[EXTERNAL_DNS_PROGRAM.name], "--source=crd"),
                *(f"--namespace={NAMESPACE}", f"--interval={INTERVAL_SECONDS}s"),
                *(f"--kubeconfig={kubeconfig}", "--provider=rfc2136", "--policy=upsert-only"),
                *("--rfc2136-axfr", "--rfc2136-tsig-axfr"),
                *("--txt-owner-id=hanse", "--txt-prefix=owner-%{record_type}-"),
                *("--rfc2136-host=127.0.0.1", f"--rfc2136-port={theirs.port}"),
                *(f"--rfc2136-zone={ZONE}", "--rfc2136-tsig-keyname=hanse"),
                *("--rfc2136-tsig-secret-alg=hmac-sha256", f"--rfc2136-tsig-secret={SECRET}"),
                stderr=log,
            )
            stack.push_async_callback(_end, process)
        yield


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.wait()
