"""Real name servers with an empty zone that the key may update."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import dns.asyncquery
import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.tsig
import dns.update
import pytest
from msgspec import Struct

from hanse.features.publishing.tsig_keys import parse_tsig_key
from hanse.providers.nameserver import NameServer
from tests.dns.builders import DnsAnswer, parse_answer
from tests.support.ports import free_ports

ZONE = "fleet.example.org"
SECRET = "c2VjcmV0IG9mIHRoZSBoYXJib3VyIG1hc3Rlcg=="
KEY = f'key "hanse" {{ algorithm hmac-sha256; secret "{SECRET}"; }};\n'
PATIENCE = 20.0
PROGRAMS = {"bind": "named", "knot": "knotd"}
PACKAGES = {"bind": "bind9", "knot": "knot"}


class ExternalServer(Struct, frozen=True):
    """A name server that runs."""

    port: int

    def connect(self, key: str = KEY, zone: str = ZONE) -> NameServer:
        """It as an agent sees it."""
        return NameServer(
            "127.0.0.1", self.port, zone, lambda: parse_tsig_key(key) if key else None
        )

    async def ask(self, name: str, rtype: str = "A") -> DnsAnswer:
        query = dns.message.make_query(f"{name}.{ZONE}", rtype)
        return parse_answer(
            await dns.asyncquery.udp(query, "127.0.0.1", port=self.port, timeout=PATIENCE)
        )

    async def serial(self) -> str:
        query = dns.message.make_query(ZONE, "SOA")
        answer = await dns.asyncquery.udp(query, "127.0.0.1", port=self.port, timeout=PATIENCE)
        return str(answer.answer[0][0].serial)

    async def edit(self, change: Callable[[dns.update.UpdateMessage], None]) -> None:
        """What a person does with `nsupdate`."""
        update = dns.update.UpdateMessage(ZONE, keyring=parse_tsig_key(KEY))
        change(update)
        answer = await dns.asyncquery.tcp(update, "127.0.0.1", port=self.port, timeout=PATIENCE)
        assert answer.rcode() == dns.rcode.NOERROR, answer


@asynccontextmanager
async def name_server(which: str, folder: Path) -> AsyncIterator[ExternalServer]:
    """BIND or Knot on loopback until the block ends; skips where it is not installed."""
    if shutil.which(PROGRAMS[which]) is None:
        pytest.skip(f"needs {PROGRAMS[which]} (Debian: {PACKAGES[which]})")
    ports = free_ports(2)
    command = (_bind if which == "bind" else _knot)(folder, ports)
    with (folder / "log").open("wb") as said:
        process = await asyncio.create_subprocess_exec(*command, stdout=said, stderr=said)
    try:
        there = ExternalServer(ports[0])
        await _ready(there, folder / "log")
        yield there
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _bind(folder: Path, ports: Sequence[int]) -> Sequence[str]:
    _zone(folder)
    conf = folder / "named.conf"
    conf.write_text(
        f'{KEY}options {{ directory "{folder}"; listen-on port {ports[0]} {{ 127.0.0.1; }};\n'
        "  listen-on-v6 { none; }; recursion no; dnssec-validation no; notify no;\n"
        f'  pid-file "{folder}/pid"; session-keyfile "{folder}/session.key"; }};\n'
        "controls { };\n"
        f'zone "{ZONE}" {{ type primary; file "zone";\n'
        '  allow-update { key "hanse"; }; allow-transfer { key "hanse"; }; };\n'
    )
    return ("named", "-g", "-n", "1", "-c", str(conf))


def _knot(folder: Path, ports: Sequence[int]) -> Sequence[str]:
    _zone(folder)
    conf = folder / "knot.conf"
    conf.write_text(
        f"server:\n  rundir: {folder}\n  listen: 127.0.0.1@{ports[0]}\n"
        f"database:\n  storage: {folder}\n"
        f"key:\n  - id: hanse\n    algorithm: hmac-sha256\n    secret: {SECRET}\n"
        "acl:\n  - id: hanse\n    key: hanse\n    action: [transfer, update]\n"
        f"zone:\n  - domain: {ZONE}\n    storage: {folder}\n    file: zone\n    acl: hanse\n"
    )
    return ("knotd", "-c", str(conf))


def _zone(folder: Path) -> None:
    (folder / "zone").write_text(
        f"$ORIGIN {ZONE}.\n$TTL 60\n"
        "@ SOA ns hostmaster 1 3600 600 86400 5\n@ NS ns\nns A 127.0.0.1\n"
        "www A 192.0.2.80\nmail MX 10 www\n"
    )


async def _ready(there: ExternalServer, log: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            query = dns.message.make_query(ZONE, "SOA")
            try:
                answer = await dns.asyncquery.udp(query, "127.0.0.1", port=there.port, timeout=0.5)
                if answer.answer:
                    return
            except (dns.exception.Timeout, OSError):
                continue
