"""The claims of a bearer token (JWT): subject, time of issue and expiry."""

import base64
import binascii
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from hanse.model.json_input import decode_json


class TokenClaims(Struct, frozen=True):
    """The claims of a JWT that we use; the signature is not verified."""

    subject: str
    issued: datetime | None
    expires: datetime | None


class _Payload(Struct, frozen=True):
    sub: str = ""
    iat: float | None = None
    exp: float | None = None


def parse_claims(token: str) -> TokenClaims | None:
    """Parse the claims of a token; None if it is not a JWT."""
    match token.split("."):
        case [_, payload, _]:
            try:
                padded = payload + "=" * (-len(payload) % 4)
                claims = decode_json(base64.urlsafe_b64decode(padded), type=_Payload)
                return TokenClaims(claims.sub, _timestamp(claims.iat), _timestamp(claims.exp))
            except (binascii.Error, msgspec.DecodeError, ValueError, OverflowError, OSError):
                return None
        case _:
            return None


def _timestamp(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
