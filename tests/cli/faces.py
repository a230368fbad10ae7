"""What is wrong with a fleet, as each of its presentations says it."""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterable
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from msgspec import Struct

from hanse.cli.root import hanse
from tests.cli.programs import COMMAND_TIMEOUT, RunningFederation, environment

"""Seconds after which what has not come never comes."""

_SERIES = re.compile(r"^hanse_finding\{(.*)\} 1\.0$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Told(Struct, frozen=True, order=True):
    """A finding without its words."""

    code: str
    severity: str
    kind: str
    namespace: str
    name: str
    cluster: str

    @property
    def fault(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        where = f" in {self.cluster}" if self.cluster and self.cluster != self.name else ""
        return f"{self.code} {self.kind} {place}{where}"


class Faces:
    """The presentations of a running federation, and a shell beside it."""

    def __init__(self, fleet: RunningFederation, home: Path) -> None:
        self._fleet = fleet
        self._home = home
        self._environment = environment(home, {"KUBECONFIG": str(fleet.kubeconfig)})
        self._page = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        link = self._run("dashboard").strip()
        self._page.open(link).read()
        self._address = link.partition("/enter/")[0]

    def shell(self, script: str, *, may_fail: bool = False) -> str:
        """What a person types, as it stands; it has to succeed."""
        ended = subprocess.run(
            ["bash", "-ec", "set -o pipefail\n" + script],
            cwd=self._home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert may_fail or ended.returncode == 0, f"$ {script}\n{ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def _run(self, *arguments: str) -> str:
        """A command in this process, which is faster than another one."""
        before = dict(os.environ)
        os.environ.update(self._environment)
        try:
            return CliRunner().invoke(hanse, arguments).stdout
        finally:
            os.environ.clear()
            os.environ.update(before)

    def doctor(self) -> list[dict[str, Any]]:
        """The findings of `hanse doctor --json`."""
        found: list[dict[str, Any]] = json.loads(self._run("doctor", "--json"))["findings"]
        return found

    def status(self) -> dict[str, Any]:
        """The document of `hanse status --json`."""
        found: dict[str, Any] = json.loads(self._run("status", "--json"))
        return found

    def dashboard(self) -> list[dict[str, Any]]:
        """The findings of the page, in its own order."""
        with self._page.open(f"{self._address}/api/board") as answer:
            board = json.load(answer)
        return list(board["sections"]["findings"].values())

    def metrics(self) -> set[Told]:
        """The findings in the metrics of all agents that run."""
        running = json.loads(self._run("local", "list", "--json"))["clusters"]
        addresses = [one["metrics"] for one in running if one["metrics"]]
        texts = [urllib.request.urlopen(one).read().decode() for one in addresses]
        return {found for text in texts for found in findings_in(text)}

    def events(self) -> set[tuple[str, str]]:
        """Reason and message of all Events of Hanse that warn, in all clusters that answer."""
        found = set()
        for cluster in ("lubeck", "hamburg", "bergen"):
            listed = self.shell(
                f"kubectl --context {cluster} get events -A -o json --request-timeout 5s",
                may_fail=True,
            )
            if listed.startswith("{"):
                events, _ = json.JSONDecoder().raw_decode(listed)  # an error may follow
                found |= {(e["reason"], e.get("message", "")) for e in events["items"]}
        return found


def findings_in(metrics: str) -> set[Told]:
    """The findings in the text of an agent's metrics."""
    return {Told(**dict(_LABEL.findall(found))) for found in _SERIES.findall(metrics)}


def told(findings: Iterable[dict[str, Any]]) -> set[Told]:
    """Findings of a JSON document without their words."""
    return {
        Told(
            f["code"],
            f["severity"],
            f["subject"]["kind"],
            f["subject"]["namespace"],
            f["subject"]["name"],
            f["subject"]["cluster"],
        )
        for f in findings
    }
