"""Kinds are what API servers send and take: nothing is lost on the way, and null is survived."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanse.model import kinds
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import Event, Secret, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import ClusterClaim
from hanse.model.kinds.networking import LabelSelector, NetworkPolicy, PolicyPeer
from hanse.model.objects import Meta, Object, to_wire
from tests.model.strategies import structs_of


def every_kind() -> list[type[Object]]:
    for module in pkgutil.iter_modules(kinds.__path__):
        importlib.import_module(f"{kinds.__name__}.{module.name}")
    direct = Object.__subclasses__()
    found = [k for one in direct for k in (one, *one.__subclasses__()) if hasattr(k, "kind")]
    return sorted(found, key=lambda kind: (kind.kind.group, kind.__name__))


KINDS = [kind for kind in every_kind() if kind.__module__.startswith(kinds.__name__)]


def decoded(kind: type[Object], wire: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(wire), type=kind)


def sent(obj: Object) -> Any:
    """The object as it stands in a request."""
    return msgspec.json.decode(msgspec.json.encode(to_wire(obj)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(chosen=st.data())
def test_what_is_written_is_read_back_the_same(kind: type[Object], chosen: st.DataObject) -> None:
    obj = chosen.draw(structs_of(kind))

    wire = to_wire(obj)

    assert decoded(kind, wire) == obj
    assert wire["kind"] == kind.kind.name
    assert wire["apiVersion"] == kind.kind.api_version


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_says_how_it_is_served(kind: type[Object]) -> None:
    assert kind.kind.plural == kind.kind.plural.lower()
    assert kind.kind.version not in kind.fallback_versions
    assert kind.__doc__


def test_no_kind_is_declared_twice() -> None:
    served = [kind.kind for kind in KINDS]

    assert len(set(served)) == len(served)


def test_what_the_server_fills_in_makes_no_difference() -> None:
    ours = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    filled = {
        "metadata": {"name": "web"},
        "spec": {
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {}},
    }

    assert decoded(Service, ours) == decoded(Service, filled)


def test_defaults_of_the_server_are_not_written() -> None:
    filled = {"metadata": {"name": "web"}, "spec": {"type": "ClusterIP", "sessionAffinity": "None"}}

    assert to_wire(decoded(Service, filled))["spec"] == {}


def test_names_that_are_not_camel_case_are_kept() -> None:
    spec = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "externalIPs": ["1.2.3.4"]}

    service = decoded(Service, {"metadata": {"name": "web"}, "spec": spec})

    assert service.spec.cluster_ip == "10.0.0.1"
    assert sent(service)["spec"] == spec


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        pytest.param(
            EndpointSlice,
            {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": None, "ports": None},
            id="a slice of a Service without pods",
        ),
        pytest.param(
            CustomResourceDefinition,
            {
                "metadata": {"name": "x.y", "creationTimestamp": None},
                "spec": {"group": "y", "names": {"kind": "X", "plural": "x"}, "scope": "Cluster"},
                "status": {"conditions": None, "storedVersions": None},
            },
            id="a definition that was just created",
        ),
        pytest.param(
            Event,
            {
                "metadata": {"name": "e"},
                "involvedObject": {},
                "source": {},
                "firstTimestamp": None,
                "lastTimestamp": None,
                "eventTime": None,
                "reportingComponent": "",
                "reportingInstance": "",
            },
            id="an event of the newer kind",
        ),
    ],
)
def test_null_for_an_empty_list_is_read(kind: type[Object], wire: dict[str, object]) -> None:
    assert decoded(kind, wire).name


def test_an_endpoint_that_says_nothing_is_ready_and_serving() -> None:
    wire = {
        "metadata": {"name": "s"},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"]},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
            {
                "addresses": ["10.0.0.3"],
                "conditions": {"ready": False, "serving": True, "terminating": True},
            },
        ],
    }

    conditions = [
        (e.ready, e.serving, e.terminating) for e in decoded(EndpointSlice, wire).endpoints
    ]

    assert conditions == [(True, True, False), (False, False, False), (False, True, True)]


def test_a_secret_never_shows_its_values() -> None:
    secret = decoded(Secret, {"metadata": {"name": "s"}, "data": {"token": "aHVzaA=="}})

    assert secret.data["token"] == b"hush"
    assert "hush" not in f"{secret!r} {secret}"
    assert "token" in repr(secret)


def test_selecting_everything_is_not_selecting_nothing() -> None:
    peer = PolicyPeer(namespace_selector=LabelSelector())

    assert msgspec.to_builtins(peer) == {"namespaceSelector": {}}


def test_a_claim_is_about_its_name_unless_it_says_otherwise() -> None:
    plain = ClusterClaim(metadata=Meta(name="id.k8s.io"), value="lubeck")
    named = decoded(
        ClusterClaim,
        {"metadata": {"name": "clusterset.k8s.io"}, "name": "clusterSet.k8s.io", "value": "hanse"},
    )

    assert plain.about == "id.k8s.io"
    assert named.about == "clusterset.k8s.io"
    assert to_wire(named)["name"] == "clusterSet.k8s.io"


def test_a_policy_keeps_its_keywords() -> None:
    spec = {
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}],
    }

    policy = decoded(NetworkPolicy, {"metadata": {"name": "p"}, "spec": spec})

    assert sent(policy)["spec"] == spec
