"""The server with real processes, sockets and packets."""

import asyncio
import os
import re
import resource
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from random import Random

import dns.asyncquery
import dns.flags
import dns.message
import dns.rcode
import pytest
from prometheus_client import generate_latest

from hanse.dns import server, updater
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import bind_listeners
from hanse.dns.messages import Delta
from hanse.dns.server import ServedView, serving
from hanse.dns.settings import ServerSettings
from hanse.dns.updater import ViewUpdater
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.records import ZoneNode
from hanse.model.dns.zones import View
from hanse.model.facts import Phase
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.dns.builders import (
    NODATA,
    NXDOMAIN,
    WEB,
    ZONE,
    ZoneWatcher,
    cluster_snapshot,
    endpoint_slice,
    imported,
)
from tests.dns.loopback_server import PATIENCE, Running, running

pytestmark = pytest.mark.anyio

TWO = (imported(), endpoint_slice("bergen", "10.2.0.1"), endpoint_slice("hamburg", "10.1.0.1"))
CROWD = imported("crowd", type_="Headless")
MANY = [f"10.3.{n // 250}.{n % 250 + 1}" for n in range(500)]


async def test_names_are_answered_over_udp_and_tcp() -> None:
    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        by_udp = {(await here.ask(WEB)).records for _ in range(4)}
        by_tcp = {(await here.ask(WEB, tcp=True)).records for _ in range(4)}

        assert by_udp == by_tcp == {("10.2.0.1",), ("10.1.0.1",)}
        assert (await here.ask(f"no.{WEB}")).code == NXDOMAIN
        assert (await here.ask(WEB, "AAAA")).code == NODATA
        assert (await here.ask("example.org", tcp=True)).code == "REFUSED"


async def test_names_are_answered_over_ipv6() -> None:
    async with running(cluster_snapshot("lubeck", *TWO), hosts=("127.0.0.1", "::1")) as here:
        port = here.listeners[1].address[1]
        for ask in (dns.asyncquery.udp, dns.asyncquery.tcp):
            query = dns.message.make_query(WEB, "A")
            answer = await ask(query, "::1", port=port, timeout=PATIENCE)
            assert answer.rcode() == dns.rcode.NOERROR


async def test_every_worker_answers() -> None:
    async with running(cluster_snapshot("lubeck", *TWO), workers=2) as here:
        answer = [
            await here.ask(WEB) for _ in range(32)
        ]  # a new socket each: both have their share

        assert len(here.server.pids) == 2
        assert {one.code for one in answer} == {"NOERROR"}


async def test_a_worker_starts_with_more_names_than_changes_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_BACKLOG", 1_000)
    services = [f"s{number}" for number in range(2_000)]
    slices = [endpoint_slice("bergen", "10.2.0.1", service=name) for name in services]
    observed = cluster_snapshot("lubeck", *(imported(name) for name in services), *slices)
    view = View("test")
    compiler, listeners = Compiler(view, [ServiceZone(view)]), bind_listeners("127.0.0.1", 0, 1)
    compiler.enqueue_all(observed)
    compiler.compile(observed)
    async with serving([ServedView(compiler, (listeners,))]) as started:
        here = Running(started, compiler, (listeners,))
        assert (await here.ask(f"s1999.shop.svc.{ZONE}")).records == ("10.2.0.1",)
    listeners.close()


async def test_the_case_of_a_question_is_kept() -> None:
    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        for edns in (False, True):
            query = dns.message.make_query("wEb.ShOp.sVc.CLUSTERSET.local", "A", use_edns=edns)
            answer = here.raw(query.to_wire())
            assert b"\x03wEb\x04ShOp\x03sVc\x0aCLUSTERSET\x05local\0" in answer
            assert dns.message.from_wire(answer).answer[0].name.to_text().startswith("wEb.ShOp")


