"""Who may look: a token kept in a cookie, and codes that get one into a browser once."""

import hmac
import secrets
import time
from collections.abc import Callable

COOKIE = "hanse_dashboard"
CODE_LIFETIME = 600.0
"""Seconds in which a code opens the door."""
MAX_CODES = 16


class Authenticator:
    """The token of one dashboard, which no URL ever holds."""

    def __init__(self, token: str = "", now: Callable[[], float] = time.monotonic) -> None:
        self._token = token or secrets.token_urlsafe(32)
        self._now = now
        self._codes: dict[str, float] = {}

    @property
    def token(self) -> str:
        return self._token

    def code(self) -> str:
        """A new code, good once and for some minutes; the oldest goes when there are too many."""
        while len(self._codes) >= MAX_CODES:
            del self._codes[next(iter(self._codes))]
        made = secrets.token_urlsafe(16)
        self._codes[made] = self._now() + CODE_LIFETIME
        return made

    def redeem(self, code: str) -> bool:
        """Whether a code opens the door; it does so once."""
        until = self._codes.pop(code, None)
        return until is not None and self._now() < until

    def knows(self, token: str) -> bool:
        """Whether a token is the one."""
        return hmac.compare_digest(token.encode(), self._token.encode())
