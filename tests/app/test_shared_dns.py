"""One DNS server for many tenant networks: each client is answered from its own network."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from random import Random

import dns.message
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.app.shared_dns import NO_NETWORK, NetworkViews
from hanse.dns.compiler import Compiler
from hanse.dns.forwarding import forwarded_question
from hanse.dns.messages import Delta, ListeningSocket
from hanse.dns.responder import respond
from hanse.dns.table import Entry
from hanse.dns.views import ViewTables
from hanse.features.networks.names import NETWORK, TENANT
from hanse.features.networks.shared_zone import SHARED_WATCHES
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.networks import NetworkPeering
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.dns.builders import DnsAnswer, parse_answer
from tests.features.networks.builders import HERE, network, pod, space, tenant
from tests.support.builders import cluster, snapshot, stored

A1, A2, LAB, B1, PLATFORM = (f"10.4.0.{n}" for n in range(1, 6))
SERVICES = ServiceZone(View("all"))
SOCKET = ListeningSocket(NO_NETWORK.name, 0, stream=False, by_client=True)


class Watching:
    name = "dns"
    watches = (*SHARED_WATCHES, *SERVICES.watches)


def observed(objects: Iterable[Object]) -> Snapshot:
    return snapshot(Watching(), HERE, [cluster(HERE, Role.LOCAL)], {HERE: [*objects]})  # type: ignore[arg-type]  # it only looks


class TableServer:
    """A server whose only worker is here."""

    def __init__(self) -> None:
        self.tables = ViewTables(Random(1))
        self.tables.tables_by_client(SOCKET)

    def update(self, delta: Delta) -> None:
        self.tables.get_or_create(delta.view).apply(delta)

    def add_view(self, compiler: Compiler) -> None:
        self.update(compiler.full_delta())

    def drop_view(self, view: str) -> None:
        self.tables.drop(view)

    def set_client_views(self, changes: Mapping[bytes, str | None]) -> None:
        self.tables.set_client_views(changes.items())

    def answers(self) -> tuple[dict[str, dict[bytes, Entry]], dict[bytes, str]]:
        """All that clients are answered: each table, and who has which."""
        views = {
            view: {question: entry[:2] for question, entry in table.answers.items()}
            for view, table in self.tables.by_view.items()
            if view != NO_NETWORK.name
        }
        return views, {a: table.view for a, table in self.tables.by_client.items()}


class Names:
    """The views of a cluster's networks, which follow its objects."""

    def __init__(self, *objects: Object) -> None:
        self.objects = {_key(obj): obj for obj in objects}
        self.server = TableServer()
        view = View("all", zone="cluster.local")
        self._views = NetworkViews(view, SERVICES, self.server, 1)
        snapshot = observed(self.objects.values())
        assert self._views.is_listed(snapshot)
        self._views.start(snapshot)
        self._advance(snapshot)

    def put(self, obj: Object) -> None:
        before = self.objects.get(_key(obj))
        self.objects[_key(obj)] = obj
        self._change(ObjectChange(HERE, before, obj))

    def remove(self, obj: Object) -> None:
        if (before := self.objects.pop(_key(obj), None)) is not None:
            self._change(ObjectChange(HERE, before, None))

    def _change(self, change: ObjectChange) -> None:
        snapshot = observed(self.objects.values())
        self._views.on_change(change, snapshot)
        self._advance(snapshot)

    def _advance(self, snapshot: Snapshot) -> None:
        while self._views.due:
            self._views.advance(snapshot)

    def ask(self, client: str, name: str, rtype: str = "A") -> DnsAnswer:
        query = dns.message.make_query(name, rtype).to_wire()
        answer = respond(query, self.server.tables.for_client(SOCKET, client), stream=False)
        assert answer is not None
        return parse_answer(dns.message.from_wire(answer))

    def forwards(self, client: str, name: str) -> bool:
        query = dns.message.make_query(name, "A").to_wire()
        return forwarded_question(query, self.server.tables.for_client(SOCKET, client)) is not None


def _key(obj: Object) -> tuple[str, str, str]:
    return type(obj).__name__, obj.metadata.namespace, obj.metadata.name


def service(name: str, where: str, ip: str, of: str = "default") -> Service:
    labels = {TENANT: where.partition("-")[0], NETWORK: of}
    wire = {
        "metadata": {"name": name, "namespace": where, "labels": labels},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80}]},
    }
    return stored(msgspec.convert(wire, Service))


def peering(where: str, own: str, peer: str) -> NetworkPeering:
    """One side's consent, as the agent has recorded it."""
    uids = [f"uid-of-{name}" for name in (where.partition("-")[0], peer.partition(".")[0])]
    wire = {
        "metadata": {"name": "with", "namespace": where},
        "spec": {"network": own, "peer": peer},
        "status": {"tenantUID": uids[0], "peerTenantUID": uids[1]},
    }
    return stored(msgspec.convert(wire, NetworkPeering))


