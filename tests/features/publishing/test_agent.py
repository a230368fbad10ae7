"""`hanse agent` publishes to a running BIND."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.dns.test_coredns_comparison import a_cluster
from tests.features.publishing.servers import KEY, ZONE, ExternalServer, name_server

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
    wanted = {
        ("web.shop.svc", "A"): ("10.1.0.1", "10.2.0.1"),
        ("_tls._tcp.web.shop.svc", "SRV"): (f"0 50 443 web.shop.svc.{ZONE}.",),
        ("db-0.bergen.db.shop.svc", "A"): ("10.2.0.7",),
    }
    for question, records in wanted.items():
        while (await theirs.ask(*question)).records != records:  # noqa: ASYNC110 - it tells when asked
            await asyncio.sleep(0.1)