async def test_a_change_is_answered_as_soon_as_it_is_observed() -> None:
    view = View("test")
    before, after = imported(), imported("mail")
    observed = [cluster_snapshot("lubeck", before, endpoint_slice("bergen", "10.2.0.1"))]
    compiler, listeners = Compiler(view, [ServiceZone(view)]), bind_listeners("127.0.0.1", 0, 1)
    async with serving([ServedView(compiler, (listeners,))]) as server:
        feed = ViewUpdater(compiler, server, lambda: observed[0])
        async with feed.running():
            await feed.wait_applied()
            here = Running(server, compiler, (listeners,))
            assert (await here.ask(f"mail.shop.svc.{ZONE}")).code == NXDOMAIN

            slice_ = endpoint_slice("bergen", "10.2.0.9", service="mail")
            observed[0] = cluster_snapshot(
                "lubeck", before, endpoint_slice("bergen", "10.2.0.1"), after, slice_
            )
            feed.on_change(ObjectChange("lubeck", None, after))
            await feed.wait_applied()

            assert (await here.ask(f"mail.shop.svc.{ZONE}")).records == ("10.2.0.9",)
    listeners.close()


async def test_nodes_that_a_source_keeps_for_some_time_go_without_any_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(updater, "KEPT_INTERVAL", timedelta(milliseconds=20))
    view, name = View("test"), f"web.shop.svc.{ZONE}"
    present = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    observed, keeps = [present], [False]

    class Keeping(ServiceZone):
        def records_for(  # type: ignore[override]  # as other sources, it may keep nodes
            self, snapshot: Snapshot
        ) -> Callable[[Key], Sequence[ZoneNode] | None]:
            build_nodes = super().records_for(snapshot)
            return lambda key: None if keeps[0] else build_nodes(key)

    compiler, listeners = Compiler(view, [Keeping(view)]), bind_listeners("127.0.0.1", 0, 1)
    async with serving([ServedView(compiler, (listeners,))]) as server:
        feed = ViewUpdater(compiler, server, lambda: observed[0])
        async with feed.running():
            await feed.wait_applied()
            here = Running(server, compiler, (listeners,))
            keeps[0], observed[0] = True, cluster_snapshot("lubeck")
            feed.on_change(ObjectChange("lubeck", imported(), None))
            await feed.wait_applied()
            assert (await here.ask(name)).records == ("10.2.0.1",)

            keeps[0] = False
            await asyncio.sleep(0.1)
            await feed.wait_applied()

            assert (await here.ask(name)).code == NXDOMAIN
            assert not compiler.keeps
    listeners.close()


async def test_a_name_server_is_ready_when_its_workers_answer_and_not_before() -> None:
    view, applied = View("test"), asyncio.Event()
    observed = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))

    class Slow:
        sent = 0

        def update(self, delta: Delta) -> None:
            self.sent += 1

        async def wait_applied(self) -> None:
            await applied.wait()

    server = Slow()
    feed = ViewUpdater(Compiler(view, [ServiceZone(view)]), server, lambda: observed)
    async with feed.running():
        await asyncio.sleep(0.01)
        before = feed.readiness.ready
        applied.set()
        await asyncio.sleep(0.01)

        assert (server.sent > 0, before, feed.readiness.ready) == (True, False, True)


async def test_an_answer_that_does_not_fit_is_truncated_and_complete_over_tcp() -> None:
    observed = cluster_snapshot("lubeck", CROWD, endpoint_slice("bergen", *MANY, service="crowd"))
    name = f"crowd.shop.svc.{ZONE}"
    async with running(observed) as here:
        for size, most in ((None, 512), (600, 600), (65000, 1232), (100, 512)):
            edns = {} if size is None else {"use_edns": 0, "payload": size}
            answer = here.raw(dns.message.make_query(name, "A", **edns).to_wire())  # type: ignore[arg-type]
            message = dns.message.from_wire(answer)
            assert len(answer) <= most
            assert message.flags & dns.flags.TC
            assert most - len(answer) < 40, "as much as fits is told"
            assert (message.edns == 0) == (size is not None)

        whole = await here.ask(name, tcp=True)

        assert len(whole.records) == len(MANY)
        assert whole.message is not None
        assert not whole.message.flags & dns.flags.TC


