"""A name that somebody else publishes, too: told by the agent that publishes and by a person."""

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.faces import Faces, Told, findings_in
from tests.cli.fault_table import FUNCTIONS, Fault
from tests.cli.programs import HANSE, RunningFederation, environment, running, soon
from tests.cli.test_faults import play
from tests.support.ports import free_ports

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
    pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="half a minute: make faults"),
]

TAKEN = Fault(
    "NotPublished ServiceImport shop/web in lubeck",
    """
    make lubeck '{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint,
    metadata: {name: mine, namespace: shop}, spec: {endpoints: [
    {dnsName: web.shop.svc.fleet.example.org, recordType: A, targets: [192.0.2.1]}]}}'
    """,
    asked="k lubeck -n shop delete dnsendpoint mine",
    unseen_by=frozenset({"dashboard"}),  # that of `hanse up` has only its own agents
)


class PublishingFaces(Faces):
    """The presentations of a fleet, with the metrics of an agent beside it."""

    def __init__(self, fleet: RunningFederation, home: Path, metrics: str) -> None:
        super().__init__(fleet, home)
        self._more = metrics

    def metrics(self) -> set[Told]:
        with urllib.request.urlopen(self._more) as answer:
            return super().metrics() | findings_in(answer.read().decode())


@contextmanager
def publishing_agent(fleet: RunningFederation, home: Path, listen: str) -> Iterator[None]:
    """The agent of lubeck as a process of its own, which publishes names for ExternalDNS."""
    publish = ("--publish-zone", "fleet.example.org", "--publish-endpoints", "shop")
    place = ("--cluster-id", "lubeck", "--context", "lubeck", "--broker-context", "broker")
    with subprocess.Popen(
        [*HANSE, "agent", *place, *publish, "--listen", listen],
        cwd=home,
        env=environment(home, {"KUBECONFIG": str(fleet.kubeconfig)}),
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def test_a_name_that_another_publishes_is_told_with_whom_to_ask(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    with running(tmp_path, "--clusters", "lubeck,hamburg") as fleet:
        faces = PublishingFaces(fleet, tmp_path, f"http://{listen}/metrics")
        faces.shell("hanse local stop agent lubeck")
        with publishing_agent(fleet, tmp_path, listen):
            published = FUNCTIONS + "k lubeck -n shop get dnsendpoints -o name"
            soon(lambda: "web-shop" in faces.shell(published))

            play(faces, (TAKEN,))
