"""Zone transfers to secondaries."""

import asyncio
import shutil

import dns.asyncquery
import dns.message
import dns.query
import dns.rcode
import dns.xfr
import dns.zone
import pytest

from hanse.dns.transfers import MAX_MESSAGE, Secondaries
from hanse.model.dns.zones import View
from tests.dns.builders import WEB, ZONE, cluster_snapshot, endpoint_slice, imported, pod
from tests.dns.loopback_server import PATIENCE, Running, running

pytestmark = pytest.mark.anyio

OPEN = View("test", secondaries=("127.0.0.1/32",))
MANY = [
    o
    for n in range(400)
    for o in (
        imported(f"s{n}"),
        endpoint_slice("bergen", f"10.0.{n >> 8}.{n & 255}", service=f"s{n}"),
    )
]


async def transferred(here: Running) -> dns.zone.Zone:
    zone = dns.zone.Zone(ZONE, relativize=False)
    query, _ = dns.xfr.make_query(zone)
    await dns.asyncquery.inbound_xfr(
        "127.0.0.1", zone, query, port=here.port, timeout=PATIENCE, lifetime=PATIENCE
    )
    return zone


async def test_a_zone_holds_every_name_and_everyone_who_has_a_turn() -> None:
    pods = endpoint_slice("bergen", pod("10.2.0.7", hostname="db-0"), service="db")
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("bergen", "10.2.0.1", weight=9),
        endpoint_slice("hamburg", "10.1.0.1"),
        imported("db", type_="Headless"),
        pods,
    )
    async with running(observed, OPEN) as here:
        zone = await transferred(here)
        answer = await here.ask(ZONE, "SOA")

    records = {
        (name.to_text(), dns.rdatatype.to_text(rdataset.rdtype)): sorted(map(str, rdataset))
        for name, node in zone.nodes.items()
        for rdataset in node
    }
    assert records[f"{WEB}.", "A"] == ["10.1.0.1", "10.2.0.1"]
    assert records[f"_http._tcp.bergen.{WEB}.", "SRV"] == [f"0 50 80 bergen.{WEB}."]
    assert records[f"db-0.bergen.db.shop.svc.{ZONE}.", "A"] == ["10.2.0.7"]
    assert records[f"dns-version.{ZONE}.", "TXT"] == ['"1.0.0"']
    assert records[f"{ZONE}.", "NS"] == [f"ns.dns.{ZONE}."]
    assert tuple(records[f"{ZONE}.", "SOA"]) == answer.records


async def test_a_large_zone_goes_in_several_messages_and_questions_may_follow() -> None:
    async with running(cluster_snapshot("lubeck", *MANY), OPEN) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        asked = [dns.message.make_query(ZONE, "AXFR"), dns.message.make_query(f"s7.{WEB[4:]}", "A")]
        for query in asked:
            wire = query.to_wire()
            writer.write(len(wire).to_bytes(2) + wire)
        messages = [await _next(reader)]
        while messages[-1].id == asked[0].id:
            messages.append(await _next(reader))
        writer.close()
        await writer.wait_closed()
        whole = await transferred(here)

    assert len(messages) > 3
    assert max(len(m.to_wire()) for m in messages) <= MAX_MESSAGE
    assert messages[-1].id == asked[1].id
    assert messages[-1].answer, "what was asked after it is answered after it"
    assert len(whole.nodes) > 4 * 400


async def _next(reader: asyncio.StreamReader) -> dns.message.Message:
    length = int.from_bytes(await asyncio.wait_for(reader.readexactly(2), PATIENCE))
    return dns.message.from_wire(await reader.readexactly(length), one_rr_per_rrset=True)


async def test_a_client_that_stops_reading_a_transfer_holds_nobody_up() -> None:
    async with running(cluster_snapshot("lubeck", *MANY), OPEN) as here:
        _, writer = await asyncio.open_connection("127.0.0.1", here.port)
        wire = dns.message.make_query(ZONE, "AXFR").to_wire()
        for _ in range(50):
            writer.write(len(wire).to_bytes(2) + wire)

        answer = await here.ask(f"s7.{WEB[4:]}", tcp=True)

        assert answer.code == "NOERROR"
        writer.transport.abort()


@pytest.mark.parametrize(
    ("view", "name", "tcp"),
    [
        pytest.param(View("test"), ZONE, True, id="nobody may"),
        pytest.param(View("test", secondaries=("192.0.2.0/24",)), ZONE, True, id="others may"),
        pytest.param(OPEN, ZONE, False, id="by UDP"),
        pytest.param(OPEN, WEB, True, id="not the name of a zone"),
    ],
)
async def test_everybody_else_is_refused(view: View, name: str, tcp: bool) -> None:
    async with running(cluster_snapshot("lubeck", *MANY[:4]), view) as here:
        for rtype in ("AXFR", "IXFR"):
            assert (await here.ask(name, rtype, tcp=tcp)).code == "REFUSED"


@pytest.mark.skipif(shutil.which("dig") is None, reason="needs dig (Debian: bind9-dnsutils)")
@pytest.mark.parametrize("options", [(), ("+edns=0",), ("+nocookie", "+noedns")])
async def test_dig_takes_a_transfer(options: tuple[str, ...]) -> None:
    async with running(cluster_snapshot("lubeck", *MANY), OPEN) as here:
        process = await asyncio.create_subprocess_exec(
            *("dig", "@127.0.0.1", "-p", str(here.port), *options, ZONE, "AXFR"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()

    assert b"s399.shop.svc.clusterset.local. 5 IN A 10.0.1.143" in b" ".join(output.split())
    assert b"XFR size:" in output
    assert b"failed" not in output


def test_secondaries_are_allowed_by_network() -> None:
    secondaries = Secondaries(("192.0.2.0/24", "2001:db8::/32"))

    assert [
        secondaries.has(c) for c in ("192.0.2.9", "192.0.3.9", "2001:db8::1", "fe80::1%lo")
    ] == [
        True,
        False,
        True,
        False,
    ]
