"""`hanse dns` and `hanse resolve` against a federation that runs: packets and words agree."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import dns.message
import dns.query
import pytest

from tests.cli.conftest import fleet as fleet_of_clusters
from tests.cli.programs import HANSE, Running, environment
from tests.dns.fleet import WEB, Told, told_in

fleet = fleet_of_clusters
PATIENCE = 60


@contextmanager
def _dns(federation: Running, *arguments: str) -> Iterator[int]:
    """A DNS server of its own process; gives its port."""
    listen = ("--listen", "127.0.0.1:0", "--workers", "1", "--log-format", "json")
    process = subprocess.Popen(
        [*HANSE, "dns", *listen, *arguments],
        env=environment(federation.folder, {"KUBECONFIG": str(federation.kubeconfig)}),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        told = json.loads(process.stderr.readline())
        assert told["message"] == "dns serves", told
        yield int(told["listen"].rpartition(":")[2])
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def _ask(port: int, name: str, rtype: str) -> Told:
    """Ask until the server has read its cluster: before that it fails, as it must."""
    end = monotonic() + PATIENCE
    while monotonic() < end:
        query = dns.message.make_query(name, rtype)
        told = told_in(dns.query.udp(query, "127.0.0.1", port=port, timeout=PATIENCE))
        if told.code != "SERVFAIL":
            return told
    raise AssertionError(f"still SERVFAIL after {PATIENCE} s")


def test_resolve_tells_what_the_server_answers(fleet: Running) -> None:
    questions = [
        (WEB, "A"),
        (WEB, "AAAA"),
        (WEB, "SRV"),
        (f"bergen.{WEB}", "A"),
        (f"riga.{WEB}", "A"),
        ("dns-version.clusterset.local", "TXT"),
    ]
    with _dns(fleet, "--context", "lubeck", "--cluster-id", "lubeck") as port:
        for name, rtype in questions:
            said = fleet.beside("resolve", name, rtype, "--context", "lubeck", "--json")
            assert said.status == 0, said.err
            (told,) = json.loads(said.out)["clusters"]
            packet = _ask(port, name, rtype)
            assert told["code"] == packet.code, (name, rtype)
            assert tuple(sorted(r["value"] for r in told["records"])) == packet.records


def test_every_cluster_answers_its_own_address_first(fleet: Running) -> None:
    said = fleet.beside("resolve", "web.shop", "--json")

    told = {one["cluster"]: one for one in json.loads(said.out)["clusters"]}
    assert set(told) == {"lubeck", "hamburg", "bergen"}
    assert len({one["records"][0]["value"] for one in told.values()}) == 3
    assert told["bergen"]["rule"] == "local first: bergen is ready"


def test_resolve_reads_well(fleet: Running) -> None:
    said = fleet.beside("resolve", "web.shop", "--no-local-first", "--context", "bergen")

    lines = said.out.splitlines()
    assert lines[0] == f"{WEB}. A"
    assert lines[1].split() == ["CLUSTER", "ANSWER", "RECORDS", "WHY"]
    assert "in turn by weight: bergen, hamburg, lubeck" in lines[2]
    assert "(33 %)" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("resolve", "a..b"), "label that is not 1 to 63"),
        (("resolve", "web.shop", "NOPE"), "no record type"),
        (("dns", "corefile", "example.org"), "not ADDRESS"),
        (("dns", "--listen", "nonsense"), "ADDRESS:PORT"),
        (("dns", "--zone", "a..b"), "--zone"),
    ],
)
def test_bad_input_gets_one_clear_line(
    fleet: Running, arguments: tuple[str, ...], words: str
) -> None:
    said = fleet.beside(*arguments)

    assert (said.status, said.out) == (2, "")
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_the_corefile_hands_the_zone_over(fleet: Running) -> None:
    said = fleet.beside("dns", "corefile", "10.0.0.7:5353")

    assert said.out.startswith("clusterset.local:53 {")
    assert "forward . 10.0.0.7:5353" in said.out
