"""Addresses in options: of name servers, and to listen on."""

import logging
import socket
from ipaddress import ip_address
from pathlib import Path

from hanse.cli.errors import InputError

log = logging.getLogger(__name__)


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


def parse_forward(option: str) -> list[tuple[str, int]]:
    """The name servers of a --forward option: an address, or a path of a resolv.conf.

    One without nameserver lines gives none, which is logged: nodes without a network have such a
    file, and our own names are answered there. Raises `InputError` for an invalid address or an
    unreadable file.
    """
    if not option.startswith("/"):
        return [parse_server_address(option, "--forward")]
    try:
        lines = Path(option).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InputError(f"--forward {option}: {why}; name a readable resolv.conf") from None
    words = [line.split() for line in lines]
    named = [w[1] for w in words if len(w) > 1 and w[0] == "nameserver"]
    if not named:
        log.warning("--forward %s has no nameserver: other zones are refused", option)
    return [(address.partition("%")[0], 53) for address in named]


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
