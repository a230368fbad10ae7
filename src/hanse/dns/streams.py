"""DNS over TCP: questions one after another on a connection, with limits on what one may hold."""

from collections.abc import Callable, Iterator
from socket import socket

LONGEST_BACKLOG = 256 * 1024
"""Bytes of answers a client may leave unread before we stop reading its questions."""

PIECE = 64 * 1024
"""Bytes of a transfer that wait for the client; the rest is not made yet."""

StreamResponder = Callable[[bytes], bytes | Iterator[bytes] | None]
"""An answer, or several; empty: later; None: never."""


def _nothing(_: bytes) -> None:
    """Until somebody has asked."""


class Connection:
    """One client's connection; everything is done in small steps that never wait."""

    def __init__(self, sock: socket, view: str, now: float, client: str = "") -> None:
        self.sock = sock
        self.view = view
        self.client = client
        self.active = now
        self.ended = False
        self._transfer: Iterator[bytes] | None = None
        self._after: StreamResponder = _nothing
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def read(self, answer: StreamResponder, now: float) -> None:
        """Take what has come in, and answer every whole question in it."""
        try:
            told = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            told = b""
        if not told:
            self.ended = True
            return
        self._incoming += told
        self._answer(answer, now)
        self.write(now)

    def _answer(self, answer: StreamResponder, now: float) -> None:
        incoming = self._incoming
        at = 0
        while len(incoming) - at >= 2 and not self.ended and self._transfer is None:
            length = int.from_bytes(incoming[at : at + 2])
            if len(incoming) - at < 2 + length:
                break
            response = answer(bytes(incoming[at + 2 : at + 2 + length]))
            at += 2 + length
            if response == b"":  # it is answered later, by `tell`
                self.active = now
            elif response is None:  # nothing sensible can follow what was no question at all
                self.ended = True
            elif isinstance(response, bytes):
                self.active = now
                self._outgoing += len(response).to_bytes(2) + response
            else:
                self._transfer, self._after = response, answer
        del incoming[:at]

    def tell(self, response: bytes, now: float) -> None:
        """Send an answer that took its time."""
        self.active = now
        self._outgoing += len(response).to_bytes(2) + response
        self.write(now)

    def _refill(self, now: float) -> None:
        """Go on with a transfer, a piece at a time, and with what was asked after it."""
        while self._transfer is not None and len(self._outgoing) < PIECE:
            self.active = now
            message = next(self._transfer, None)
            if message is None:
                self._transfer = None
                self._answer(self._after, now)
            else:
                self._outgoing += len(message).to_bytes(2) + message

    def write(self, now: float) -> None:
        """Send as much as the client takes."""
        self._refill(now)
        if not self._outgoing:
            return
        try:
            sent = self.sock.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError:
            self.ended = True
            self._transfer = None
            self._outgoing.clear()
            return
        del self._outgoing[:sent]

    def close(self) -> None:
        """Let go of the socket, and of what would go on from here."""
        self._transfer, self._after = None, _nothing
        self.sock.close()

    @property
    def has_pending(self) -> bool:
        """Whether answers wait for the client."""
        return bool(self._outgoing) or self._transfer is not None

    @property
    def is_backlogged(self) -> bool:
        """Whether the client must read before it may ask on."""
        return len(self._outgoing) > LONGEST_BACKLOG or self._transfer is not None
