"""A real CoreDNS: forwarding to this server, and serving the same objects by itself."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket

import msgspec
import pytest

from hanse.dns.corefile import server_block
from hanse.kube.certificates import CertificateAuthority
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.clock import WallClock
from hanse.kube.server_tls import server_context
from hanse.kube.transport import Request
from hanse.local.in_process import InProcessTransport
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.model.crds import crd_of
from hanse.model.dns.zones import View
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import Object
from tests.dns.builders import WEB, ZONE, cluster_snapshot, endpoint_slice, imported, pod, rules
from tests.dns.coredns import Difference, ask, coredns, differences, in_words, until_served
from tests.dns.loopback_server import running
from tests.support.builders import namespace
from tinykube.apiserver import ApiServer
from tinykube.http import serve
from tinykube.users import ADMIN

pytestmark = pytest.mark.anyio

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DB = f"db.shop.svc.{ZONE}"
TWO_PORTS = [("http", 80), ("tls", 443)]
OBJECTS: tuple[Object, ...] = (
    imported(ports=TWO_PORTS, ips=("10.9.0.1",), clusters=["bergen", "hamburg"]),
    endpoint_slice("bergen", "10.2.0.1", ports=TWO_PORTS),
    endpoint_slice("hamburg", "10.1.0.1", ports=TWO_PORTS),
    imported("both", ips=("10.9.0.2", "fd00::9"), clusters=["bergen"]),
    endpoint_slice("bergen", "10.2.0.2", service="both"),
    imported("db", type_="Headless", clusters=["bergen", "hamburg"]),
    endpoint_slice("bergen", pod("10.2.0.7", hostname="db-0"), pod("10.2.0.8"), service="db"),
    endpoint_slice("hamburg", pod("10.1.0.7", hostname="db-0"), service="db"),
    endpoint_slice(
        "hamburg", pod("10.1.0.9", hostname="db-9", ready=False), service="db", slot="-down"
    ),
    imported("down", type_="Headless", clusters=["bergen"]),
    endpoint_slice("bergen", pod("10.2.0.9", ready=False), service="down"),
)
NAMES = (
    WEB,
    f"both.shop.svc.{ZONE}",
    f"_http._tcp.{WEB}",
    f"_tls._tcp.{WEB}",
    f"_http._udp.{WEB}",
    f"_smtp._tcp.{WEB}",
    f"_tcp.{WEB}",
    f"bergen.{WEB}",
    f"riga.{WEB}",
    DB,
    f"_http._tcp.{DB}",
    f"bergen.{DB}",
    f"_http._tcp.bergen.{DB}",
    f"db-0.bergen.{DB}",
    f"db-0.hamburg.{DB}",
    f"_http._tcp.db-0.bergen.{DB}",
    f"_smtp._tcp.db-0.bergen.{DB}",
    f"_http._tcp.no.shop.svc.{ZONE}",
    f"_tls._tcp.{DB}",
    f"10-2-0-8.bergen.{DB}",
    f"db-9.hamburg.{DB}",
    f"db-1.bergen.{DB}",
    f"db-0.riga.{DB}",
    f"down.shop.svc.{ZONE}",
    f"no.shop.svc.{ZONE}",
    f"web.no.svc.{ZONE}",
    f"shop.svc.{ZONE}",
    f"no.svc.{ZONE}",
    f"svc.{ZONE}",
    f"dns-version.{ZONE}",
    f"a.b.c.{WEB}",
)
TYPES = ("A", "AAAA", "SRV", "TXT", "MX")


def questions() -> Iterator[tuple[str, str]]:
    """Every form of name in KEP-1645, of each type, and what is none of them."""
    for name in NAMES:
        for rtype in TYPES:
            yield name, rtype


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncIterator[Path]:
    """The objects in a cluster over HTTPS; gives a kubeconfig with context `lubeck`."""
    sock = socket(AF_INET, SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    authority, api = CertificateAuthority.create("lubeck"), ApiServer("lubeck", clock=WallClock())
    client = Client(InProcessTransport(api))
    await client.send(Request("POST", CRDS, body=msgspec.json.encode(crd_of(ServiceImport))))
    for space in ("shop", "hanse-system"):
        await client.create(namespace(space))
    for obj in OBJECTS:
        await client.create(obj)
    async with serve(api, sock, {"token": ADMIN}, server_context(authority.server("lubeck"))):
        where = f"https://127.0.0.1:{sock.getsockname()[1]}"
        access = ClientConfig(ServerEndpoint(where, authority.certificate), Identity(token="token"))
        write_kubeconfig(folder / "kubeconfig", [Context("lubeck", access)])
        yield folder / "kubeconfig"


async def test_coredns_answers_the_same_from_the_same_objects(tmp_path: Path) -> None:
    view = View("lubeck", local="lubeck", profile="kep-1645")
    async with a_cluster(tmp_path) as kubeconfig:
        blocks = (
            f"{ZONE}:PORT {{\n  bind 127.0.0.1\n  kubernetes {ZONE} {{\n"
            f"    kubeconfig {kubeconfig} lubeck\n    multicluster {ZONE}\n  }}\n}}\n"
        )
        async with (
            coredns(blocks, tmp_path) as theirs,
            running(cluster_snapshot("lubeck", *OBJECTS, fleet=rules("kep-1645")), view) as here,
        ):
            await until_served(theirs, WEB)
            await until_served(theirs, DB)
            found = await differences(here.port, theirs, questions())

    unexplained = [d for d in found if not any(rule(d) for rule in ALLOWED)]
    assert unexplained == []
    idle = [rule.__name__ for rule in ALLOWED if not any(rule(d) for d in found)]
    assert idle == [], "differences that are gone"


def addresses_at_the_name_of_a_port(d: Difference) -> bool:
    """CoreDNS tells the service's addresses there, where the schema has SRV records alone."""
    at_a_port = d.name.startswith("_") and d.ours == "NODATA"
    return at_a_port and d.rtype in ("A", "AAAA") and d.theirs.startswith("NOERROR ")


