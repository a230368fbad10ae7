"""How CoreDNS hands our zone over to us."""

from collections.abc import Sequence


def server_block(zone: str, servers: Sequence[str]) -> str:
    """A server block for a Corefile: every question about the zone goes to these servers.

    Answers are kept for as long as their own few seconds and no longer, and the order of records
    is left as it comes: both are ours to decide.
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
