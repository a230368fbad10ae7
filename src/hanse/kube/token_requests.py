"""TokenRequests: how a new token of a ServiceAccount is asked for, and read from the answer."""

import re

import msgspec
from msgspec import Struct

from hanse.kube.decoding import unexpected_response
from hanse.kube.errors import BadCredentials
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request, Response
from hanse.model.json_input import decode_json
from hanse.model.manifests import SERVICE_ACCOUNT
from hanse.model.objects import Wire
from hanse.model.tokens import BoundSecret

_BEARER_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}={0,2}", re.ASCII)
"""As RFC 6750 has it."""


class _TokenStatus(Struct, frozen=True):
    token: str = ""


class _TokenAnswer(Struct, frozen=True):
    """The answer to a TokenRequest, as far as it is read."""

    status: _TokenStatus = _TokenStatus()


def token_request(
    namespace: str, account: str, seconds: int, bound: BoundSecret | None = None
) -> Request:
    """The request for a new token of a ServiceAccount that is valid for so many seconds.

    With `bound` it ends with that Secret, too, which is in the namespace of the account.
    """
    spec: Wire = {"expirationSeconds": seconds}
    if bound is not None:
        place = {"name": bound.name, "uid": bound.uid}
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", **place}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = resource_path(SERVICE_ACCOUNT, namespace, account, "token")
    return Request("POST", path, body=msgspec.json.encode(body))


def issued_token(answer: Response) -> str:
    """The token in the successful answer to a `token_request`; "" if it holds none.

    Raises `Unreachable` for an answer that is not an API server's, and `BadCredentials` for a text
    that is no bearer token: it is put into kubeconfigs, beside credentials for other clusters.
    """
    try:
        token = decode_json(answer.body, type=_TokenAnswer).status.token
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
    if token and not _BEARER_TOKEN.fullmatch(token):
        raise BadCredentials("the API server issued a text that is no token")
    return token
