"""Monitors in ConfigMaps: what is parsed, and the errors of the rest."""

import pytest
from msgspec import ValidationError

from hanse.features.gslb.monitors import decode_payload, monitor_errors, parse_monitor
from hanse.features.gslb.paths import MAX_PATH_LENGTH
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.globalservice import Monitor
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Meta
from tests.features.gslb.fleet import amko, config, ingress, leader_snapshot, policy
from tests.features.gslb.test_hosts import service_in


def test_a_monitor_is_read_field_by_field() -> None:
    data = {"type": "HTTP", "port": "8080", "path": "/healthz?deep=1", "interval": "3600"}

    assert list(monitor_errors(data)) == []
    assert parse_monitor(data) == Monitor(
        type="HTTP", port=8080, path="/healthz?deep=1", interval=3600
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"type": "TCP"}, "port: it is needed"),
        ({"port": "80"}, "type: it is needed"),
        (
            {"type": "tcp", "port": "80"},
            "type: 'tcp' is none of TCP, TLS, UDP, HTTP, HTTPS, GRPC, GRPCS",
        ),
        ({"type": "TCP", "port": "http"}, "port: 'http' is not from 1 to 65535"),
        ({"type": "TCP", "port": "70000"}, "port: '70000' is not from 1 to 65535"),
        ({"type": "TCP", "port": "080"}, "port: '080' is not from 1 to 65535"),
        ({"type": "TCP", "port": "0000000801234"}, "is not from 1 to 65535"),
        ({"type": "TCP", "port": "²"}, "port: '²' is not from 1 to 65535"),
        ({"type": "TCP", "port": "80", "interval": "9" * 30}, "is not from 1 to 3600"),
        ({"type": "TCP", "port": "80", "up": "51"}, "up: '51' is not from 1 to 50"),
        ({"type": "TCP", "port": "80", "intervall": "5"}, "intervall: it is no field of a monitor"),
        ({"type": "HTTP", "port": "80", "path": "healthz"}, "path: it must begin with /"),
        ({"type": "HTTP", "port": "80", "path": "/a\r\nX: y"}, "path: it must begin with /"),
        (
            {"type": "HTTP", "port": "80", "path": "/" * (MAX_PATH_LENGTH + 1)},
            "path: it must begin",
        ),
    ],
)
def test_what_is_wrong_names_the_field(data: dict[str, str], expected: str) -> None:
    (error,) = monitor_errors(data)

    assert expected in error


def test_what_cannot_be_read_has_a_fault() -> None:
    for data in ({"type": "TCP"}, {"type": "x", "port": "1"}, {"type": "TCP", "port": "x"}):
        with pytest.raises(ValidationError):
            parse_monitor(data)
        assert list(monitor_errors(data))


@pytest.mark.parametrize("path", ["/a b", "/" + "long" * MAX_PATH_LENGTH, "/a\r\nHost: b"])
def test_a_path_that_cannot_be_asked_for_is_watched_at_the_root(path: str) -> None:
    leader = amko("lubeck", leads=True, epoch=1)
    way_in = ingress("10.1.0.1", path=path)
    snapshot = leader_snapshot([leader, config("lubeck"), policy("lubeck"), way_in])

    (member,) = service_in(snapshot).spec.members

    assert [monitor.path for monitor in member.monitors] == ["/"]


def test_a_payload_may_have_any_bytes() -> None:
    assert decode_payload(r"a\x00\xffé\n\\") == b"a\x00\xff\xc3\xa9\n\\"


TEMPLATE = {
    "type": "HTTP",
    "headers": "X-Probe: yes",
    "codes": "200,401",
    "interval": "5",
}


def test_a_template_without_a_port_changes_what_is_generated_for_each_path() -> None:
    leader = amko("lubeck", leads=True, epoch=1)
    quick = ConfigMap(metadata=Meta(name="quick", namespace=NAMESPACE), data=TEMPLATE)
    way_in = ingress("10.1.0.1", path="/shop", tls=True)
    chosen = policy("lubeck", health_monitor_template="quick")
    snapshot = leader_snapshot([leader, config("lubeck"), chosen, quick, way_in])

    (member,) = service_in(snapshot).spec.members

    assert member.monitors == (
        Monitor(
            type="HTTPS",
            port=443,
            path="/shop",
            headers="X-Probe: yes",
            codes="200,401",
            interval=5,
        ),
    )
