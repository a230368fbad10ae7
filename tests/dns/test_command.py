"""`hanse dns` and `hanse resolve` against a running federation: packets and explanations agree."""

import asyncio
import json
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.message
import dns.query
import dns.zone
import pytest
from msgspec import Struct

from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from tests.cli import conftest
from tests.cli.command_server import RunningCommand, command_server
from tests.cli.programs import RunningFederation, environment, soon
from tests.dns.builders import NODATA, WEB, DnsAnswer, endpoint_slice, imported, parse_answer

fleet = conftest.fleet
forked_commands = conftest.forked_commands
COMMAND_TIMEOUT = 60


class ServerSettings(Struct, frozen=True):
    """A process that serves, where it is asked, and where it tells its numbers."""

    process: RunningCommand
    port: int
    metrics: str


@contextmanager
def _dns(federation: RunningFederation, *arguments: str) -> Iterator["ServerSettings"]:
    """A DNS server of its own process."""
    listen = ("--listen", "127.0.0.1:0", "--workers", "1", "--log-format", "json")
    home = environment(federation.folder, {"KUBECONFIG": str(federation.kubeconfig)})
    process = command_server().start_with_pipe(
        ["dns", *listen, *arguments], federation.folder, home
    )
    try:
        line = _said(process, "dns serves")
        yield ServerSettings(process, int(line["listen"].rpartition(":")[2]), line["metrics"])
    finally:
        process.terminate()
        status = process.finish(COMMAND_TIMEOUT)
    assert status == 0


def _said(process: RunningCommand, message: str) -> dict[str, str]:
    """The line of the log with a message; others may stand before it."""
    assert process.stdout is not None
    for line in process.stdout:
        entry: dict[str, str] = json.loads(line)
        if entry["message"] == message:
            return entry
    raise AssertionError(f"the server ended and never said {message!r}")


def _ask(port: int, name: str, rtype: str) -> DnsAnswer:
    """Ask until the server has read its cluster: before that it fails, as it must."""
    query = dns.message.make_query(name, rtype)
    answers: list[DnsAnswer] = []

    def check() -> bool:
        packet = dns.query.udp(query, "127.0.0.1", port=port, timeout=COMMAND_TIMEOUT)
        answers.append(parse_answer(packet))
        return answers[-1].code != "SERVFAIL"

    soon(check)
    return answers[-1]


def test_resolve_prints_what_the_server_answers(fleet: RunningFederation) -> None:
    questions = [
        (WEB, "A"),
        (WEB, "AAAA"),
        (WEB, "SRV"),
        (f"bergen.{WEB}", "A"),
        (f"riga.{WEB}", "A"),
        ("dns-version.clusterset.local", "TXT"),
        (WEB, "ANY"),
        ("web.global.test", "ANY"),
        ("web.global.test", "MX"),
        ("x.web.global.test", "A"),
        ("nobody.global.test", "A"),
        ("global.test.", "A"),
        ("web.elsewhere.test", "A"),
    ]
    names = ("--cluster-id", "lubeck", "--global-zone", "global.test")
    with _dns(fleet, "--context", "lubeck", *names) as serving:
        for name, rtype in questions:
            output = fleet.run_hanse("resolve", name, rtype, "--context", "lubeck", "--json")
            assert output.status == 0, output.err
            (answer,) = json.loads(output.out)["clusters"]
            packet = _ask(serving.port, name, rtype)
            assert answer["code"] == packet.code, (name, rtype)
            assert tuple(sorted(r["value"] for r in answer["records"])) == packet.records


def test_every_cluster_answers_its_own_address_first(fleet: RunningFederation) -> None:
    output = fleet.run_hanse("resolve", "web.shop", "--json")

    answer = {one["cluster"]: one for one in json.loads(output.out)["clusters"]}
    assert set(answer) == {"lubeck", "hamburg", "bergen"}
    assert len({one["records"][0]["value"] for one in answer.values()}) == 3
    assert answer["bergen"]["rule"] == "local first: bergen is ready"


def test_resolve_reads_well(fleet: RunningFederation) -> None:
    output = fleet.run_hanse("resolve", "web.shop", "--no-local-first", "--context", "bergen")

    lines = output.out.splitlines()
    assert lines[0] == f"{WEB}. A"
    assert lines[1].split() == ["CLUSTER", "ANSWER", "RECORDS", "WHY"]
    assert "in turn by weight: bergen, hamburg, lubeck" in lines[2]
    assert "(33 %)" in lines[2]


