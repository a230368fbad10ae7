"""AdmissionReviews as bytes, and the server that answers them over HTTPS."""

import asyncio
import base64
import copy
import socket
import ssl
from io import BytesIO
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.server_tls import KeyPair, server_context
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, Deny, WebhookRule
from hanse.model.facts import Facts
from hanse.model.kinds.core import Secret
from hanse.model.objects import Meta, apply_merge_patch
from hanse.model.plan import Call, Read
from hanse.model.snapshot import ObjectChange, Snapshot
from hanse.web.webhooks.admission import InvalidReview, encode_response, json_patch, parse_request
from hanse.web.webhooks.server import LARGEST_BODY, WebhookServer, serving
from tinykube.json_patch import apply_json_patch
from tinykube.virtual_time import EPOCH


def review(**request: Any) -> bytes:
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "userInfo": {"username": "ada", "groups": ["staff"]},
            **request,
        },
    }
    return msgspec.json.encode(body)


def response(body: bytes) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(body)["response"]
    return decoded


def test_a_review_carries_the_user_and_the_operation() -> None:
    question = parse_request(review(object={"data": {"a": "1"}}, oldObject=None, dryRun=True))

    assert question.uid == "u-1"
    assert question.review == AdmissionRequest(
        "CREATE",
        "",
        "v1",
        "ConfigMap",
        object={"data": {"a": "1"}},
        user="ada",
        groups=("staff",),
        dry_run=True,
        uid="u-1",
    )


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half a document"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"kind":"AdmissionReview"}', id="no request"),
        pytest.param(
            review().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"), id="old version"
        ),
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidReview):
        parse_request(body)


def test_a_denial_carries_its_message() -> None:
    answer = response(
        encode_response(parse_request(review()), Deny("spec.type: may not change", 422))
    )

    assert answer == {
        "uid": "u-1",
        "allowed": False,
        "status": {"code": 422, "message": "spec.type: may not change"},
    }


def test_a_change_travels_as_a_json_patch() -> None:
    question = parse_request(review(object={"metadata": {"labels": {"a/b": "old"}}}))
    verdict = Allow({"metadata": {"labels": {"a/b": "new"}}}, warnings=("mind the label",))

    answer = response(encode_response(question, verdict))

    assert answer["warnings"] == ["mind the label"]
    assert msgspec.json.decode(base64.b64decode(answer["patch"])) == [
        {"op": "replace", "path": "/metadata/labels/a~1b", "value": "new"}
    ]


_names = st.text("ab/~", min_size=1, max_size=2)
_values: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(_names, inner, max_size=3),
    max_leaves=5,
)
_patches: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 2),
    lambda inner: st.dictionaries(_names, inner, max_size=3),
    max_leaves=5,
)


@given(
    target=st.dictionaries(_names, _values, max_size=3),
    change=st.dictionaries(_names, _patches, max_size=3),
)
def test_the_json_patch_does_what_the_merge_patch_says(target: Any, change: Any) -> None:
    operations = json_patch(target, change)

    assert apply_json_patch(copy.deepcopy(target), operations) == apply_merge_patch(target, change)


class Bouncer:
    name = "bouncer"
    rules = (WebhookRule(groups=("",), resources=("configmaps",)),)

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        if review.name == "broken":
            raise ZeroDivisionError
        return Allow() if review.user == "ada" else Deny("metadata.name: only ada may")


def nothing_seen() -> Snapshot:
    return Snapshot({}, Facts(), EPOCH, "lubeck")


async def nobody_asked(question: Read | Call) -> Snapshot:
    raise AssertionError(question)


async def test_a_certificate_with_another_key_does_not_replace_the_one_that_is_served() -> None:
    authority = CertificateAuthority.create("webhooks")
    first, second = authority.server("localhost"), authority.server("localhost")
    server = WebhookServer([Bouncer()], nothing_seen, nobody_asked, namespace="sys", secret="tls")
    client_side = ssl.create_default_context(cadata=authority.certificate.decode())
    listener = socket.create_server(("127.0.0.1", 0))

    async def certificate() -> bytes | None:
        _, writer = await asyncio.open_connection(
            "localhost", listener.getsockname()[1], ssl=client_side
        )
        tls = writer.get_extra_info("ssl_object")
        writer.close()
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(True)).encode()

    def store(issued: KeyPair) -> None:
        data = {"tls.crt": issued.certificate, "tls.key": issued.key}
        secret = Secret(metadata=Meta(name="tls", namespace="sys"), data=data)
        server.on_change(ObjectChange("lubeck", None, secret))

    store(first)
    async with server.running(listener):
        for half in (KeyPair(second.certificate, first.key), KeyPair(second.certificate, b"")):
            store(half)
            assert await certificate() == first.certificate
        store(second)
        assert await certificate() == second.certificate


async def test_the_server_answers_over_https_and_survives_what_it_is_sent() -> None:
    authority = CertificateAuthority.create("webhooks")
    server_side = server_context(authority.server("localhost"))
    client_side = ssl.create_default_context(cadata=authority.certificate.decode())
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with (
        serving([Bouncer()], nothing_seen, nobody_asked, listener, server_side),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client_side)) as session,
    ):
        url = f"https://localhost:{port}/bouncer"
        outcomes = []
        for body in (
            review(),
            review(userInfo={"username": "eve"}),
            review(name="broken"),
            b"?",
            b'{"request":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
            b" " * (LARGEST_BODY + 1),
            review(),
        ):
            async with session.post(url, data=BytesIO(body)) as review_response:
                text = await review_response.read()
                outcomes.append(
                    response(text)["allowed"]
                    if review_response.status == 200
                    else review_response.status
                )
        async with session.post(f"https://localhost:{port}/nobody", data=review()) as missing:
            assert missing.status == 404

    assert outcomes == [True, False, False, 400, 400, 413, True]
