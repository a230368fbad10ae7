"""The settings of a DNS server."""

from msgspec import Struct


class ServerSettings(Struct, frozen=True):
    """The settings of a server."""

    per_second: int = 20_000
    """Responses per second to one client network, except on loopback; 0: no limit."""
    most_connections: int = 256
    idle_seconds: float = 10.0
    log_every: int = 0
    """One query in so many is logged; 0: none."""
    forward: tuple[tuple[str, int], ...] = ()
    """Upstream name servers for other zones; without any, other zones are refused."""
