"""What a bearer token says of itself: whose it is, and from when to when it holds; pure."""

import base64
import binascii
from datetime import UTC, datetime

import msgspec
from msgspec import Struct


class TokenClaims(Struct, frozen=True):
    """The parts of a web token that we read; its signature is its server's to judge."""

    subject: str
    issued: datetime | None
    expires: datetime | None


class _Payload(Struct, frozen=True):
    sub: str = ""
    iat: float | None = None
    exp: float | None = None


def parse_claims(token: str) -> TokenClaims | None:
    """What a token says of itself; None where it is no web token."""
    match token.split("."):
        case [_, payload, _]:
            try:
                padded = payload + "=" * (-len(payload) % 4)
                told = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Payload)
                return TokenClaims(told.sub, _moment(told.iat), _moment(told.exp))
            except (binascii.Error, msgspec.DecodeError, ValueError, OverflowError, OSError):
                return None
        case _:
            return None


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