TENANTS = (
    *(stored(tenant(name), uid=f"uid-of-{name}", age=9) for name in ("acme", "bolt")),
    *(space("acme-web"), space("acme-kube-system"), space("bolt-web", of="bolt")),
    *(space("plain", of=""), network("acme.default"), network("acme.lab"), network("bolt.default")),
)
MEMBERS = (
    pod("a1", "acme-web", A1),
    pod("lab", "acme-web", LAB, **{NETWORK: "lab"}),
    pod("b1", "bolt-web", B1),
    stored(
        replace(pod("p", "plain", PLATFORM), metadata=Meta(name="p", namespace="plain", uid="p"))
    ),
    service("web", "acme-web", "10.96.1.1"),
    service("kube-dns-default", "acme-kube-system", "10.96.0.10"),
    service("trial", "acme-web", "10.96.1.2", of="lab"),
    service("web", "bolt-web", "10.96.2.1"),
)
WEB, TRIAL, BOLT = (
    "web.acme-web.svc.cluster.local",
    "trial.acme-web.svc.cluster.local",
    ("web.bolt-web.svc.cluster.local"),
)


def test_each_client_gets_the_names_of_its_own_network_and_no_others() -> None:
    names = Names(*TENANTS, *MEMBERS)

    found = {
        (client, name): names.ask(client, name)
        for client in (A1, LAB, B1)
        for name in (WEB, TRIAL, BOLT)
    }

    assert {pair: answer.records for pair, answer in found.items() if answer.records} == {
        (A1, WEB): ("10.96.1.1",),
        (LAB, TRIAL): ("10.96.1.2",),
        (B1, BOLT): ("10.96.2.1",),
    }
    assert {a.code for a in found.values() if not a.records} == {"NXDOMAIN"}
    assert names.ask(A1, "kube-dns.kube-system.svc.cluster.local").records == ("10.96.0.10",)
    assert names.ask(B1, "kube-dns.kube-system.svc.cluster.local").code == "NXDOMAIN"


def test_who_is_in_no_network_is_refused_whatever_it_asks() -> None:
    names = Names(*TENANTS, *MEMBERS)

    for client in (PLATFORM, "10.4.0.77", "fd00::1"):
        for name in (
            WEB,
            "example.com",
            "4.0.4.10.in-addr.arpa",
            "web.acme-web.svc.clusterset.local",
        ):
            assert names.ask(client, name).code == "REFUSED"
        assert not names.forwards(client, "example.com")
    assert names.forwards(A1, "example.com")


def test_reverse_names_are_those_of_the_own_network() -> None:
    names = Names(*TENANTS, *MEMBERS)

    own = names.ask(A1, ip_address(A1).reverse_pointer, "PTR")

    assert own.records == ("10-4-0-1.acme-web.pod.cluster.local.",)
    for other in (LAB, B1, "10.96.2.1"):
        assert names.ask(A1, ip_address(other).reverse_pointer, "PTR").code == "NXDOMAIN"


def test_peers_know_each_others_names_once_both_agree() -> None:
    names = Names(*TENANTS, *MEMBERS)
    mine, theirs = (
        peering("acme-web", "lab", "bolt.default"),
        peering("bolt-web", "default", "acme.lab"),
    )

    names.put(mine)
    assert names.ask(LAB, BOLT).code == "NXDOMAIN"
    names.put(theirs)

    assert names.ask(LAB, BOLT).records == ("10.96.2.1",)
    assert names.ask(B1, TRIAL).records == ("10.96.1.2",)
    assert names.ask(B1, WEB).code == "NXDOMAIN"
    assert names.ask(A1, BOLT).code == "NXDOMAIN"
    assert names.ask(LAB, ip_address(B1).reverse_pointer, "PTR").code == "NXDOMAIN"

    names.remove(theirs)
    assert names.ask(LAB, BOLT).code == "NXDOMAIN"
    assert names.ask(B1, TRIAL).code == "NXDOMAIN"


def test_multi_cluster_services_are_known_in_the_tenants_namespaces() -> None:
    imports = [
        stored(
            msgspec.convert(
                {
                    "metadata": {"name": "shop", "namespace": where},
                    "spec": {"type": "ClusterSetIP", "ips": [ip], "ports": [{"port": 80}]},
                },
                ServiceImport,
            )
        )
        for where, ip in (("acme-web", "10.97.0.1"), ("bolt-web", "10.97.0.2"))
    ]
    names = Names(*TENANTS, *MEMBERS, *imports, *(_exported(i) for i in imports))

    for client in (A1, LAB):
        assert names.ask(client, "shop.acme-web.svc.clusterset.local").records
        assert names.ask(client, "shop.bolt-web.svc.clusterset.local").code == "NXDOMAIN"
    assert names.ask(B1, "shop.bolt-web.svc.clusterset.local").records
    names.remove(imports[0])
    assert names.ask(A1, "shop.acme-web.svc.clusterset.local").code == "NXDOMAIN"


