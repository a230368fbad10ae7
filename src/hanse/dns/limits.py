"""How many answers one network gets per second, so that nobody is flooded in another's name."""

from collections.abc import Callable

MOST_NETWORKS = 65_536
SLIP = 2
"""Of the answers that are held back, one in so many is sent cut short."""

_V4, _LOOPBACK = 4, 127
_LOOPBACK_V6 = bytes((*[0] * 15, 1))


class Limiter:
    """Counts answers by network (/24 of IPv4, /56 of IPv6), anew in each second."""

    def __init__(self, per_second: int, clock: Callable[[], float]) -> None:
        self.dropped = 0
        self._per_second = per_second
        self._clock = clock
        self._second = -1
        self._given: dict[bytes, int] = {}

    def allows(self, client: bytes) -> bool:
        """Whether one more answer may go to an address, packed; loopback is never limited."""
        network = client_network(client)
        if client == _LOOPBACK_V6 or (client[0] == _LOOPBACK and len(client) == _V4):
            return True
        second = int(self._clock())
        if second != self._second or len(self._given) >= MOST_NETWORKS:
            self._second = second
            self._given.clear()
        given = self._given.get(network, 0) + 1
        self._given[network] = given
        if given <= self._per_second:
            return True
        self.dropped += 1
        return False

    @property
    def sends_truncated(self) -> bool:
        """Whether this time the client is told to come by TCP instead of being left in silence."""
        return self.dropped % SLIP == 0


def client_network(client: bytes) -> bytes:
    """The network of a packed address, as it counts for limits."""
    return client[:3] if len(client) == _V4 else client[:7]