def test_a_cluster_whose_lease_ran_out_is_left_out_by_server_and_resolve(
    fleet: RunningFederation,
) -> None:
    name = "ghost.shop.svc.clusterset.local"
    asyncio.run(_haunt(fleet))

    with _dns(fleet, "--context", "lubeck", "--broker-context", "broker") as serving:
        soon(lambda: _is_nodata_after(_ask(serving.port, name, "A")))
        # It reads ages in whole seconds of the API server, and may see the end a second later.
        soon(lambda: _resolved_in_lubeck(fleet, name)["code"] == NODATA)

    left_out = _resolved_in_lubeck(fleet, name)["leftOut"]
    assert left_out == [{"cluster": "riga", "why": "its Lease on the broker has run out"}]


def _is_nodata_after(answer: DnsAnswer) -> bool:
    """Whether the Lease has run out before our eyes: until then its cluster is answered."""
    assert answer.code == NODATA or answer.records == ("10.4.0.1",)
    return answer.code == NODATA


def _resolved_in_lubeck(fleet: RunningFederation, name: str) -> dict[str, object]:
    clusters = json.loads(fleet.run_hanse("resolve", name, "--json").out)["clusters"]
    (answer,) = [one for one in clusters if one["cluster"] == "lubeck"]
    return dict(answer)


async def _haunt(fleet: RunningFederation) -> None:
    """A service in lubeck whose only cluster has died long ago."""
    for context, objects in (
        ("lubeck", [imported("ghost"), endpoint_slice("riga", "10.4.0.1", service="ghost")]),
        ("broker", [_old_lease("riga")]),
    ):
        found = credentials.find_credentials(fleet.kubeconfig, context=context)
        transport = HttpTransport(found)
        try:
            for obj in objects:
                await Client(transport).create(obj)
        finally:
            await transport.close()


def _old_lease(cluster: str) -> Lease:
    spec = LeaseSpec(
        holder_identity=cluster,
        lease_duration_seconds=1,
        renew_time="2026-01-01T00:00:00.000000Z",
    )
    return Lease(metadata=LeaseMeta(name=cluster, namespace="hanse-broker"), spec=spec)


def test_sighup_replaces_the_workers_and_metrics_are_served(fleet: RunningFederation) -> None:
    with _dns(fleet, "--context", "lubeck", "--metrics-listen", "127.0.0.1:0") as serving:
        assert _ask(serving.port, WEB, "A").code == "NOERROR"
        before = _children(serving.process.pid)

        serving.process.send_signal(signal.SIGHUP)
        _said(serving.process, "dns reloaded")

        assert not before & _children(serving.process.pid)
        assert _ask(serving.port, WEB, "A").code == "NOERROR"
        numbers = _fetched(f"http://{serving.metrics}/metrics")
        assert _fetched(f"http://{serving.metrics}/readyz") == "ready\n"

    assert 'hanse_dns_queries_total{rcode="NOERROR",type="A"' in numbers
    assert "hanse_dns_seconds_bucket" in numbers


def _children(pid: int) -> set[str]:
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def _fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=COMMAND_TIMEOUT) as answer:
        return str(answer.read().decode())


def test_a_zone_is_transferred_to_those_who_may_have_it_alone(fleet: RunningFederation) -> None:
    allowed = ("--allow-transfer", "127.0.0.0/8")
    with _dns(fleet, "--context", "lubeck", *allowed) as serving:
        _ask(serving.port, WEB, "A")
        zone = dns.zone.Zone("clusterset.local", relativize=False)
        dns.query.inbound_xfr("127.0.0.1", zone, port=serving.port, lifetime=COMMAND_TIMEOUT)
    with _dns(fleet, "--context", "lubeck") as serving:
        refused = _ask(serving.port, "clusterset.local", "AXFR")

    rdataset = zone.find_rdataset(f"{WEB}.", "A")
    assert len(rdataset) == 3, "every cluster that has a turn"
    assert refused.code == "REFUSED"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("resolve", "a..b"), "label that is not 1 to 63"),
        (("resolve", "web.shop", "NOPE"), "no record type"),
        (("dns", "corefile", "example.org"), "not ADDRESS"),
        (("dns", "--listen", "nonsense"), "ADDRESS:PORT"),
        (("dns", "--zone", "a..b"), "--zone"),
        (("dns", "--allow-transfer", "everyone"), "--allow-transfer 'everyone' is no network"),
        (("dns", "--metrics-listen", "nonsense"), "--metrics-listen 'nonsense' is not"),
    ],
)
def test_bad_input_gets_one_clear_line(
    fleet: RunningFederation, arguments: tuple[str, ...], words: str
) -> None:
    output = fleet.run_hanse(*arguments)

    assert (output.status, output.out) == (2, "")
    assert words in output.err
    assert len(output.err.splitlines()) == 1


