"""The zones of `hanse up`: a cluster's own Services, and DNSEndpoints."""

from collections.abc import Sequence
from random import Random

import dns.message
import pytest

from hanse.dns.compiler import Compiler
from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.features.publishing.zone import DnsEndpointZone
from hanse.features.services.cluster_zone import ClusterZone
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import Endpoint, EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint, DNSEndpointSpec, DNSRecord
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.dns.builders import DnsAnswer, parse_answer
from tests.support.builders import cluster, snapshot, stored
from tests.support.zones import compiled

VIEW = View("lubeck", local="lubeck")
INSIDE = ClusterZone(VIEW)
OUTSIDE = DnsEndpointZone(View("all"), "hanse.example")
SYSTEM = "antrea-plus-system"


class Looking:
    name = "dns"
    watches = (*INSIDE.watches, *OUTSIDE.watches)


def observed(*objects: Object) -> Snapshot:
    return snapshot(Looking(), "lubeck", [cluster("lubeck", Role.LOCAL)], {"lubeck": objects})  # type: ignore[arg-type]  # it only looks


def ask(objects: Sequence[Object], name: str, rtype: str = "A") -> DnsAnswer:
    table = Table(VIEW.name, Random(1))
    table.apply(compiled(VIEW, [INSIDE, OUTSIDE], observed(*objects)))
    answer = respond(dns.message.make_query(name, rtype).to_wire(), table, stream=True)
    assert answer is not None
    return parse_answer(dns.message.from_wire(answer))


def service(name: str, ip: str, space: str = SYSTEM, **spec: object) -> Service:
    fields = {"cluster_ip": ip, "cluster_ips": (ip,), **spec}
    ports = (ServicePort(port=80, name="http"),)
    return stored(
        Service(
            metadata=Meta(name=name, namespace=space),
            spec=ServiceSpec(ports=ports, **fields),  # type: ignore[arg-type]  # a test's own
        )
    )


def outside(name: str, type_: str, *targets: str) -> DNSEndpoint:
    answer = DNSRecord(dns_name=name, record_type=type_, targets=targets)
    spec = DNSEndpointSpec(endpoints=(answer,))
    return stored(DNSEndpoint(metadata=Meta(name="e", namespace=SYSTEM), spec=spec))


def test_a_federated_service_is_found_by_its_address_and_ports() -> None:
    objects = [service("web", "10.1.0.5")]

    assert ask(objects, f"web.{SYSTEM}.svc.cluster.local").records == ("10.1.0.5",)
    srv = ask(objects, f"_http._tcp.web.{SYSTEM}.svc.cluster.local", "SRV")
    assert srv.records == (f"0 50 80 web.{SYSTEM}.svc.cluster.local.",)
    assert ask(objects, f"fish.{SYSTEM}.svc.cluster.local").code == "NXDOMAIN"


def test_a_headless_vm_service_leads_to_its_machines_each_by_name() -> None:
    machine = Endpoint(addresses=("10.7.0.1",), hostname="db-1")
    endpoint_slice = EndpointSlice(
        metadata=Meta(name="s", namespace="shop", labels={"kubernetes.io/service-name": "db"}),
        address_type="IPv4",
        endpoints=(machine,),
    )
    objects = [service("db", "None", "shop"), stored(endpoint_slice)]

    assert ask(objects, "db.shop.svc.cluster.local").records == ("10.7.0.1",)
    assert ask(objects, "db-1.db.shop.svc.cluster.local").records == ("10.7.0.1",)


def test_an_external_name_is_an_alias() -> None:
    alias = service("far", "", "shop", type="ExternalName", external_name="example.org")

    assert ask([alias], "far.shop.svc.cluster.local").records == ("example.org.",)


def test_an_external_name_resolves_to_its_addresses_or_an_alias() -> None:
    both = [outside("Web.hanse.example", "A", "192.0.2.2", "192.0.2.1")]
    other = [outside("lb.hanse.example", "CNAME", "elb.example.net")]

    assert ask(both, "web.hanse.example").records == ("192.0.2.1", "192.0.2.2")
    assert ask(other, "lb.hanse.example", "CNAME").records == ("elb.example.net.",)
    broken = [outside("lb.hanse.example", "CNAME", "x" * 70)]
    assert ask(broken, "lb.hanse.example").code == "NXDOMAIN"


@pytest.mark.parametrize("name", ["web.example.com", "bad name!.hanse.example", "x" * 70])
def test_what_is_not_below_the_zone_or_no_name_is_left_out(name: str) -> None:
    compiler = Compiler(VIEW, [OUTSIDE])
    assert compiler.zones == OUTSIDE.zones

    answer = OUTSIDE.records_for(observed(outside(name, "A", "192.0.2.1")))(Key("outside", name))

    assert [n.name for n in answer if not n.name.endswith(b"\x05hanse\x07example\0")] == []


def test_a_change_wakes_the_names_before_and_after_it() -> None:
    one, two = outside("a.hanse.example", "A"), outside("b.hanse.example", "A")

    woken = set(OUTSIDE.keys_for(ObjectChange("lubeck", one, two), observed(two)))

    assert {key.name for key in woken} == {"a.hanse.example", "b.hanse.example"}
    web = service("web", "10.1.0.5")
    assert set(INSIDE.keys_for(ObjectChange("lubeck", None, web), observed(web)))
    assert not set(INSIDE.keys_for(ObjectChange("bergen", None, web), observed(web)))