def _exported(service_import: ServiceImport) -> EndpointSlice:
    """The backend of an import in another cluster."""
    meta = service_import.metadata
    labels = {
        "multicluster.kubernetes.io/service-name": meta.name,
        "multicluster.kubernetes.io/source-cluster": "bergen",
    }
    wire = {
        "metadata": {"name": f"{meta.name}-bergen", "namespace": meta.namespace, "labels": labels},
        "addressType": "IPv4",
        "ports": [{"port": 80}],
        "endpoints": [{"addresses": ["10.98.0.1"], "conditions": {"ready": True}}],
    }
    return stored(msgspec.convert(wire, EndpointSlice))


def test_labels_of_another_tenant_select_nothing() -> None:
    forged = pod("spy", "bolt-web", A2, **{TENANT: "acme"})
    bait = replace(
        service("bait", "bolt-web", "10.96.9.9"), metadata=service("bait", "acme-web", "").metadata
    )
    bait = replace(bait, metadata=replace(bait.metadata, namespace="bolt-web"))
    names = Names(*TENANTS, *MEMBERS, forged, bait)

    assert names.ask(A2, WEB).code == "REFUSED"
    assert names.ask(A1, "bait.bolt-web.svc.cluster.local").code == "NXDOMAIN"
    assert names.ask(B1, "bait.bolt-web.svc.cluster.local").code == "NXDOMAIN"


def test_an_address_of_pods_of_two_networks_is_nobodys() -> None:
    names = Names(*TENANTS, *MEMBERS, pod("twin", "bolt-web", A1))

    assert names.ask(A1, WEB).code == "REFUSED"


def test_a_network_that_is_not_flat_has_servers_of_its_own() -> None:
    names = Names(
        *TENANTS, network("acme.vpc", "vpc"), pod("v", "acme-web", A2, **{NETWORK: "vpc"})
    )

    assert names.ask(A2, WEB).code == "REFUSED"


def test_a_namespace_that_moves_to_another_tenant_takes_its_names_and_clients_along() -> None:
    names = Names(*TENANTS, *MEMBERS)

    names.put(space("acme-web", of="bolt"))

    assert names.ask(A1, BOLT).code == "REFUSED"  # its label still says acme
    assert names.ask(B1, WEB).code == "NXDOMAIN"
    names.put(space("acme-web"))
    assert names.ask(A1, WEB).records == ("10.96.1.1",)


def test_a_network_that_goes_answers_nobody_and_comes_back_whole() -> None:
    names = Names(*TENANTS, *MEMBERS)

    names.remove(network("acme.default"))
    assert names.ask(A1, WEB).code == "REFUSED"
    names.put(network("acme.default"))

    assert names.ask(A1, WEB).records == ("10.96.1.1",)


_PEERED = (
    peering("acme-web", "lab", "bolt.default"),
    peering("bolt-web", "default", "acme.lab"),
)
_CHANGES: tuple[Object, ...] = (
    *TENANTS,
    *MEMBERS,
    space("acme-web", of="bolt"),
    space("acme-web", of=""),
    network("acme.lab", "vpc"),
    pod("a1", "acme-web", LAB),
    pod("lab", "acme-web", A1, **{NETWORK: "lab"}),
    *_PEERED,
    service("web", "acme-web", "10.96.1.1", of="lab"),
)


@settings(max_examples=100, deadline=None)
@given(st.booleans(), st.lists(st.tuples(st.sampled_from(_CHANGES), st.booleans()), max_size=20))
def test_changes_end_in_what_a_new_server_answers(
    peered: bool, steps: list[tuple[Object, bool]]
) -> None:
    """Whatever comes and goes, in any order."""
    names = Names(*TENANTS, *MEMBERS, *(_PEERED if peered else ()))

    for obj, stays in steps:
        if stays:
            names.put(obj)
        else:
            names.remove(obj)

    assert _without_serials(names) == _without_serials(Names(*names.objects.values()))


def _without_serials(names: Names) -> object:
    """All answers but those with an SOA, whose serial counts changes."""
    views, askers = names.server.answers()
    kept = {
        view: {q: entry for q, entry in answers.items() if b"hostmaster" not in entry[1]}
        for view, answers in views.items()
    }
    return kept, askers
