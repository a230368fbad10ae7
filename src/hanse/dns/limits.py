"""How many answers one network gets per second, so that nobody is flooded in another's name."""

from collections.abc import Callable

MOST_NETWORKS = 65_536
SLIP = 2
"""Of the answers that are held back, one in so many is sent cut short."""


class Limiter:
    """Counts answers by network (/24 of IPv4, /56 of IPv6), anew in each second."""

    def __init__(self, per_second: int, clock: Callable[[], float]) -> None:
        self.held_back = 0
        self._per_second = per_second
        self._clock = clock
        self._second = -1
        self._given: dict[str, int] = {}

    def allows(self, client: str) -> bool:
        """Whether one more answer may go to a client; loopback is never limited."""
        if client.startswith("127.") or client == "::1":
            return True
        second = int(self._clock())
        if second != self._second or len(self._given) >= MOST_NETWORKS:
            self._second = second
            self._given.clear()
        network = network_of(client)
        given = self._given.get(network, 0) + 1
        self._given[network] = given
        if given <= self._per_second:
            return True
        self.held_back += 1
        return False

    @property
    def slips(self) -> bool:
        """Whether this time the client is told to come by TCP instead of being left in silence."""
        return self.held_back % SLIP == 0


def network_of(client: str) -> str:
    """The network of a client, as it counts for limits."""
    if ":" not in client:
        return client.rpartition(".")[0]
    groups = client.partition("%")[0].split("::")[0].split(":")
    whole = [group.zfill(4) for group in (*groups, "", "", "", "")[:4]]
    return ":".join(whole)[:-2]
