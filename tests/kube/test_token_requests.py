"""What an API server answers to a TokenRequest is a token, or nothing that we keep."""

import msgspec
import pytest

from hanse.kube.errors import KubeError
from hanse.kube.token_requests import issued_token
from hanse.kube.transport import Response

PAYLOAD = "eyJzdWIiOiJ4In0"


def answer(token: object) -> Response:
    return Response(201, msgspec.json.encode({"status": {"token": token}}))


@pytest.mark.parametrize("token", [f"eyJhbGci.{PAYLOAD}.c2ln-_", "opaque", "a/b+c~d=="])
def test_a_token_is_taken_as_it_is(token: str) -> None:
    assert issued_token(answer(token)) == token


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(f'x.{PAYLOAD}.y"}}}}], "users": [{{"name": "z"', id="JSON"),
        pytest.param(f"x.{PAYLOAD}.y\n    exec: {{command: sh}}", id="YAML"),
        pytest.param(f"x .{PAYLOAD}.y", id="a space"),
        pytest.param(f"x.{PAYLOAD}.y\r\nHost: elsewhere", id="a header"),
        pytest.param(f"é.{PAYLOAD}.y", id="another alphabet"),
        pytest.param("x" * 100_000, id="endless"),
    ],
)
def test_what_would_change_the_kubeconfig_that_it_is_put_into_is_refused(token: str) -> None:
    """Agents put tokens of other clusters, as text, beside those of more clusters."""
    with pytest.raises(KubeError, match="no token"):
        issued_token(answer(token))


def test_an_answer_without_a_token_has_none() -> None:
    assert issued_token(answer("")) == ""
