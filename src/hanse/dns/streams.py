"""DNS over TCP: questions one after another on a connection, with limits on what one may hold."""

from collections.abc import Callable
from socket import socket

LONGEST_BACKLOG = 256 * 1024
"""Bytes of answers a client may leave unread before we stop reading its questions."""


class Connection:
    """One client's connection; everything is done in small steps that never wait."""

    def __init__(self, sock: socket, view: str, now: float, client: str = "") -> None:
        self.sock = sock
        self.view = view
        self.client = client
        self.active = now
        self.ended = False
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def read(self, answer: Callable[[bytes], bytes | None], now: float) -> None:
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
        self.write()

    def _answer(self, answer: Callable[[bytes], bytes | None], now: float) -> None:
        incoming = self._incoming
        at = 0
        while len(incoming) - at >= 2 and not self.ended:
            length = int.from_bytes(incoming[at : at + 2])
            if len(incoming) - at < 2 + length:
                break
            response = answer(bytes(incoming[at + 2 : at + 2 + length]))
            at += 2 + length
            if response is None:  # nothing sensible can follow what was no question at all
                self.ended = True
            else:
                self.active = now
                self._outgoing += len(response).to_bytes(2) + response
        del incoming[:at]

    def write(self) -> None:
        """Send as much as the client takes."""
        if not self._outgoing:
            return
        try:
            sent = self.sock.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError:
            self.ended = True
            self._outgoing.clear()
            return
        del self._outgoing[:sent]

    @property
    def has_more(self) -> bool:
        """Whether answers wait for the client."""
        return bool(self._outgoing)

    @property
    def is_full(self) -> bool:
        """Whether the client must read before it may ask on."""
        return len(self._outgoing) > LONGEST_BACKLOG
