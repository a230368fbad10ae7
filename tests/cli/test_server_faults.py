"""An API server with a wrong clock, or of an old version: told, and mended by who runs it."""

import json
import os
import shutil
import ssl
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

from tests.cli.faces import Faces
from tests.cli.fault_table import OBSERVERS, Fault
from tests.cli.programs import RunningFederation
from tests.cli.test_faults import play

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
    pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="half a minute: make faults"),
]

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
