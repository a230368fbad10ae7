"""Protobuf bodies, built here byte by byte with the field numbers of the .proto files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinykube.protobuf import MAGIC, NotDecodable, decode_body


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def text(number: int, value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def entry(number: int, key: str, value: str | bytes) -> bytes:
    return text(number, text(1, key) + text(2, value))


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + text(1, text(1, api_version) + text(2, kind)) + text(2, raw) + text(3, "")


ZERO_TIME = whole(1, 0) + whole(2, 0)


def meta(name: str, *more: bytes) -> bytes:
    """Metadata as Go writes it: empty strings and a zero time included."""
    empty = b"".join(text(number, "") for number in (2, 3, 4, 5, 6))
    return text(1, text(1, name) + empty + whole(7, 0) + text(8, ZERO_TIME) + b"".join(more))


def test_unset_fields_are_left_out() -> None:
    namespace = meta("shop") + text(2, b"") + text(3, text(1, ""))

    decoded = decode_body(body("v1", "Namespace", namespace))

    assert decoded == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop"},
        "spec": {},
        "status": {},
    }


def test_labels_and_bytes_are_maps_and_base64() -> None:
    secret = meta("key", entry(11, "app", "web")) + entry(2, "pem", b"\x00\xff") + text(3, "Opaque")

    decoded = decode_body(body("v1", "Secret", secret))

    assert decoded["metadata"]["labels"] == {"app": "web"}
    assert decoded["data"] == {"pem": "AP8="}
    assert decoded["type"] == "Opaque"


def test_a_deployment_keeps_an_explicit_zero_and_inlines_volumes() -> None:
    volume = text(1, "tmp") + text(2, text(2, text(1, "")))  # emptyDir, inside an inlined source
    container = text(1, "web") + text(2, "nginx") + text(3, "run") + text(3, "now")
    pod_spec = text(1, volume) + text(2, container)
    strategy = text(2, text(1, whole(1, 1) + whole(2, 0) + text(3, "25%")))
    spec = whole(1, 0) + text(3, text(2, pod_spec)) + text(4, strategy) + whole(5, 0)

    decoded = decode_body(body("apps/v1", "Deployment", meta("web") + text(2, spec)))

    assert decoded["spec"] == {
        "replicas": 0,
        "template": {
            "spec": {
                "volumes": [{"name": "tmp", "emptyDir": {}}],
                "containers": [{"name": "web", "image": "nginx", "command": ["run", "now"]}],
            }
        },
        "strategy": {"rollingUpdate": {"maxUnavailable": "25%"}},
    }


def test_numbers_may_be_negative_and_ports_may_be_named() -> None:
    port = text(1, "http") + whole(3, 80) + text(4, whole(1, 1) + text(3, "web"))
    other = whole(3, -1) + text(4, whole(1, 0) + whole(2, 8080))

    decoded = decode_body(
        body("v1", "Service", meta("web") + text(2, text(1, port) + text(1, other)))
    )

    assert decoded["spec"]["ports"] == [
        {"name": "http", "port": 80, "targetPort": "web"},
        {"port": -1, "targetPort": 8080},
    ]


def test_quantities_times_and_extra_values_have_their_json_form() -> None:
    quota = text(2, entry(1, "pods", text(1, "10")))
    event = text(16, "") + text(10, whole(1, 1_700_000_000) + whole(2, 123_456_000))
    review = text(2, text(1, text(1, "ada") + entry(4, "scopes", text(1, "a") + text(1, "b"))))

    assert decode_body(body("v1", "ResourceQuota", meta("q") + quota))["spec"] == {
        "hard": {"pods": "10"}
    }
    assert decode_body(body("v1", "Event", event))["eventTime"] == "2023-11-14T22:13:20.123456Z"
    assert decode_body(body("authentication.k8s.io/v1", "SelfSubjectReview", review))["status"] == {
        "userInfo": {"username": "ada", "extra": {"scopes": ["a", "b"]}}
    }


def test_delete_options_are_known_in_every_group() -> None:
    options = whole(1, 0) + text(2, text(1, "uid-1")) + text(4, "Foreground")

    decoded = decode_body(body("policy/v1", "DeleteOptions", options))

    assert decoded["gracePeriodSeconds"] == 0
    assert decoded["preconditions"] == {"uid": "uid-1"}
    assert decoded["propagationPolicy"] == "Foreground"


def test_fields_of_a_later_release_are_skipped() -> None:
    config = meta("c") + text(900, "new") + whole(901, 7) + entry(2, "a", "b")

    assert decode_body(body("v1", "ConfigMap", config))["data"] == {"a": "b"}


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"{}", id="not protobuf"),
        pytest.param(MAGIC + b"\x0a\xff", id="cut off inside"),
        pytest.param(MAGIC + b"\x0b", id="a wire type that is not used"),
        pytest.param(body("example.com/v1", "Thing", b""), id="an unknown kind"),
        pytest.param(body("v1", "ConfigMap", whole(1, 5)), id="a number for a message"),
        pytest.param(body("v1", "ConfigMap", text(1, text(1, b"\xff"))), id="not UTF-8"),
        pytest.param(
            body("v1", "ConfigMap", text(1, text(8, whole(1, 1 << 60)))),
            id="a time beyond all time",
        ),
        pytest.param(
            body("apps/v1", "ControllerRevision", text(2, text(1, "{"))), id="broken JSON inside"
        ),
    ],
)
def test_what_cannot_be_decoded_is_refused(broken: bytes) -> None:
    with pytest.raises(NotDecodable):
        decode_body(broken)


@given(st.binary(max_size=200))
def test_no_body_does_worse_than_be_refused(raw: bytes) -> None:
    try:
        decoded = decode_body(body("apps/v1", "Deployment", raw))
    except NotDecodable:
        return

    assert decoded["kind"] == "Deployment"