async def test_questions_may_follow_one_another_on_a_connection() -> None:
    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        names = [WEB, f"no.{WEB}", f"bergen.{WEB}", "example.org"]
        queries = [dns.message.make_query(name, "A") for name in names]
        wires = [query.to_wire() for query in queries]
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        everything = b"".join(len(wire).to_bytes(2) + wire for wire in wires)

        for part in (everything[:7], everything[7:60], everything[60:]):
            writer.write(part)
            await writer.drain()
        answers = [
            dns.message.from_wire(await reader.readexactly(int.from_bytes(front)))
            for _ in wires
            if (front := await reader.readexactly(2))
        ]

        assert [a.id for a in answers] == [q.id for q in queries]
        assert [dns.rcode.to_text(a.rcode()) for a in answers] == [
            "NOERROR",
            "NXDOMAIN",
            "NOERROR",
            "REFUSED",
        ]
        writer.close()
        await writer.wait_closed()


async def test_an_idle_connection_is_closed() -> None:
    async with running(
        cluster_snapshot("lubeck", *TWO), settings=ServerSettings(idle_seconds=0.2)
    ) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)

        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()
        await writer.wait_closed()


async def test_when_there_are_too_many_connections_the_longest_idle_goes() -> None:
    async with running(
        cluster_snapshot("lubeck", *TWO), settings=ServerSettings(most_connections=2)
    ) as here:
        query = dns.message.make_query(WEB, "A").to_wire()
        opened = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(len(query).to_bytes(2) + query)
            await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            opened.append((reader, writer))

        assert await asyncio.wait_for(opened[0][0].read(), PATIENCE) == b""
        for _, writer in opened:
            writer.close()
            await writer.wait_closed()


async def test_a_connection_that_is_closed_for_another_while_it_is_used_ends_no_worker() -> None:
    settings = ServerSettings(most_connections=1)
    async with running(cluster_snapshot("lubeck", *TWO), settings=settings) as here:
        (worker,) = here.server.pids
        query = dns.message.make_query(WEB, "A").to_wire()
        message = len(query).to_bytes(2) + query
        reader, idle = await asyncio.open_connection("127.0.0.1", here.port)
        idle.write(message)
        await reader.readexactly(int.from_bytes(await reader.readexactly(2)))

        os.kill(worker, signal.SIGSTOP)
        newer_reader, newer = await asyncio.open_connection("127.0.0.1", here.port)
        newer.write(message)
        idle.write(message)  # both wait when the worker polls
        os.kill(worker, signal.SIGCONT)
        front = await asyncio.wait_for(newer_reader.readexactly(2), PATIENCE)

        assert int.from_bytes(front) > len(query)
        assert (await here.ask(WEB)).code == "NOERROR"
        assert here.server.pids == (worker,)
        for writer in (idle, newer):
            writer.transport.abort()


def limit_files(pid: int, spare: int) -> None:
    """Let a process open only so many files more than it has open."""
    held = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
    free = (fd for fd in count() if fd not in held)
    limit = next(islice(free, spare, None))
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))


