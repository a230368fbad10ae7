"""The names of a local federation, asked for by real packets."""

import json
import re
import sys
from pathlib import Path

import dns.message
import dns.query
import dns.rcode

from tests.cli.programs import COMMAND_TIMEOUT, RunningFederation, eventually, hanse, soon

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
    assert sorted(views(fleet)) == ["bergen", "hamburg", "lubeck"]

    def check() -> str:
        answers = [addresses(server, WEB)[1] for server in views(fleet).values()]
        each_its_own = len({found[0] for found in answers if found}) == 3
        return "" if each_its_own else f"each cluster has its own: {answers}"

    eventually(check)  # the sample's pods take their time


def test_one_who_asks_from_nowhere_is_sent_to_all_in_turn(fleet: RunningFederation) -> None:
    found = re.search(r"dig @(\S+) -p (\d+)", fleet.output)
    assert found is not None

    server = f"{found[1]}:{found[2]}"

    def all_have_a_turn() -> bool:
        turns = [addresses(server, WEB)[1] for _ in range(6)]
        return len({found[0] for found in turns if found}) == 3

    soon(all_have_a_turn)  # others may have cut it off just now


def test_status_shows_where_each_view_answers(fleet: RunningFederation) -> None:
    status = json.loads(fleet.run_hanse("status", "--json").out)

    assert {one["name"]: one["dns"] for one in status["clusters"] if one["dns"]} == views(fleet)
    assert f"-p {status['dns'].partition(':')[2]} " in fleet.output


def test_a_tenants_network_is_answered_its_own_names_and_no_others(
    fleet: RunningFederation,
) -> None:
    wait = ("--for=jsonpath={.status.phase}=Ready", "--timeout=120s", "network/acme.default")
    assert fleet.kubectl("--context", "hamburg", "wait", *wait).status == 0
    status = json.loads(fleet.run_hanse("status", "--json").out)
    (server,) = [
        one["networkDns"]["acme.default"] for one in status["clusters"] if one["name"] == "hamburg"
    ]
    kubernetes = "kubernetes.default.svc.cluster.local"
    soon(lambda: addresses(server, kubernetes)[1])

    alias = ("get", "service", "kubernetes-default", "-o", "jsonpath={.spec.clusterIP}")
    own = fleet.kubectl("--context", "hamburg", "-n", "acme-default", *alias)
    assert addresses(server, kubernetes)[1] == [own.out]
    assert addresses(server, "web.shop.svc.cluster.local")[0] == "NXDOMAIN"


def test_a_script_finds_the_names(tmp_path: Path) -> None:
    script = f"{sys.executable} -c 'import os, json; print(json.dumps(os.environ[\"HANSE_DNS\"]))'"

    result = hanse("up", "--no-sample", "--clusters", "paris", "--exec", script, cwd=tmp_path)

    assert result.status == 0, result.err
    assert re.fullmatch(r"127\.0\.0\.1:\d+", json.loads(result.out.splitlines()[-1]))
