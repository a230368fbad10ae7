"""What peers and people put into Secrets, templates and reviews ends in one sentence, and soon."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.federated import records as member_records
from hanse.features.federated.names import ORIGIN
from hanse.features.federated.slices import slice_origin
from hanse.features.networks.tenants import InvalidTemplate, default_network
from hanse.features.services import records as export_records
from hanse.features.services.names import RECORD
from hanse.kube.credentials import config_from_kubeconfig
from hanse.kube.errors import BadCredentials
from hanse.model.internal_addresses import INTERNAL_ADDRESSES, decode_addresses
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER_KEY
from hanse.runtime.ownership import owner_of
from hanse.web.webhooks.admission import InvalidReview, parse_request
from tests.support.builders import annotated, configmap

BOMB = "\n".join(
    ["a0: &a0 [x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    + ["metadata: {name: default}", "spec: {type: flat, x: *a9}", ""]
)
DEEP = '{"a":' * 50_000 + "1" + "}" * 50_000
HOSTILE = [
    pytest.param(BOMB, id="aliases"),
    pytest.param(DEEP, id="50,000 levels"),
    pytest.param("[" * 50_000, id="50,000 open lists"),
    pytest.param("a: &a [*a]", id="an alias of itself"),
    pytest.param("2001-99-99", id="no date"),
    pytest.param("\0", id="a zero byte"),
]
TEXT = st.text(max_size=80) | st.binary(max_size=80).map(lambda raw: raw.decode("latin-1"))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_kubeconfig_in_a_secret(text: str) -> None:
    with pytest.raises(BadCredentials) as caught:
        config_from_kubeconfig(text.encode(), origin="secret a/b")

    assert "secret a/b" in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", HOSTILE)
def test_the_template_of_a_network(text: str) -> None:
    with pytest.raises(InvalidTemplate):
        default_network(text, "acme")


@pytest.mark.parametrize("text", [DEEP, "[" * 50_000, "", "{}"])
def test_an_admission_review(text: str) -> None:
    with pytest.raises(InvalidReview):
        parse_request(text.encode())


@pytest.mark.parametrize("text", [DEEP, "[" * 50_000, "", "{}"])
def test_the_owner_that_an_object_claims(text: str) -> None:
    claimed = annotated(configmap("web"), {OWNER_KEY: text})

    assert owner_of(claimed) is None


DEEP_FIELD = f'{{"of-no-version": {DEEP}}}'
"""A record with one more field than is known, which readers skip."""


@pytest.mark.parametrize("text", [DEEP_FIELD, DEEP, "[" * 50_000, "{"])
def test_records_of_a_peer_on_the_broker_and_in_slices(text: str) -> None:
    annotations = {RECORD: text, ORIGIN: text, INTERNAL_ADDRESSES: f"[{text}]"}
    theirs = EndpointSlice(
        metadata=Meta(name="theirs", annotations=annotations), address_type="IPv4"
    )

    assert export_records.decode_record(theirs) is None
    assert not export_records.has_newer_schema(theirs)
    assert slice_origin(theirs) is None
    assert decode_addresses(annotations) == ()


@pytest.mark.parametrize("text", [DEEP_FIELD, DEEP, "[" * 50_000, "{"])
def test_a_record_of_a_member_of_a_federation(text: str) -> None:
    theirs = replace(configmap("theirs"), data={member_records.MEMBER: text})

    assert member_records.read_record(theirs, "bergen") is None
    assert not member_records.has_newer_schema(theirs)


@given(TEXT)
@settings(max_examples=200)
def test_any_text_is_a_result_or_the_error_of_its_parser(text: str) -> None:
    parsers: list[tuple[Any, type[Exception]]] = [
        (lambda: config_from_kubeconfig(text.encode(), origin="x"), BadCredentials),
        (lambda: default_network(text, "acme"), InvalidTemplate),
        (lambda: parse_request(text.encode()), InvalidReview),
    ]
    for parse, expected in parsers:
        try:
            parse()
        except expected:
            continue
