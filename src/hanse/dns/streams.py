"""DNS over TCP: pipelined queries on non-blocking connections with bounded buffers."""

from collections.abc import Callable, Iterator
from socket import socket

from hanse.dns.messages import ListeningSocket

MAX_BACKLOG = 256 * 1024
"""Bytes of unread responses at which the server stops reading a client's queries."""

TRANSFER_BUFFER = 64 * 1024
"""Bytes of a transfer that are buffered; the rest is built as the client reads."""

StreamResponder = Callable[[bytes], bytes | Iterator[bytes] | None]
"""Responds to a query: with one message or several; empty: later; None: never."""


def _no_responder(_: bytes) -> None:
    """Return None for every query: the responder before the first transfer."""


class TcpConnection:
    """One client's connection; no method blocks."""

    def __init__(
        self, sock: socket, listening: ListeningSocket, now: float, client: str = ""
    ) -> None:
        """Take over an accepted, non-blocking socket; `client` is its address, as text."""
        self.sock = sock
        self.listening = listening
        self.client = client
        self.active = now
        self.ended = False
        self._awaited = 0
        self._transfer: Iterator[bytes] | None = None
        self._responder: StreamResponder = _no_responder
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def read(self, answer: StreamResponder, now: float) -> None:
        """Read what has arrived, in one call, and write responses to whole queries.

        EOF, an error, or a query that must not get a response sets `ended`; nothing is closed. No
        effect if nothing has arrived.
        """
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return
        self._incoming += data
        self._respond(answer, now)
        self.write(now)

    def _respond(self, answer: StreamResponder, now: float) -> None:
        """Buffer responses to whole queries in the input, and remove these from it.

        It stops at a zone transfer; a query that must not get a response sets `ended`. An empty
        response is awaited: `send` gives it later.
        """
        incoming = self._incoming
        at = 0
        while len(incoming) - at >= 2 and not self.ended and self._transfer is None:
            length = int.from_bytes(incoming[at : at + 2])
            if len(incoming) - at < 2 + length:
                break
            response = answer(bytes(incoming[at + 2 : at + 2 + length]))
            at += 2 + length
            if response == b"":  # the response follows later, by `send`
                self.active = now
                self._awaited += 1
            elif response is None:  # what follows a malformed query cannot be parsed
                self.ended = True
            elif isinstance(response, bytes):
                self.active = now
                self._outgoing += len(response).to_bytes(2) + response
            else:
                self._transfer, self._responder = response, answer
        del incoming[:at]

    def send(self, response: bytes, now: float) -> None:
        """Buffer a response that was not ready at once, and write what the socket takes."""
        self.active = now
        self._awaited -= 1
        self._outgoing += len(response).to_bytes(2) + response
        self.write(now)

    def _refill(self, now: float) -> None:
        """Buffer more of a running transfer, and after its end respond to the queries behind it.

        It stops once TRANSFER_BUFFER bytes wait to be written.
        """
        while self._transfer is not None and len(self._outgoing) < TRANSFER_BUFFER:
            self.active = now
            message = next(self._transfer, None)
            if message is None:
                self._transfer = None
                self._respond(self._responder, now)
            else:
                self._outgoing += len(message).to_bytes(2) + message

    def write(self, now: float) -> None:
        """Write as much as the socket takes; an error sets `ended` and drops the rest.

        More of a running transfer is buffered first.
        """
        self._refill(now)
        if not self._outgoing:
            return
        try:
            sent = self.sock.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError:
            self.ended = True
            self._awaited, self._transfer = 0, None
            self._outgoing.clear()
            return
        del self._outgoing[:sent]

    def close(self) -> None:
        """Close the socket and drop a running transfer."""
        self._transfer, self._responder = None, _no_responder
        self.sock.close()

    @property
    def has_pending(self) -> bool:
        """Whether there is more to write."""
        return bool(self._outgoing) or self._transfer is not None

    @property
    def is_finished(self) -> bool:
        """Whether the client sends no more queries, and has all its responses.

        One that shut down its side of the connection still reads the responses it waits for.
        """
        return self.ended and not self._awaited and not self.has_pending

    @property
    def is_backlogged(self) -> bool:
        """Whether the client must read before more queries are read.

        It must while a transfer runs, and with more than `MAX_BACKLOG` bytes to write.
        """
        return len(self._outgoing) > MAX_BACKLOG or self._transfer is not None