def test_the_corefile_hands_the_zone_over(fleet: RunningFederation) -> None:
    output = fleet.run_hanse("dns", "corefile", "--replicas", "10.0.0.7:5353")

    assert output.out.startswith("clusterset.local:53 {")
    assert "\nmyfederation.svc.example.com:53 {" in output.out, "and no other name of the zone"
    assert "forward . 10.0.0.7:5353" in output.out


def test_global_hosts_are_answered_below_their_zones_by_region(fleet: RunningFederation) -> None:
    members = [
        {"cluster": "lubeck", "address": "10.1.0.1"},
        {"cluster": "bergen", "address": "10.3.0.1"},
    ]
    spec = {"host": "a.global.test", "members": members, "algorithm": "GSLB_ALGORITHM_GEO"}
    service = {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "GlobalService",
        "metadata": {"name": "a.global.test", "namespace": "avi-system"},
        "spec": spec,
    }
    made = fleet.folder / "service.json"
    made.write_text(json.dumps(service))
    assert fleet.kubectl("--context", "lubeck", "apply", "-f", str(made)).status == 0

    near = ("--global-zone", "global.test", "--region", "127.0.0.0/8=bergen")
    with _dns(fleet, "--context", "lubeck", *near) as serving:
        answers = {_ask(serving.port, "a.global.test", "A").records for _ in range(4)}
        unknown = _ask(serving.port, "b.global.test", "A").code
        query = dns.message.make_query("a.global.test", "A")
        streamed = parse_answer(
            dns.query.tcp(query, "127.0.0.1", port=serving.port, timeout=COMMAND_TIMEOUT)
        )

    assert streamed.records == ("10.3.0.1",)
    assert answers == {("10.3.0.1",)}
    assert unknown == "NXDOMAIN"


def test_global_hosts_follow_the_health_that_the_leader_reports(fleet: RunningFederation) -> None:
    watched = [{"type": "TCP", "port": 80}]
    members = [
        {"cluster": "lubeck", "address": "10.1.0.1", "priority": 20, "monitors": watched},
        {"cluster": "bergen", "address": "10.3.0.1", "priority": 10},
    ]
    service = {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "GlobalService",
        "metadata": {"name": "h.global.test", "namespace": "avi-system"},
        "spec": {"host": "h.global.test", "members": members},
    }
    made = fleet.folder / "health.json"
    made.write_text(json.dumps(service))
    here = ("--context", "lubeck", "-n", "avi-system")
    assert fleet.kubectl(*here, "apply", "-f", str(made)).status == 0

    def tell(up: bool) -> None:
        health = [{"cluster": "lubeck", "address": "10.1.0.1", "up": up}]
        change = json.dumps({"status": {"members": health}})
        patch = ("patch", "globalservice", "h.global.test", "--subresource=status")
        assert fleet.kubectl(*here, *patch, "--type=merge", "-p", change).status == 0

    with _dns(fleet, "--context", "lubeck", "--global-zone", "global.test") as serving:
        for up, address in ((True, "10.1.0.1"), (False, "10.3.0.1"), (True, "10.1.0.1")):
            tell(up)
            _until_answered(serving.port, "h.global.test", address)


def _until_answered(port: int, name: str, address: str) -> None:
    """Ask until a change has come through; whoever waits for too long fails."""
    soon(lambda: _ask(port, name, "A").records == (address,))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--region", "here=bergen"), "--region 'here' is no network"),
        (("--region", "10.0.0.0/8"), "is not NETWORK=CLUSTER"),
        (("--trust-resolver", "x"), "--trust-resolver 'x' is no network"),
        (("--global-zone", "a..b"), "--global-zone: 'a..b' has a label"),
    ],
)
def test_invalid_global_zone_options_are_refused_in_one_line(
    fleet: RunningFederation, arguments: tuple[str, str], words: str
) -> None:
    output = fleet.run_hanse("dns", "--listen", "127.0.0.1:0", *arguments)

    assert output.status == 2
    assert words in output.err
    assert output.err.count("\n") == 1
