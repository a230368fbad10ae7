"""The names of a local federation, asked for by real packets."""

import json
import re
import sys
import time
from pathlib import Path

import dns.message
import dns.query
import dns.rcode

from tests.cli.programs import COMMAND_TIMEOUT, RunningFederation, hanse

WEB = "web.shop.svc.clusterset.local"


def addresses(server: str, name: str) -> tuple[str, list[str]]:
    """What a server answers: the code and the addresses."""
    host, _, port = server.partition(":")
    question = dns.message.make_query(name, "A")
    answer = dns.query.udp(question, host, port=int(port), timeout=COMMAND_TIMEOUT)
    found = [record.to_text() for rrset in answer.answer for record in rrset]
    return dns.rcode.to_text(answer.rcode()), found


def views(fleet: RunningFederation) -> dict[str, str]:
    """Where each view answers, as the table tells it."""
    rows = [line.split() for line in fleet.output.splitlines() if "https://127.0.0.1:" in line]
    return {row[0]: f"127.0.0.1:{row[3]}" for row in rows if row[3].isdecimal()}


def test_each_cluster_is_answered_its_own_address_first(fleet: RunningFederation) -> None:
    until = time.monotonic() + COMMAND_TIMEOUT
    own: set[str] = set()
    while len(own) < 3 and time.monotonic() < until:  # the sample's pods take their time
        answers = {cluster: addresses(server, WEB) for cluster, server in views(fleet).items()}
        assert sorted(answers) == ["bergen", "hamburg", "lubeck"]
        own = {found[0] for _, found in answers.values() if found}

    assert len(own) == 3, f"each cluster has its own: {answers}"


def test_one_who_asks_from_nowhere_is_sent_to_all_in_turn(fleet: RunningFederation) -> None:
    found = re.search(r"dig @(\S+) -p (\d+)", fleet.output)
    assert found is not None

    server = f"{found[1]}:{found[2]}"
    until = time.monotonic() + COMMAND_TIMEOUT
    turns: list[str] = []
    while len(set(turns)) < 3 and time.monotonic() < until:  # others may have cut it off just now
        turns = [addresses(server, WEB)[1][0] for _ in range(6)]

    assert len(set(turns)) == 3


def test_status_shows_where_each_view_answers(fleet: RunningFederation) -> None:
    status = json.loads(fleet.run_hanse("status", "--json").out)

    assert {one["name"]: one["dns"] for one in status["clusters"] if one["dns"]} == views(fleet)
    assert f"-p {status['dns'].partition(':')[2]} " in fleet.output


def test_a_tenants_network_is_answered_its_own_names_and_no_others(
    fleet: RunningFederation,
) -> None:
    status = json.loads(fleet.run_hanse("status", "--json").out)
    (server,) = [
        one["networkDns"]["acme.default"] for one in status["clusters"] if one["name"] == "hamburg"
    ]
    wait = ("--for=jsonpath={.status.phase}=Ready", "--timeout=30s", "network/acme.default")
    fleet.kubectl("--context", "hamburg", "wait", *wait)
    until = time.monotonic() + COMMAND_TIMEOUT
    kubernetes: list[str] = []
    while not kubernetes and time.monotonic() < until:
        kubernetes = addresses(server, "kubernetes.default.svc.cluster.local")[1]

    alias = ("get", "service", "kubernetes-default", "-o", "jsonpath={.spec.clusterIP}")
    own = fleet.kubectl("--context", "hamburg", "-n", "acme-default", *alias)
    assert kubernetes == [own.out]
    assert addresses(server, "web.shop.svc.cluster.local")[0] == "NXDOMAIN"


def test_a_script_finds_the_names(tmp_path: Path) -> None:
    script = f"{sys.executable} -c 'import os, json; print(json.dumps(os.environ[\"HANSE_DNS\"]))'"

    result = hanse("up", "--no-sample", "--clusters", "paris", "--exec", script, cwd=tmp_path)

    assert result.status == 0, result.err
    assert re.fullmatch(r"127\.0\.0\.1:\d+", json.loads(result.out.splitlines()[-1]))
