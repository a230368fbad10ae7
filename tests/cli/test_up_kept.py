"""`hanse up --dir`: what it acknowledged survives `kill -9`, and a full disk does not end it."""

import json
import resource
import signal
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.cli.programs import HANSE, RunningFederation, environment, running

NO_CACHE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""With files limited in size, Python would leave cut .pyc files behind."""
UP = ("--clusters", "rome", "--no-sample", "--no-federation", "--dir", "kept")
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


class Rome:
    """The API of a cluster that runs, by HTTP."""

    def __init__(self, federation: RunningFederation) -> None:
        config = yaml.safe_load(federation.kubeconfig.read_text())
        entry = next(c["cluster"] for c in config["clusters"] if c["name"] == "rome")
        self._token = next(u["user"]["token"] for u in config["users"] if "rome" in u["name"])
        self._server = entry["server"]
        self._tls = ssl._create_unverified_context()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self._server + path,
            method=method,
            data=None if body is None else msgspec.json.encode(body),
            headers={"authorization": f"Bearer {self._token}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, context=self._tls, timeout=30) as response:
            return json.load(response)

    def create(self, name: str, size: int = 1) -> None:
        obj = {"metadata": {"name": name}, "data": {"x": "y" * size}}
        self.request("POST", CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", **obj})

    def names(self) -> list[str]:
        found = self.request("GET", CONFIGMAPS)["items"]
        return [o["metadata"]["name"] for o in found if o["metadata"]["name"] != "kube-root-ca.crt"]


def test_what_was_acknowledged_before_kill_9_is_there_again(tmp_path: Path) -> None:
    with running(tmp_path, *UP, env=NO_CACHE) as federation:
        rome = Rome(federation)
        for number in range(10):
            rome.create(f"a-{number}")
        for number in range(0, 10, 2):
            rome.request("DELETE", f"{CONFIGMAPS}/a-{number}")
        federation.stop(signal.SIGKILL)

    with running(tmp_path, *UP, env=NO_CACHE) as federation:
        assert Rome(federation).names() == [f"a-{number}" for number in range(1, 10, 2)]
        assert federation.stop() == 0


def test_a_full_disk_is_reported_and_the_federation_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, *UP, env=NO_CACHE) as federation:
        rome = Rome(federation)
        rome.create("before")
        snapshot = tmp_path / "kept/clusters/rome.json"
        pid, unlimited = federation.process.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        rome.create("large", size=10_000)
        rome.create("later")
        assert rome.names() == ["before", "large", "later"]
        line = federation.read_until("cannot be saved")
        assert line == (
            f"what rome holds cannot be saved to {snapshot}: File too large; "
            "later changes are lost when this process ends\n"
        )
        assert [f.name for f in snapshot.parent.iterdir() if f.name.startswith(".")] == []

        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        federation.read_until("rome is saved again")
        federation.stop(signal.SIGKILL)

    with running(tmp_path, *UP, env=NO_CACHE) as federation:
        assert Rome(federation).names() == ["before", "large", "later"]


def test_a_disk_that_is_full_at_the_end_is_reported_in_one_line(tmp_path: Path) -> None:
    with running(tmp_path, *UP, env=NO_CACHE) as federation:
        limit = (4096, resource.RLIM_INFINITY)
        resource.prlimit(federation.process.pid, resource.RLIMIT_FSIZE, limit)
        status = federation.stop()

    assert status == 2
    assert "Traceback" not in federation.output
    last = federation.output.strip().splitlines()[-1]
    assert last.startswith("hanse: what ")
    assert f" holds cannot be saved to {tmp_path}/kept/clusters/" in last
    assert last.endswith(": File too large; make room, or give another folder with --dir")


def test_a_disk_that_is_full_at_the_start_is_reported_in_one_line(tmp_path: Path) -> None:
    limited = ("bash", "-c", 'ulimit -f 1; exec "$@"', "up")
    command = [*limited, *HANSE, "up", "--clusters", "rome", "--no-sample"]

    result = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(tmp_path, NO_CACHE),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 1
    assert result.stderr == (
        f"hanse: {tmp_path}/.hanse/kubeconfig cannot be written: File too large; "
        "make room, or give another folder with --dir\n"
    )
