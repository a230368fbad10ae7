"""Names of ports in Services that are merged from several: generated, valid and unique."""

from collections.abc import Container, Iterator
from itertools import count

MAX_PORT_NAME_LENGTH = 63


def default_port_name(protocol: str, number: int) -> str:
    """The name of a port that has none, such as `tcp-80`."""
    return f"{protocol.lower()}-{number}"


def unused_port_name(name: str, used: Container[str]) -> str:
    """The name, with as many prefixes `p-` as it takes to differ from those used; cut to 63.

    If all of those are used, `p-` and a number.
    """
    return next(candidate for candidate in _candidates(name) if candidate not in used)


def _candidates(name: str) -> Iterator[str]:
    """The name, the name with more and more prefixes until it is all prefixes, and numbers."""
    for prefixes in range(MAX_PORT_NAME_LENGTH // 2 + 1):
        yield ("p-" * prefixes + name)[:MAX_PORT_NAME_LENGTH].rstrip("-")
    for number in count():
        yield f"p-{number}"
