"""Authentication of the dashboard: a token in a cookie, and one-time codes that set it."""

import hmac
import secrets
import time
from collections.abc import Callable

from hanse.web.dashboard.viewers import Viewer

COOKIE = "hanse_dashboard"
CODE_LIFETIME = 600.0
"""Seconds in which a code can be redeemed."""
MAX_CODES = 16


class Authenticator:
    """The token of one dashboard, which is never in a URL, and its one-time codes."""

    def __init__(self, token: str = "", now: Callable[[], float] = time.monotonic) -> None:
        """Without a token a random one is made; `now` is a clock in seconds, for the codes."""
        self._token = token or secrets.token_urlsafe(32)
        self._now = now
        self._codes: dict[str, float] = {}

    @property
    def token(self) -> str:
        """The token, as it was given or made at random."""
        return self._token

    def issue_code(self) -> str:
        """A new code, valid once and for ten minutes; with `MAX_CODES` the oldest is dropped."""
        while len(self._codes) >= MAX_CODES:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(16)
        self._codes[code] = self._now() + CODE_LIFETIME
        return code

    def redeem(self, code: str) -> str | None:
        """The cookie's value for a valid code, which is used up by this; None for others."""
        expires = self._codes.pop(code, None)
        return self._token if expires is not None and self._now() < expires else None

    async def admit(self, token: str) -> str | None:
        """The cookie's value, which is the token, for who has the token; None for others."""
        return self._token if self.is_valid(token) else None

    async def viewer(self, credential: str) -> Viewer | None:
        """A viewer who sees everything, for who has the token; None for others."""
        return Viewer() if self.is_valid(credential) else None

    def is_valid(self, token: str) -> bool:
        """Whether a token is this dashboard's."""
        return hmac.compare_digest(token.encode(), self._token.encode())
