"""The backends of member Services, type by type."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.federated.backends import backends_from
from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.records import Backends
from hanse.model.facts import Answer
from hanse.model.internal_addresses import INTERNAL_FROM, InternalAddress
from hanse.model.kinds.core import (
    IngressPort,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceStatus,
)
from hanse.model.kinds.discovery import EndpointPort
from hanse.model.kinds.federation import (
    NativePort,
    NativeService,
    NativeServiceSpec,
    NetworkInterface,
    NetworkInterfaceSpec,
)
from hanse.model.objects import Meta, Object
from hanse.model.plan import Call, Plan
from hanse.model.snapshot import ObjectChange
from tests.features.federated.builders import (
    GLOBAL_ANNOTATION,
    HERE,
    SHOP,
    node,
    observed,
    plan_for,
    pod_slice,
    record,
    record_key,
    service,
    stored_configmap,
    written_records,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH

HTTP = (ServicePort(port=80, name="http", node_port=30080),)
PODS = pod_slice("web-here", "10.2.0.1", "10.2.0.2", nodes={"10.2.0.1": "n1", "10.2.0.2": "n2"})
NODES = (
    node("n1", InternalIP="10.1.0.1", ExternalIP="203.0.113.1"),
    node("n2", InternalIP="10.1.0.2"),
    node("n3", InternalIP="10.1.0.3", ready=False),
    node("n4", InternalIP="10.1.0.4", InternalIP6="fd00::4"),
)


def recorded_backends(
    *objects: Object, **view: Any
) -> list[tuple[str, tuple[str, ...], list[int | None]]]:
    """Family, ready addresses and port numbers of each endpoint_slice that the record tells."""
    [reported] = written_records(plan_for(record_key(), observed({HERE: objects}, **view)))
    return [(b.family, b.ready, [p.port for p in b.ports]) for b in reported.backends]


def load_balancer_service(*ingress: LoadBalancerIngress, **spec: Any) -> Service:
    made = service(ports=HTTP, type="LoadBalancer", **spec)
    return replace(
        made, status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=tuple(ingress)))
    )


def lookup_answer(host: str, *addresses: str, ttl: int = 60, error: str = "") -> Answer:
    value = None if error else {"addresses": list(addresses), "ttl": ttl}
    return Answer(Call("resolve", (("host", host),)).id, value, error, EPOCH)


@pytest.mark.parametrize(
    ("objects", "reported"),
    [
        pytest.param(
            (service(ports=HTTP), PODS),
            [("IPv4", ("10.2.0.1", "10.2.0.2"), [8080])],
            id="ClusterIP",
        ),
        pytest.param(
            (service(ports=HTTP, external_ips=("198.51.100.7", "fd00::7")), PODS),
            [("IPv4", ("198.51.100.7",), [80]), ("IPv6", ("fd00::7",), [80])],
            id="ClusterIP with externalIPs",
        ),
        pytest.param(
            (service(ports=HTTP, type="NodePort"), PODS, *NODES),
            [
                ("IPv4", ("10.1.0.2", "10.1.0.4", "203.0.113.1"), [30080]),
                ("IPv6", ("fd00::4",), [30080]),
            ],
            id="NodePort",
        ),
        pytest.param(
            (
                service(ports=HTTP, type="NodePort", external_traffic_policy="Local"),
                pod_slice("web-here", "10.2.0.1", nodes={"10.2.0.1": "n1"}),
                *NODES,
            ),
            [("IPv4", ("203.0.113.1",), [30080])],
            id="NodePort, Local",
        ),
        pytest.param(
            (load_balancer_service(LoadBalancerIngress(ip="192.0.2.1")), PODS),
            [("IPv4", ("192.0.2.1",), [80])],
            id="LoadBalancer",
        ),
        pytest.param(
            (load_balancer_service(), PODS), [], id="LoadBalancer that has no address yet"
        ),
        pytest.param(
            (
                load_balancer_service(
                    LoadBalancerIngress(
                        ip="192.0.2.1", ports=(IngressPort(port=80), IngressPort(port=81))
                    ),
                    LoadBalancerIngress(
                        ip="192.0.2.2", ports=(IngressPort(port=80, error="NoRoute"),)
                    ),
                ),
            ),
            [("IPv4", ("192.0.2.1",), [80]), ("IPv4", ("192.0.2.2",), [])],
            id="LoadBalancer that tells its ports",
        ),
        pytest.param(
            (load_balancer_service(LoadBalancerIngress(ip="127.0.0.1")),),
            [],
            id="no loopback in slices",
        ),
        pytest.param(
            (service(ports=HTTP, cluster_ip="None"), PODS),
            [("IPv4", ("10.2.0.1", "10.2.0.2"), [8080])],
            id="headless",
        ),
    ],
)
def test_where_others_reach_a_service(
    objects: tuple[Object, ...], reported: list[tuple[str, tuple[str, ...], list[int | None]]]
) -> None:
    assert recorded_backends(*objects) == reported


def test_endpoints_are_recorded_by_their_state() -> None:
    [reported] = written_records(
        plan_for(
            record_key(),
            observed({HERE: [service(), pod_slice("web-here", "10.2.0.1", unready=["10.2.0.9"])]}),
        )
    )

    [endpoint_slice] = reported.backends
    assert (endpoint_slice.ready, endpoint_slice.unready) == (("10.2.0.1",), ("10.2.0.9",))


def test_dual_stack_is_a_piece_for_each_family() -> None:
    reported = recorded_backends(
        service(), pod_slice("web-here", "10.2.0.1"), pod_slice("web-here", "fd00::1", slot="b")
    )

    assert [family for family, _, _ in reported] == ["IPv4", "IPv6"]


def test_a_host_name_is_looked_up_and_recorded_as_fqdn_until_it_resolves() -> None:
    lb = load_balancer_service(LoadBalancerIngress(hostname="LB.example.org"))

    plan = plan_for(record_key(), observed({HERE: [lb]}))

    [reported] = written_records(plan)
    assert [(b.family, b.ready) for b in reported.backends] == [("FQDN", ("lb.example.org",))]
    assert [q.ask.id for q in plan.questions] == ["resolve {'host': 'LB.example.org'}"]
    assert plan.requeue_after == timedelta(seconds=5)


def test_a_host_name_that_no_slice_accepts_is_in_none() -> None:
    lb = load_balancer_service(LoadBalancerIngress(hostname="localhost"))

    assert recorded_backends(lb) == []


def test_a_host_name_is_looked_up_again_after_its_ttl() -> None:
    lb = load_balancer_service(LoadBalancerIngress(hostname="lb.example.org"))
    known = lookup_answer("lb.example.org", "192.0.2.8", "fd00::8", ttl=120)

    plan = plan_for(record_key(), observed({HERE: [lb]}, facts=[known]))

    [reported] = written_records(plan)
    assert [(b.family, b.ready) for b in reported.backends] == [
        ("FQDN", ("lb.example.org",)),
        ("IPv4", ("192.0.2.8",)),
        ("IPv6", ("fd00::8",)),
    ]
    assert plan.requeue_after == timedelta(seconds=120)
    assert plan.questions[0].max_age == timedelta(seconds=120)


def test_a_host_name_that_cannot_be_looked_up_keeps_the_addresses_that_were_known() -> None:
    lb = load_balancer_service(LoadBalancerIngress(hostname="lb.example.org"))
    port = EndpointPort(port=80, name="http")
    current = record(
        HERE,
        name="web-here",
        backends=(Backends("ingress 0 IPv4", "IPv4", (port,), ready=("192.0.2.8",)),),
    )
    failed = lookup_answer("lb.example.org", error="timed out")

    plan = plan_for(record_key(), observed({HERE: [lb, stored_configmap(current)]}, facts=[failed]))

    [reported] = written_records(plan)
    assert ("IPv4", ("192.0.2.8",)) in [(b.family, b.ready) for b in reported.backends]


SQL = (NativePort(port=5432, name="sql"),)


def native_service(ports: Sequence[NativePort] = SQL, /, **fields: Any) -> tuple[Object, Object]:
    annotations = {GLOBAL_ANNOTATION: "web"}
    return (
        stored(
            NativeService(
                metadata=Meta(name="db", namespace=SHOP, annotations=annotations),
                spec=NativeServiceSpec(network_interface="nic", ports=tuple(ports)),
            )
        ),
        stored(
            NetworkInterface(
                metadata=Meta(name="nic", namespace=SHOP), spec=NetworkInterfaceSpec(**fields)
            )
        ),
    )


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        pytest.param({"internal_ip": "10.5.0.1"}, "10.5.0.1", id="internal"),
        pytest.param(
            {"internal_ip": "10.5.0.1", "external_ip": "203.0.113.9"}, "203.0.113.9", id="external"
        ),
    ],
)
def test_a_native_service_is_reached_at_its_interface(fields: dict[str, str], address: str) -> None:
    plan = plan_for(record_key("native.db"), observed({HERE: native_service(**fields)}))

    [reported] = written_records(plan)
    assert (reported.kind, reported.name) == ("NativeService", "db")
    assert [(b.ready, [p.port for p in b.ports]) for b in reported.backends] == [
        ((address,), [5432])
    ]


def test_nodes_have_internal_addresses_for_the_clusters_on_their_network() -> None:
    marks = {GLOBAL_ANNOTATION: "web", INTERNAL_FROM: "bergen"}
    shared = service(ports=HTTP, type="NodePort", annotations=marks)

    [reported] = written_records(plan_for(record_key(), observed({HERE: (shared, PODS, *NODES)})))

    nodes = next(b for b in reported.backends if b.family == "IPv4")
    internal = InternalAddress("203.0.113.1", "10.1.0.1", ("bergen",))
    assert nodes.internal == (internal,)
    assert backends_from("bergen", nodes).ready == ("10.1.0.1", "10.1.0.2", "10.1.0.4")
    assert backends_from("hamburg", nodes).ready == nodes.ready


def test_the_ports_of_a_native_service_get_unique_names() -> None:
    ports = (
        NativePort(port=5432, name="SQL_Port!"),
        NativePort(port=1, name="same"),
        NativePort(port=2, name="same", protocol="UDP"),
        NativePort(port=2, name="again", protocol="UDP"),
    )

    plan = plan_for(
        record_key("native.db"), observed({HERE: native_service(ports, internal_ip="10.5.0.1")})
    )

    [reported] = written_records(plan)
    called = {"same": 1, "same-udp-2": 2, "tcp-5432": 5432}
    assert {p.name: p.port for p in reported.ports} == called
    assert {p.name: p.port for b in reported.backends for p in b.ports} == called


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(None, "there is no NetworkInterface shop/nic", id="no-interface"),
        pytest.param({}, "NetworkInterface shop/nic has no address", id="no-address"),
        pytest.param({"external_ip": "300.1.1.1"}, "'300.1.1.1' is none that", id="no-number"),
        pytest.param({"internal_ip": "127.0.0.1"}, "'127.0.0.1' is none that", id="loopback"),
        pytest.param({"internal_ip": "::ffff:10.0.0.1"}, "is none that", id="in-disguise"),
    ],
)
def test_a_native_service_without_a_usable_address_is_reported(
    fields: dict[str, str] | None, message: str
) -> None:
    db, nic = native_service(**(fields or {}))

    plan = plan_for(
        record_key("native.db"), observed({HERE: [db] if fields is None else [db, nic]})
    )

    [notice] = plan.events
    assert notice.reason == "NoAddress"
    assert message in notice.message
    assert [b for reported in written_records(plan) for b in reported.backends] == []


def test_an_external_name_is_ignored_and_reported() -> None:
    named = service(type="ExternalName", external_name="example.org")

    plan = plan_for(record_key(), observed({HERE: [named]}))

    assert written_records(plan) == []
    [notice] = plan.events
    assert (notice.reason, notice.type) == ("ExternalName", "Warning")


def test_a_follower_writes_no_record() -> None:
    view = observed({HERE: [service(), PODS]}, led=())

    assert plan_for(record_key(), view) == Plan()


@pytest.mark.parametrize(
    ("spec", "used"),
    [
        ({"type": "ClusterIP"}, False),
        ({"type": "ClusterIP", "external_ips": ("198.51.100.7",)}, True),
        ({"type": "NodePort"}, True),
        ({"type": "NodePort", "external_ips": ("198.51.100.7",)}, True),
        ({"type": "LoadBalancer"}, True),
    ],
)
def test_a_changed_node_enqueues_the_records_that_name_its_addresses(
    spec: dict[str, Any], used: bool
) -> None:
    before, after = node("n1", InternalIP="10.1.0.1"), node("n1", InternalIP="10.1.0.9")
    joining = service(ports=HTTP, **spec)
    views = [observed({HERE: [joining, PODS, n]}) for n in (before, after)]

    keys = list(FederatedServices().keys_for(ObjectChange(HERE, before, after), views[1]))

    plans = [plan_for(record_key(), view) for view in views]
    assert (plans[0] != plans[1]) is used
    assert keys == [record_key()] * used
