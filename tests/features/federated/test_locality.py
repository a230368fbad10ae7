"""Zones of endpoints, traffic distribution and the sources of packets of federated Services."""

from typing import Any

from msgspec.structs import replace

from hanse.features.federated.groups import source_addresses
from hanse.features.federated.records import Backends
from hanse.model.affinity import AffinityRule, format_affinity
from hanse.model.kinds.core import Service, ServicePort
from hanse.model.kinds.discovery import EndpointPort, EndpointSlice
from tests.features.federated.builders import (
    HERE,
    node,
    observed,
    plan_for,
    pod_slice,
    record,
    record_key,
    service,
    service_key,
    stored_configmap,
    written_records,
)


def test_zones_are_recorded_where_the_service_prefers_what_is_close() -> None:
    pods = pod_slice("web-here", "10.9.0.1", "10.9.0.2")
    first, second = pods.endpoints or ()
    pods = replace(pods, endpoints=(replace(first, zone="a"), second))

    def recorded(**spec: Any) -> dict[str, str]:
        objects = [service(**spec), pods]
        [reported] = written_records(plan_for(record_key(), observed({HERE: objects})))
        [backends] = reported.backends
        return backends.zones

    assert recorded() == {}
    assert recorded(traffic_distribution="PreferSameZone") == {"10.9.0.1": "a"}


def test_the_oldest_members_distribution_is_the_services_and_zones_are_hints() -> None:
    port = (EndpointPort(port=80, name="http"),)
    close = Backends("a", "IPv4", port, ready=("10.8.0.1",), zones={"10.8.0.1": "b"})
    far = record("riga", backends=(close,), traffic_distribution="PreferClose")
    records = [
        ("riga", stored_configmap(far, age=9)),
        ("visby", stored_configmap(record("visby", "10.8.0.2"))),
    ]

    plan = plan_for(service_key(), observed({where: [one] for where, one in records}))

    objects = [d.object for d in plan.desired]
    [made] = [o for o in objects if isinstance(o, Service)]
    assert made.spec.traffic_distribution == "PreferClose"
    endpoints = [e for o in objects if isinstance(o, EndpointSlice) for e in o.endpoints or ()]
    hinted = {e.addresses[0]: [z.name for z in e.hints.for_zones] for e in endpoints if e.hints}
    assert hinted == {"10.8.0.1": ["b"]}


def test_a_service_at_node_ports_sends_from_its_pods_and_their_nodes() -> None:
    nodes = [
        node("n1", InternalIP="10.1.0.1", ExternalIP="203.0.113.1"),
        node("n2", InternalIP="10.1.0.2"),
    ]
    pods = pod_slice("web-here", "10.9.0.1", nodes={"10.9.0.1": "n1"})
    objects = [
        service(ports=(ServicePort(port=80, name="http", node_port=30080),), type="NodePort"),
        pods,
        *nodes,
    ]

    [reported] = written_records(plan_for(record_key(), observed({HERE: objects})))

    assert reported.sources == ("10.1.0.1", "10.9.0.1", "203.0.113.1")
    assert source_addresses([reported]) == {*reported.sources}
    assert source_addresses([record("riga", "10.8.0.1")]) == {"10.8.0.1"}


def test_an_affinity_is_a_sentence() -> None:
    assert format_affinity(AffinityRule()) == "none: all endpoints alike"
    assert format_affinity(AffinityRule("local", 50)) == (
        "local: each cluster uses its own endpoints while 50% of them are ready"
    )
    assert "those of other clusters while one" in format_affinity(AffinityRule("remote"))
