"""The names of one tenant network, and none of other networks."""

from collections.abc import Sequence
from ipaddress import ip_address
from random import Random
from typing import Any

import dns.message
import dns.rcode
import msgspec
import pytest

from hanse.dns.compiler import Compiler
from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.features.networks.zone import NAMESPACES, NetworkZone
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import ConfigMap, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.dns.builders import DnsAnswer, parse_answer
from tests.support.builders import cluster, snapshot, stored
from tests.support.zones import compiled

VIEW = View("acme.lab", zone="cluster.local")
LAB = NetworkName("acme", "lab")
ZONE = NetworkZone(VIEW, LAB)


def labels(network: str = "lab", tenant: str = "acme") -> dict[str, str]:
    return {TENANT: tenant, NETWORK: network}


def service(name: str, ip: str, where: str = "acme-web", **more: Any) -> Service:
    marks = more.pop("labels", labels())
    ports = more.pop("ports", [{"name": "http", "port": 80}])
    wire = {
        "metadata": {"name": name, "namespace": where, "labels": marks},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": ports, **more},
    }
    return stored(msgspec.convert(wire, Service))


def endpoint_slice(of: str, *endpoints: dict[str, Any], where: str = "acme-web") -> EndpointSlice:
    wire = {
        "metadata": {
            "name": f"{of}-1",
            "namespace": where,
            "labels": {**labels(), "kubernetes.io/service-name": of},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": list(endpoints),
    }
    return stored(msgspec.convert(wire, EndpointSlice))


def pod(name: str, ip: str, **marks: str) -> Pod:
    wire = {
        "metadata": {"name": name, "namespace": "acme-web", "labels": {**labels(), **marks}},
        "status": {"podIP": ip, "podIPs": [{"ip": ip}]},
    }
    return stored(msgspec.convert(wire, Pod))


class Looking:
    name = "dns"
    watches = ZONE.watches


def observed(*objects: Object) -> Snapshot:
    return snapshot(Looking(), "lubeck", [cluster("lubeck", Role.LOCAL)], {"lubeck": objects})  # type: ignore[arg-type]  # it only looks


def ask(objects: Sequence[Object], name: str, rtype: str = "A") -> DnsAnswer:
    table = Table(VIEW.name, Random(1))
    table.apply(compiled(VIEW, [ZONE], observed(*objects)))
    query = dns.message.make_query(name, rtype).to_wire()
    answer = respond(query, table, stream=True)
    assert answer is not None
    return parse_answer(dns.message.from_wire(answer))


def test_a_service_of_the_network_is_known_with_its_ports() -> None:
    objects = [service("web", "10.1.0.5")]

    assert ask(objects, "web.acme-web.svc.cluster.local").records == ("10.1.0.5",)
    answer = ask(objects, "_http._tcp.web.acme-web.svc.cluster.local", "SRV")
    assert answer.records == ("0 50 80 web.acme-web.svc.cluster.local.",)


@pytest.mark.parametrize("marks", [labels("default"), labels("lab", "bolt"), {}])
def test_names_of_other_networks_do_not_exist(marks: dict[str, str]) -> None:
    objects = [service("secret", "10.1.0.5", labels=marks), service("web", "10.1.0.6")]

    answer = ask(objects, "secret.acme-web.svc.cluster.local")

    assert answer.code == "NXDOMAIN"


def test_kubernetes_and_kube_dns_answer_by_their_aliases() -> None:
    objects = [
        service(
            "kubernetes-lab", "10.1.0.1", "acme-default", ports=[{"name": "https", "port": 443}]
        ),
        service("kube-dns-lab", "10.1.0.10", "acme-kube-system"),
    ]

    assert ask(objects, "kubernetes.default.svc.cluster.local").records == ("10.1.0.1",)
    assert ask(objects, "kube-dns.kube-system.svc.cluster.local").records == ("10.1.0.10",)
    own = ask(objects, "kubernetes-lab.acme-default.svc.cluster.local")
    assert own.records == ("10.1.0.1",)
    assert ask(objects, "_https._tcp.kubernetes.default.svc.cluster.local", "SRV").records


def test_a_headless_service_resolves_to_its_ready_pods_and_each_has_a_name() -> None:
    ready = {"addresses": ["10.4.0.1"], "hostname": "db-0", "conditions": {"ready": True}}
    unready = {"addresses": ["10.4.0.2"], "conditions": {"ready": False}}
    nameless = {"addresses": ["10.4.0.3"], "conditions": {}}
    objects = [service("db", "None"), endpoint_slice("db", ready, unready, nameless)]
    name = "db.acme-web.svc.cluster.local"

    assert ask(objects, name).records == ("10.4.0.1", "10.4.0.3")
    assert ask(objects, f"db-0.{name}").records == ("10.4.0.1",)
    assert ask(objects, f"10-4-0-3.{name}").records == ("10.4.0.3",)
    assert ask(objects, f"_http._tcp.{name}", "SRV").records == tuple(
        sorted(
            [
                f"0 50 8080 db-0.{name}.",
                f"0 50 8080 10-4-0-3.{name}.",
            ]
        )
    )


def elsewhere(name: str, target: str) -> Service:
    return service(name, "", type="ExternalName", externalName=target, ports=[])


@pytest.mark.parametrize("rtype", ["A", "AAAA", "SRV", "CNAME", "MX"])
def test_an_external_name_is_an_alias_whatever_is_asked_for(rtype: str) -> None:
    answer = ask([elsewhere("shop", "Shop.example.org")], "shop.acme-web.svc.cluster.local", rtype)

    assert (answer.code, answer.records) == ("NOERROR", ("shop.example.org.",))


def test_an_external_name_leads_to_a_service_of_the_network_and_to_no_other() -> None:
    objects = [
        elsewhere("front", "middle.acme-web.svc.cluster.local"),
        elsewhere("middle", "web.acme-web.svc.cluster.local"),
        elsewhere("spy", "secret.acme-web.svc.cluster.local"),
        service("web", "10.1.0.5"),
        service("secret", "10.1.0.6", labels=labels("default")),
    ]
    web = "web.acme-web.svc.cluster.local."

    answer = ask(objects, "front.acme-web.svc.cluster.local")
    assert answer.records == ("10.1.0.5", f"middle.{web.removeprefix('web.')}", web)
    assert answer.message is not None
    assert [str(rrset.name) for rrset in answer.message.answer][-1] == web
    empty = ask(objects, "front.acme-web.svc.cluster.local", "AAAA")
    assert (empty.code, len(empty.records)) == ("NOERROR", 2)
    assert ask(objects, "spy.acme-web.svc.cluster.local").code == "NXDOMAIN"


def test_external_names_that_go_round_in_a_circle_end() -> None:
    objects = [
        elsewhere("one", "two.acme-web.svc.cluster.local"),
        elsewhere("two", "one.acme-web.svc.cluster.local"),
    ]

    answer = ask(objects, "one.acme-web.svc.cluster.local")

    assert answer.code == "NOERROR"
    assert len(answer.records) == 2


def test_an_invalid_external_name_is_not_served() -> None:
    answer = ask([elsewhere("bad", "a..b")], "bad.acme-web.svc.cluster.local")

    assert answer.code == "NXDOMAIN"


def test_pods_are_verified() -> None:
    objects = [pod("a", "10.4.0.1"), pod("b", "10.4.0.2", **{NETWORK: "default"})]

    assert ask(objects, "10-4-0-1.acme-web.pod.cluster.local").records == ("10.4.0.1",)
    assert ask(objects, "10-4-0-2.acme-web.pod.cluster.local").code == "NXDOMAIN"
    assert ask(objects, "10-4-0-9.acme-web.pod.cluster.local").code == "NXDOMAIN"


def test_what_is_not_in_the_clusters_domain_is_refused() -> None:
    assert ask([service("web", "10.1.0.5")], "example.org").code == "REFUSED"


def test_a_change_recompiles_what_it_concerns() -> None:
    before, after = service("web", "10.1.0.5"), service("web", "10.1.0.6")
    compiler = Compiler(VIEW, [ZONE])
    compiler.enqueue_all(observed(before))
    compiler.compile(observed(before))

    compiler.on_change(ObjectChange("lubeck", before, after), observed(after))
    delta = compiler.compile(observed(after))

    assert {named.name for named in delta.nodes} == {
        b"\x03web\x08acme-web\x03svc\x07cluster\x05local\x00",
        b"\x016\x010\x011\x0210\x07in-addr\x04arpa\x00",
    }


def test_private_addresses_of_the_network_have_names_and_no_others() -> None:
    objects = [
        service("web", "10.1.0.5"),
        service("kubernetes-lab", "10.1.0.1", "acme-default"),
        service("secret", "10.1.0.6", labels=labels("default")),
        service("public", "198.51.100.7"),
        pod("a", "10.4.0.1"),
        pod("b", "fd00::1"),
    ]

    def name_of(address: str) -> DnsAnswer:
        return ask(objects, ip_address(address).reverse_pointer, "PTR")

    assert name_of("10.1.0.5").records == ("web.acme-web.svc.cluster.local.",)
    assert name_of("10.1.0.1").records == ("kubernetes.default.svc.cluster.local.",)
    assert name_of("10.4.0.1").records == ("10-4-0-1.acme-web.pod.cluster.local.",)
    assert name_of("fd00::1").records == ("fd00--1.acme-web.pod.cluster.local.",)
    assert name_of("10.1.0.6").code == "NXDOMAIN"
    assert name_of("198.51.100.7").code == "REFUSED"  # or forwarded


def test_each_namespace_is_watched_by_itself_so_that_no_right_beyond_is_needed() -> None:
    zone = NetworkZone(VIEW, LAB, ("acme-db", "acme-web"))

    assert {w.namespace for w in zone.watches} == {"acme-db", "acme-web"}
    assert {w.labels for w in zone.watches} == {f"{TENANT}=acme,{NETWORK}=lab"}


def test_namespaces_are_followed_by_the_networks_config_map() -> None:
    zone = NetworkZone(VIEW, LAB, follow=True)
    home = LAB.dns_namespace
    meta = Meta(name=LAB.kube_dns, namespace=home)
    named = stored(ConfigMap(metadata=meta, data={NAMESPACES: f"acme-web {home}"}))
    unnamed = stored(ConfigMap(metadata=meta))

    class Following:
        name = "dns"
        watches = zone.watches

    def look(*objects: Object) -> Snapshot:
        return snapshot(Following(), "lubeck", [cluster("lubeck", Role.LOCAL)], {"lubeck": objects})  # type: ignore[arg-type]  # it only looks

    def namespaces(*objects: Object) -> set[str]:
        return {w.namespace for w in zone.followed_watches(look(*objects)) if w.kind is Service}

    assert {w.namespace for w in zone.watches} == {home}
    assert namespaces() == namespaces(unnamed) == set()
    assert namespaces(named) == {"acme-web", home}
    assert not zone.synced(look())
    assert not zone.synced(look(unnamed))
    assert zone.synced(look(named))
    [config] = (w for w in zone.watches if w.kind is ConfigMap)
    assert (config.namespace, config.name) == (home, LAB.kube_dns)
