"""Response rate limiting by client network, against reflection attacks."""

from collections.abc import Callable

MAX_NETWORKS = 65_536
SLIP = 2
"""One in so many limited responses is sent truncated instead of dropped."""

_V4, _LOOPBACK = 4, 127
_LOOPBACK_V6 = bytes((*[0] * 15, 1))


class Limiter:
    """Counts responses per second and network (/24 of IPv4, /56 of IPv6)."""

    def __init__(self, per_second: int, clock: Callable[[], float]) -> None:
        """Allow `per_second` responses to each network; `clock` gives seconds."""
        self.dropped = 0
        self._per_second = per_second
        self._clock = clock
        self._second = -1
        self._sent: dict[bytes, int] = {}

    def allows(self, client: bytes) -> bool:
        """Count a response to a packed client address; False, counted in `dropped`, over the limit.

        Counts are kept for each client network, and cleared every second or if there are too many;
        loopback is never limited.
        """
        network = client_network(client)
        if client == _LOOPBACK_V6 or (client[0] == _LOOPBACK and len(client) == _V4):
            return True
        second = int(self._clock())
        if second != self._second or len(self._sent) >= MAX_NETWORKS:
            self._second = second
            self._sent.clear()
        sent = self._sent.get(network, 0) + 1
        self._sent[network] = sent
        if sent <= self._per_second:
            return True
        self.dropped += 1
        return False

    @property
    def sends_truncated(self) -> bool:
        """Whether the response last refused by `allows` is sent empty with TC, not dropped.

        That is every second one of those refused; the client then retries by TCP.
        """
        return self.dropped % SLIP == 0


def client_network(client: bytes) -> bytes:
    """The network of a packed address that limits apply to: its first 24 bits, of IPv6 56."""
    return client[:3] if len(client) == _V4 else client[:7]