def sleeps(pid: int) -> int:
    """How often a process has waited for something."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


async def test_without_files_to_open_the_longest_idle_connection_goes() -> None:
    settings = ServerSettings(idle_seconds=3600)
    async with running(cluster_snapshot("lubeck", *TWO), settings=settings) as here:
        (worker,) = here.server.pids
        limit_files(worker, 2)
        query = dns.message.make_query(WEB, "A").to_wire()
        opened = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(len(query).to_bytes(2) + query)
            front = await asyncio.wait_for(reader.readexactly(2), PATIENCE)
            await reader.readexactly(int.from_bytes(front))
            opened.append((reader, writer))

        assert await asyncio.wait_for(opened[0][0].read(), PATIENCE) == b""
        for _, writer in opened:
            writer.transport.abort()


async def test_a_worker_without_files_to_open_waits_until_it_can_accept() -> None:
    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        (worker,) = here.server.pids
        soft, hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        limit_files(worker, 0)
        query = dns.message.make_query(WEB, "A").to_wire()
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(len(query).to_bytes(2) + query)
        assert (await here.ask(WEB)).code == "NOERROR"

        before = sleeps(worker)
        async with asyncio.timeout(PATIENCE):
            # one that polls again and again never waits
            while sleeps(worker) < before + 2:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (soft, hard))

        assert int.from_bytes(await asyncio.wait_for(reader.readexactly(2), PATIENCE)) > len(query)
        writer.transport.abort()


async def test_a_client_that_reads_nothing_holds_nobody_up() -> None:
    observed = cluster_snapshot(
        "lubeck", *TWO, CROWD, endpoint_slice("bergen", *MANY, service="crowd")
    )
    query = dns.message.make_query(f"crowd.shop.svc.{ZONE}", "A").to_wire()
    async with running(observed) as here:
        with socket.create_connection(("127.0.0.1", here.port)) as greedy:
            greedy.setblocking(False)
            sent = 0
            try:
                while sent < 50_000_000:
                    sent += greedy.send((len(query).to_bytes(2) + query) * 500)
            except BlockingIOError:
                pass  # the server has stopped reading

            assert (await here.ask(WEB, tcp=True)).code == "NOERROR"
            assert (await here.ask(WEB)).code == "NOERROR"


async def test_a_worker_that_exits_is_replaced_by_one_with_all_records() -> None:
    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        (first,) = here.server.pids

        os.kill(first, signal.SIGKILL)
        answer = await here.ask(WEB)  # waits in the socket, which is ours, for the next worker

        assert answer.code == "NOERROR"
        assert here.server.pids != (first,)


async def test_a_reload_loses_no_question() -> None:
    async with running(cluster_snapshot("lubeck", *TWO), workers=2) as here:
        before = here.server.pids
        asking = asyncio.create_task(_ask_on(here, 200))

        await here.server.reload(ServerSettings(log_every=1000))

        assert await asking == {"NOERROR": 200}
        assert not set(before) & set(here.server.pids)


async def _ask_on(here: Running, times: int) -> Counter[str]:
    return Counter([(await here.ask(WEB)).code for _ in range(times)])


async def test_before_the_first_sync_the_server_fails() -> None:
    async with running(cluster_snapshot("lubeck", phase=Phase.CONNECTING)) as here:
        assert (await here.ask(WEB)).code == "SERVFAIL"


async def test_questions_are_counted_by_zone_type_and_code() -> None:
    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        for name in (WEB, WEB, f"no.{WEB}"):
            await here.ask(name)
        metrics = here.server.metrics

    answer = generate_latest(metrics.registry).decode()
    common = 'hanse_dns_queries_total{rcode="%s",type="A",view="test",zone="clusterset.local."} %s'
    assert common % ("NOERROR", "2.0") in answer
    assert common % ("NXDOMAIN", "1.0") in answer
    assert 'hanse_dns_names{view="test"}' in answer
    measured = re.search(r'hanse_dns_seconds_bucket{le="\+Inf"} (\d+)', answer)
    assert measured is not None
    assert int(measured[1]) >= 3, "each question came by itself"


async def test_one_question_in_so_many_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "hanse.dns.server")
    async with running(
        cluster_snapshot("lubeck", *TWO), settings=ServerSettings(log_every=3)
    ) as here:
        for _ in range(7):
            await here.ask(WEB)

    logged = [r for r in caplog.records if r.message == "dns query"]
    assert [r.__dict__["question"] for r in logged] == [f"{WEB}."] * 2
    assert logged[0].__dict__["rcode"] == "NOERROR"


async def test_several_views_are_served_by_the_same_workers() -> None:
    observed: Snapshot = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("lubeck", "10.0.0.1"),
        endpoint_slice("bergen", "10.2.0.1"),
    )
    views = [View("none"), View("lubeck", local="lubeck")]
    compilers = [Compiler(view, [ServiceZone(view)]) for view in views]
    listeners = [bind_listeners("127.0.0.1", 0, 1) for _ in views]
    pairs = zip(compilers, listeners, strict=True)
    async with serving([ServedView(c, (one,)) for c, one in pairs]) as server:
        for compiler in compilers:
            compiler.enqueue_all(observed)
            server.update(compiler.compile(observed))
        await server.wait_applied()

        answer = [
            {(await Running(server, c, (one,)).ask(WEB)).records for _ in range(4)}
            for c, one in zip(compilers, listeners, strict=True)
        ]

    assert answer == [{("10.0.0.1",), ("10.2.0.1",)}, {("10.0.0.1",)}]
    for one in listeners:
        one.close()


def test_zones_watch_what_they_read() -> None:
    assert {watch.kind.kind.name for watch in ZoneWatcher.watches} == {
        "ServiceImport",
        "EndpointSlice",
        "ClusterSet",
    }


async def test_noise_does_not_end_a_worker() -> None:
    random = Random(3)
    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        before = here.server.pids
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", here.port))
            for _ in range(2000):
                client.send(random.randbytes(random.randrange(0, 200)))
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", here.port)) as stream:
                stream.sendall(random.randbytes(300))

        assert (await here.ask(WEB)).code == "NOERROR"
        assert here.server.pids == before


@pytest.mark.parametrize(
    ("program", "package", "options"),
    [
        pytest.param("kdig", "knot-dnsutils", ("+tcp",), id="kdig by TCP"),
        pytest.param("kdig", "knot-dnsutils", ("+edns", "+bufsize=512"), id="kdig with EDNS"),
        pytest.param("kdig", "knot-dnsutils", ("+noedns", "+padding"), id="kdig without EDNS"),
        pytest.param("kdig", "knot-dnsutils", ("+cookie", "+nsid", "+dnssec"), id="kdig options"),
        pytest.param("drill", "ldnsutils", (), id="drill"),
        pytest.param("drill", "ldnsutils", ("-t", "-D"), id="drill by TCP, for DNSSEC"),
    ],
)
async def test_other_clients_read_our_answers(
    program: str, package: str, options: tuple[str, ...]
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program} (Debian: {package})")
    observed = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    output: dict[str, bytes] = {}
    async with running(observed) as here:
        for name, rtype in ((WEB, "A"), (f"_http._tcp.{WEB}", "SRV"), (f"no.{WEB}", "A")):
            question = (name, rtype) if program == "kdig" else (name, "@127.0.0.1", rtype)
            server = ("@127.0.0.1",) if program == "kdig" else ()
            process = await asyncio.create_subprocess_exec(
                *(program, *server, "-p", str(here.port), *options, *question),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            answer, _ = await process.communicate()
            assert process.returncode == 0, answer
            assert b"WARNING" not in answer, answer
            assert b"malformed" not in answer.lower(), answer
            output[f"{name} {rtype}"] = answer

    assert b"10.2.0.1" in output[f"{WEB} A"]
    assert f"0 50 80 {WEB}.".encode() in output[f"_http._tcp.{WEB} SRV"]
    assert b"NXDOMAIN" in output[f"no.{WEB} A"]
    assert b"SOA" in output[f"no.{WEB} A"]


@pytest.mark.skipif(shutil.which("dig") is None, reason="needs dig (Debian: bind9-dnsutils)")
@pytest.mark.parametrize("options", [(), ("+tcp",), ("+noedns",), ("+nocookie", "+dnssec")])
async def test_dig_reads_our_answers(options: tuple[str, ...]) -> None:
    observed = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    async with running(observed) as here:
        process = await asyncio.create_subprocess_exec(
            *("dig", "@127.0.0.1", "-p", str(here.port), "+norecurse", *options, WEB, "A"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()

    assert b"status: NOERROR" in output
    assert b"10.2.0.1" in output
    warnings = [line for line in output.splitlines() if b"WARNING" in line]
    assert all(b"reserved for Multicast DNS" in line for line in warnings), warnings


async def test_a_view_that_is_added_is_answered_and_those_before_go_on() -> None:
    observed = cluster_snapshot(
        "lubeck", imported(clusters=["lubeck"]), endpoint_slice("lubeck", "10.1.0.5")
    )
    view = View("late", zone="late.example")
    compiler = Compiler(view, [ServiceZone(view)])
    listeners = bind_listeners("127.0.0.1", 0, 1)

    async with running(observed) as first:
        await first.server.add([ServedView(compiler, (listeners,))])
        late = Running(first.server, compiler, (listeners,))
        assert (await late.ask("web.shop.svc.late.example")).code == "SERVFAIL"
        feed = ViewUpdater(compiler, first.server, lambda: observed)
        async with feed.running():
            await feed.wait_applied()
            assert (await late.ask("web.shop.svc.late.example")).records == ("10.1.0.5",)
            assert (await first.ask("web.shop.svc.clusterset.local")).records == ("10.1.0.5",)
    listeners.close()


@pytest.mark.parametrize("edns", [False, True], ids=["plain", "edns"])
async def test_srv_answers_carry_the_addresses_of_their_targets(edns: bool) -> None:
    pods = endpoint_slice("bergen", "10.3.0.1", "10.3.0.2", service="crowd")
    async with running(cluster_snapshot("lubeck", *TWO, CROWD, pods)) as here:
        crowd, single = (
            dns.message.from_wire(
                here.raw(
                    dns.message.make_query(f"_http._tcp.{name}", "SRV", use_edns=edns).to_wire()
                )
            )
            for name in (f"crowd.shop.svc.{ZONE}", WEB)
        )

    targets = {str(record.target) for record in crowd.answer[0]}
    assert {str(rrset.name): str(rrset[0]) for rrset in crowd.additional} == {
        target: target.partition(".")[0].replace("-", ".") for target in targets
    }
    assert len(targets) == 2
    assert str(single.additional[0][0]) in {"10.2.0.1", "10.1.0.1"}


async def test_addresses_that_do_not_fit_are_left_out_of_srv_answers() -> None:
    pods = endpoint_slice("bergen", *MANY[:6], service="crowd")
    query = dns.message.make_query(f"_http._tcp.crowd.shop.svc.{ZONE}", "SRV", use_edns=False)
    async with running(cluster_snapshot("lubeck", CROWD, pods)) as here:
        answer = dns.message.from_wire(packet := here.raw(query.to_wire()))

    assert len(packet) <= 512
    assert len(answer.answer[0]) == 6
    assert 0 < len(answer.additional) < 6
    assert not answer.flags & dns.flags.TC


async def test_a_port_of_another_server_is_refused() -> None:
    first = bind_listeners("127.0.0.1", 0, 2)
    try:
        with pytest.raises(OSError, match="in use"):
            bind_listeners(*first.address, 2)
    finally:
        first.close()


async def test_servers_that_take_any_port_get_different_ones() -> None:
    with ExitStack() as opened:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        ports = []
        for _ in range(450):  # some met another's while all were bound to be shared
            listeners = bind_listeners("127.0.0.1", 0, 1)
            opened.callback(listeners.close)
            ports.append(listeners.address[1])

        assert len(set(ports)) == len(ports)


async def test_a_server_that_ends_while_it_restarts_a_worker_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = asyncio.Event()
    started: list[asyncio.subprocess.Process] = []
    spawn = server._spawn

    async def spawn_slowly(fds: Sequence[int]) -> asyncio.subprocess.Process:
        began.set()
        started.append(await spawn(fds))
        for _ in range(100):
            await asyncio.sleep(0)
        return started[0]

    async with running(cluster_snapshot("lubeck", *TWO)) as here:
        monkeypatch.setattr(server, "_spawn", spawn_slowly)
        os.kill(here.server.pids[0], signal.SIGKILL)
        await began.wait()

    assert [process.returncode for process in started] == [0]
