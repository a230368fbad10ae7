"""`hanse agent` publishes to a running BIND, or by ExternalDNS to Knot."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from hanse.cli.clusters import open_client
from hanse.kube.credentials import find_credentials
from hanse.kube.transport import Request
from hanse.local.real.binaries import cache_folder, find_available_programs
from hanse.local.real.programs import EXTERNAL_DNS_PROGRAM
from tests.dns.test_coredns_comparison import a_cluster
from tests.features.publishing.servers import KEY, SECRET, ZONE, ExternalServer, name_server
from tests.scenarios.test_publishing import DEFINITION
from tests.support.federation import CRDS

pytestmark = pytest.mark.anyio

PATIENCE = 60


async def test_an_agent_publishes_what_its_cluster_imports(tmp_path: Path) -> None:
    key_file = tmp_path / "hanse.key"
    key_file.write_text(KEY)
    async with name_server("bind", tmp_path) as theirs, a_cluster(tmp_path) as kubeconfig:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from hanse.cli import main; main()", "agent"),
            *("--kubeconfig", str(kubeconfig), "--context", "lubeck", "--cluster-id", "lubeck"),
            *("--listen", "127.0.0.1:0", "--publish-zone", ZONE),
            *("--publish-server", f"127.0.0.1:{theirs.port}", "--publish-key-file", str(key_file)),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                await _published(theirs)
        finally:
            process.terminate()
            await process.wait()

        assert process.returncode == 0
        assert (await theirs.ask("db-0.bergen.db.shop.svc")).records == ("10.2.0.7",)
        assert (await theirs.ask("www")).records == ("192.0.2.80",)


async def _published(theirs: ExternalServer) -> None:
    """Wait until a few names are answered."""
    wanted = {
        ("web.shop.svc", "A"): ("10.1.0.1", "10.2.0.1"),
        ("_tls._tcp.web.shop.svc", "SRV"): (f"0 50 443 web.shop.svc.{ZONE}.",),
        ("db-0.bergen.db.shop.svc", "A"): ("10.2.0.7",),
    }
    for question, records in wanted.items():
        while (await theirs.ask(*question)).records != records:  # noqa: ASYNC110 - it tells when asked
            await asyncio.sleep(0.1)


async def test_external_dns_publishes_what_an_agent_writes(tmp_path: Path) -> None:
    """The agent writes DNSEndpoints, and ExternalDNS carries them to Knot by updates."""
    programs = await find_available_programs((EXTERNAL_DNS_PROGRAM,), cache_folder())
    if EXTERNAL_DNS_PROGRAM.name not in programs:
        pytest.skip("needs external-dns, which `make kube-binaries` builds")
    async with name_server("knot", tmp_path) as theirs, a_cluster(tmp_path) as kubeconfig:
        await _define_endpoints(kubeconfig)
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from hanse.cli import main; main()", "agent"),
            *("--kubeconfig", str(kubeconfig), "--context", "lubeck", "--cluster-id", "lubeck"),
            *("--listen", "127.0.0.1:0", "--publish-zone", ZONE, "--publish-endpoints", "default"),
            stderr=asyncio.subprocess.DEVNULL,
        )
        with (tmp_path / "external-dns.log").open("wb") as log:
            carrier = await asyncio.create_subprocess_exec(
                *(programs[EXTERNAL_DNS_PROGRAM.name], "--source=crd", "--interval=1s"),
                *(f"--kubeconfig={kubeconfig}", "--provider=rfc2136", "--policy=sync"),
                *("--rfc2136-axfr", "--rfc2136-tsig-axfr"),
                *("--managed-record-types=A", "--managed-record-types=SRV"),
                *("--txt-owner-id=hanse", "--txt-prefix=owner-%{record_type}-"),
                *("--rfc2136-host=127.0.0.1", f"--rfc2136-port={theirs.port}"),
                *(f"--rfc2136-zone={ZONE}", "--rfc2136-tsig-keyname=hanse"),
                *("--rfc2136-tsig-secret-alg=hmac-sha256", f"--rfc2136-tsig-secret={SECRET}"),
                stderr=log,
            )
        try:
            async with asyncio.timeout(PATIENCE):
                await _published(theirs)
        finally:
            for process in (agent, carrier):
                process.terminate()
                await process.wait()


async def _define_endpoints(kubeconfig: Path) -> None:
    """Create the kind of ExternalDNS."""
    async with open_client(find_credentials(kubeconfig, context="lubeck")) as client:
        await client.send(Request("POST", CRDS, body=msgspec.json.encode(DEFINITION)))