def a_name_above_others_exists(d: Difference) -> bool:
    """RFC 8020: where names stand below a name it is empty, and not unknown."""
    above = any(name.endswith(f".{d.name}") for name in NAMES)
    return above and (d.ours, d.theirs) == ("NODATA", "NXDOMAIN")


def another_version_of_the_schema(d: Difference) -> bool:
    """CoreDNS tells the version of Kubernetes's schema of names; ours is that of this zone."""
    return d.name == f"dns-version.{ZONE}" and d.rtype == "TXT"


def a_name_that_has_other_records_exists(d: Difference) -> bool:
    """RFC 2308: a name with a TXT record is empty of other types, and not unknown."""
    return d.name == f"dns-version.{ZONE}" and (d.ours, d.theirs) == ("NODATA", "NXDOMAIN")


ALLOWED = (
    addresses_at_the_name_of_a_port,
    a_name_above_others_exists,
    another_version_of_the_schema,
    a_name_that_has_other_records_exists,
)
"""Everything in which the two may differ, each with its reason."""


async def test_coredns_hands_the_zone_over_by_the_stanza_that_we_print(tmp_path: Path) -> None:
    objects = (*OBJECTS, imported("only"), endpoint_slice("bergen", "10.2.0.4", service="only"))
    async with running(cluster_snapshot("lubeck", *objects)) as here:
        printed = server_block(ZONE, [f"127.0.0.1:{here.port}"])
        blocks = printed.replace(f"{ZONE}:53 {{", f"{ZONE}:PORT {{\n    bind 127.0.0.1")
        async with coredns(blocks, tmp_path) as front:
            await until_served(front, WEB)

            turns = {(await ask(front, WEB, "A")).records for _ in range(8)}
            handed_over = [
                (name, rtype)
                for name, rtype in (*questions(), (f"only.shop.svc.{ZONE}", "A"), (ZONE, "SOA"))
                if (name, rtype) != (WEB, "A")
            ]
            found = await differences(here.port, front, handed_over)
            by_tcp = await ask(front, f"only.shop.svc.{ZONE}", "A", tcp=True)

    assert turns == {("10.1.0.1",), ("10.2.0.1",)}, "nothing is kept in front of us"
    assert found == []
    assert in_words(by_tcp, "A") == "NOERROR 10.2.0.4"
