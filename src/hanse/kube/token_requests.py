"""TokenRequests: how a new token of a ServiceAccount is asked for, and read from the answer."""

import msgspec
from msgspec import Struct

from hanse.kube.decoding import unexpected_response
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request, Response
from hanse.model.json_input import decode_json
from hanse.model.manifests import SERVICE_ACCOUNT


class _TokenStatus(Struct, frozen=True):
    token: str = ""


class _TokenAnswer(Struct, frozen=True):
    """The answer to a TokenRequest, as far as it is read."""

    status: _TokenStatus = _TokenStatus()


def token_request(namespace: str, account: str, seconds: int) -> Request:
    """The request for a new token of a ServiceAccount that is valid for so many seconds."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    path = resource_path(SERVICE_ACCOUNT, namespace, account, "token")
    return Request("POST", path, body=msgspec.json.encode(body))


def issued_token(answer: Response) -> str:
    """The token in the successful answer to a `token_request`; "" if it holds none.

    Raises `Unreachable` for an answer that is not an API server's.
    """
    try:
        return decode_json(answer.body, type=_TokenAnswer).status.token
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
