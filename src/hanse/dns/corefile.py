"""The Corefile server block by which CoreDNS forwards a zone to this server."""

from collections.abc import Sequence


def server_block(zone: str, servers: Sequence[str]) -> str:
    """A server block that forwards all queries for the zone to these servers, round robin.

    Servers are checked every second by the name `dns-version.ZONE`. It has neither `cache` nor
    `loadbalance`: TTLs and the order of records are this server's.
    """
    return (
        f"{zone}:53 {{\n"
        "    errors\n"
        f"    forward . {' '.join(servers)} {{\n"
        "        policy round_robin\n"
        "        health_check 1s domain dns-version." + zone + "\n"
        "    }\n"
        "}\n"
    )
