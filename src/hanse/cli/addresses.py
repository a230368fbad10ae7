"""Addresses in options: of name servers, and to listen on."""

import socket
from ipaddress import ip_address

from hanse.cli.errors import InputError


def parse_server_address(text: str, what: str = "") -> tuple[str, int]:
    """Host and port of `ADDRESS[:PORT]`, port 53 by default, IPv6 in brackets if with a port.

    Raises `InputError` for a host name: only IP addresses are accepted. `what` precedes it in the
    error.
    """
    host, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "53")
    if text.startswith("["):
        host, _, port = text.removeprefix("[").partition("]")
        port = port.removeprefix(":") or "53"
    try:
        ip_address(host)
        ok = port.isdecimal() and 0 < int(port) < 65536
    except ValueError:
        ok = False
    if not ok:
        named = f"{what} {text!r}" if what else repr(text)
        raise InputError(
            f"{named} is not ADDRESS or ADDRESS:PORT; names of servers are not looked up"
        )
    return host, int(port)


def bind_listener(option: str, address: str) -> socket.socket:
    """A bound TCP socket, not listening yet, for ADDRESS:PORT, IPv6 in brackets.

    Raises `InputError`, naming the option, for other text or an address that cannot be bound.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{option} {address!r} is not ADDRESS:PORT; write it as 0.0.0.0:8080")
    bare = host.removeprefix("[").removesuffix("]")
    bound = socket.socket(socket.AF_INET6 if ":" in bare else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((bare, int(port)))
    except OSError as error:
        bound.close()
        why = error.strerror or "the address cannot be used"
        raise InputError(f"{option} {address}: {why}; choose another address or port") from None
    return bound
