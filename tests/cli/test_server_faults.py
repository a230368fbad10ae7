"""Wrong clocks and ids, expired certificates, an old version: told, and mended by who runs it."""

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
from hanse.kube.server_tls import server_context
from tests.cli.cluster_faults import LONG_LEASES, SHORT_LEASES
from tests.cli.faces import Faces, told
from tests.cli.fault_table import FUNCTIONS, OBSERVERS, Fault
from tests.cli.programs import RunningFederation, environment, eventually, soon
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
def agent(
    fleet: RunningFederation, home: Path, cluster_id: str, context: str, hours: int = 0
) -> Iterator["subprocess.Popen[bytes]"]:
    """An agent as a process that writes into `said`, with a clock that is so many hours off."""
    (home / "skewed.py").write_text(SKEWED)
    with (home / "said").open("wb") as said:
        process = subprocess.Popen(
            [
                *(sys.executable, "skewed.py", str(hours), "agent", "--cluster-id", cluster_id),
                *("--context", context, "--broker-context", "broker", "--listen", "127.0.0.1:0"),
            ],
            cwd=home,
            env=environment(home, {"KUBECONFIG": str(fleet.kubeconfig)}),
            stderr=said,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def aged(server: str, tls: ssl.SSLContext) -> Iterator[str]:
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
        proxy.socket = tls.wrap_socket(
            proxy.socket, server_side=True, do_handshake_on_connect=False
        )
        thread = Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{proxy.server_port}"
        finally:
            proxy.shutdown()
            thread.join()


@pytest.mark.parametrize("hours", [3, -3])
def test_an_agent_with_a_wrong_clock_is_alive_and_told_until_it_dies(
    fleet: RunningFederation, tmp_path: Path, hours: int
) -> None:
    faces = Faces(fleet, tmp_path)
    faces.shell(FUNCTIONS + SHORT_LEASES + "hanse local stop agent bergen")
    with agent(fleet, tmp_path, "bergen", "bergen", hours):
        eventually(lambda: _differs(faces, {"ClockSkew Lease hanse-system/hanse-agent in bergen"}))
    eventually(lambda: _differs(faces, {"AgentSilent Cluster bergen"}))

    faces.shell("hanse local start agent bergen")

    nothing_is_wrong(faces)
    faces.shell(FUNCTIONS + LONG_LEASES)


def test_an_agent_under_the_id_of_another_cluster_ends_and_takes_nothing_from_it(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    faces = Faces(fleet, tmp_path)
    record = FUNCTIONS + "k broker -n hanse-broker get clustermember lubeck -o jsonpath='{.spec}'"
    before = faces.shell(record)
    faces.shell(FUNCTIONS + SHORT_LEASES + "hanse local stop agent bergen")
    with agent(fleet, tmp_path, "lubeck", "bergen") as process:
        while process.poll() is None:  # it is told from the record that it is another cluster
            found = {one.fault for one in told(faces.doctor())}
            assert found <= {"MemberMismatch Cluster bergen", "AgentSilent Cluster bergen"}
    said = (tmp_path / "said").read_text()
    assert (  # by the record on the broker, or by the Secret of a cluster that was joined again
        "cluster id 'lubeck' is that of another cluster" in said
        or "joined its broker as 'bergen', not as 'lubeck'" in said
    )
    assert faces.shell(record) == before

    faces.shell("hanse local start agent bergen")

    nothing_is_wrong(faces)
    faces.shell(FUNCTIONS + LONG_LEASES)


def test_a_second_agent_of_a_cluster_waits_and_takes_over(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    faces = Faces(fleet, tmp_path)
    holder = FUNCTIONS + (
        "k bergen -n hanse-system get lease hanse-agent -o jsonpath='{.spec.holderIdentity}'"
    )
    faces.shell(FUNCTIONS + SHORT_LEASES)
    first = faces.shell(holder)
    with agent(fleet, tmp_path, "bergen", "bergen"):
        for _ in range(10):
            assert faces.doctor() == []
            assert faces.shell(holder) == first

        faces.shell("hanse local stop agent bergen")

        soon(lambda: faces.shell(holder) not in ("", first))
        eventually(lambda: _differs(faces, set()))
    faces.shell("hanse local start agent bergen")

    nothing_is_wrong(faces)
    faces.shell(FUNCTIONS + LONG_LEASES)


def test_an_expired_certificate_of_a_server_is_told_with_whom_to_ask(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    faces = Faces(fleet, tmp_path)
    authority = CertificateAuthority.create("renewed")
    expired = authority.server("bergen", now=datetime.now(UTC) - timedelta(days=366))
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    server = _served(faces, tmp_path, fleet)

    with aged(server, server_context(expired)) as old:
        certificate = Fault(
            "CertificateUntrusted Cluster bergen",
            _moved_to(old),
            unseen_by=OBSERVERS,
            asked='cat before >"$KUBECONFIG"',
        )
        faces.shell(certificate.script)
        (found,) = faces.doctor()
        assert "expired" in found["summary"]
        faces.shell(certificate.asked)
        play(faces, (certificate,))


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


def test_a_wrong_clock_an_old_version_and_a_certificate_that_ends_are_told_with_whom_to_ask(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    faces = Faces(fleet, tmp_path)
    server = _served(faces, tmp_path, fleet)
    authority = CertificateAuthority.create("bergen")
    ending = authority.server("bergen", now=datetime.now(UTC) - timedelta(days=362))
    (tmp_path / "ca.crt").write_bytes(authority.certificate)

    with aged(server, server_context(ending)) as old:
        clock = Fault(
            "ClockSkew APIServer bergen",
            _moved_to(old),
            unseen_by=OBSERVERS,
            asked='cat before >"$KUBECONFIG"',
        )
        others = ("VersionUnsupported", "CertificateExpiring")
        told_too = (
            Fault(f"{code} APIServer bergen", ":", unseen_by=OBSERVERS, asked=":")
            for code in others
        )
        play(faces, (clock, *told_too))


def _moved_to(server: str) -> str:
    """The command by which the kubeconfig has another server for bergen, of authority `ca.crt`."""
    return (
        f"kubectl config set-cluster bergen --server {server} "
        "--certificate-authority ca.crt --embed-certs"
    )


def _served(faces: Faces, home: Path, fleet: RunningFederation) -> str:
    """The server of bergen by the kubeconfig, which is kept in the file `before`."""
    (home / "before").write_bytes(fleet.kubeconfig.read_bytes())
    named = "jsonpath={.clusters[?(@.name=='bergen')].cluster.server}"
    return faces.shell(f'kubectl config view -o "{named}"')
