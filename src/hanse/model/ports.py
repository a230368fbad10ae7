"""Names of ports in Services that are merged from several: generated, valid and unique."""

from collections.abc import Container

MAX_PORT_NAME_LENGTH = 63


def default_port_name(protocol: str, number: int) -> str:
    """The name of a port that has none, such as `tcp-80`."""
    return f"{protocol.lower()}-{number}"


def unused_port_name(name: str, used: Container[str]) -> str:
    """The name, with as many prefixes `p-` as it takes to differ from those used; cut to 63."""
    while name in used:
        name = f"p-{name}"[:MAX_PORT_NAME_LENGTH]
    return name
