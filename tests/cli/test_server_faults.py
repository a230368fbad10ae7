"""Wrong clocks, expired certificates and an old version: told, and mended by who runs it."""

import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hanse.kube.certificates import CertificateAuthority
from tests.cli.cluster_faults import LONG_LEASES, SHORT_LEASES
from tests.cli.faces import Faces, told
from tests.cli.fault_table import FUNCTIONS, OBSERVERS, Fault
from tests.cli.programs import RunningFederation, environment, eventually
from tests.cli.test_faults import nothing_is_wrong, play

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
    pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="half a minute: make faults"),
]

SKEWED = """
import datetime, sys
from hanse.cli import main
from hanse.kube.clock import WallClock

now, off = WallClock.now, datetime.timedelta(hours=float(sys.argv.pop(1)))
WallClock.now = lambda self: now(self) + off
main()
"""
"""The command line on a machine whose clock is so many hours off."""
BEHIND = timedelta(minutes=-5)
OLD = {"major": "1", "minor": "29", "gitVersion": "v1.29.3"}


@contextmanager
def aged(server: str) -> Iterator[str]:
    """An API server in front of another one: of an old version, and with another time."""
    unverified = ssl._create_unverified_context()

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._forward(None)

        def do_POST(self) -> None:
            self._forward(self.rfile.read(int(self.headers["Content-Length"])))

        def _forward(self, body: bytes | None) -> None:
            kept = {n: v for n, v in self.headers.items() if n not in ("Host", "Accept-Encoding")}
            asked = urllib.request.Request(server + self.path, body, kept)
            try:
                answer: HTTPResponse = urllib.request.urlopen(asked, context=unverified)
            except urllib.error.HTTPError as error:
                answer = error  # type: ignore[assignment]  # it is a response, too
            with answer:
                content = answer.read()
            if self.path == "/version":
                content = json.dumps({**json.loads(content), **OLD}).encode()
            self.send_response_only(answer.status)
            self.send_header("Date", format_datetime(datetime.now(UTC) + BEHIND, usegmt=True))
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: a test prints what it fails with."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}"
        finally:
            proxy.shutdown()
            thread.join()


@pytest.mark.parametrize("hours", [3, -3])
def test_an_agent_with_a_wrong_clock_is_alive_and_told_until_it_dies(
    fleet: RunningFederation, tmp_path: Path, hours: int
) -> None:
    faces = Faces(fleet, tmp_path)
    (tmp_path / "skewed.py").write_text(SKEWED)
    faces.shell(FUNCTIONS + SHORT_LEASES + "hanse local stop agent bergen")
    agent = subprocess.Popen(
        [
            *(sys.executable, "skewed.py", str(hours), "agent", "--cluster-id", "bergen"),
            *("--context", "bergen", "--broker-context", "broker", "--listen", "127.0.0.1:0"),
        ],
        cwd=tmp_path,
        env=environment(tmp_path, {"KUBECONFIG": str(fleet.kubeconfig)}),
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: _differs(faces, {"ClockSkew Lease hanse-system/hanse-agent in bergen"}))
    finally:
        agent.kill()
        agent.wait()
    eventually(lambda: _differs(faces, {"AgentSilent Cluster bergen"}))

    faces.shell("hanse local start agent bergen")

    nothing_is_wrong(faces)
    faces.shell(FUNCTIONS + LONG_LEASES)


def _differs(faces: Faces, expected: set[str]) -> str:
    found = {one.fault for one in told(faces.doctor())}
    return "" if found == expected else f"{sorted(found)}, not {sorted(expected)}"


def test_expired_credentials_are_told_with_when_they_expired(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    faces = Faces(fleet, tmp_path)
    long_ago = datetime.now(UTC) - timedelta(days=11_000)
    issued = CertificateAuthority.create("old", long_ago).client("ann", now=long_ago)
    (tmp_path / "ann.crt").write_bytes(issued.certificate)
    (tmp_path / "ann.key").write_bytes(issued.key)
    faces.shell("""
        kubectl config set-credentials ann --client-certificate ann.crt --client-key ann.key
        kubectl config set-context bergen --user ann
        """)

    (found,) = faces.doctor()

    assert found["code"] == "CredentialsRefused"
    assert "Unauthorized; they expired on " in found["summary"]
    faces.shell("kubectl config set-context bergen --user admin@bergen")
    nothing_is_wrong(faces)


def test_a_wrong_clock_and_an_old_version_are_told_with_whom_to_ask(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    faces = Faces(fleet, tmp_path)
    named = "jsonpath={.clusters[?(@.name=='bergen')].cluster.server}"
    server = faces.shell(f'kubectl config view -o "{named}"')

    with aged(server) as old:
        clock = Fault(
            "ClockSkew APIServer bergen",
            f"kubectl config set-cluster bergen --server {old}",
            unseen_by=OBSERVERS,
            asked=f"kubectl config set-cluster bergen --server {server}",
        )
        version = Fault("VersionUnsupported APIServer bergen", ":", unseen_by=OBSERVERS, asked=":")
        play(faces, (clock, version))
