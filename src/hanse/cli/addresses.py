"""Addresses in options: of name servers, to listen on, and of networks."""

import logging
import re
import socket
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TypeVar

from hanse.cli.errors import InputError

T = TypeVar("T")

log = logging.getLogger(__name__)


def parse_server_address(text: str, what: str = "") -> tuple[str, int]:
    """Host and port of `ADDRESS[:PORT]`, port 53 by default, IPv6 in brackets if with a port.

    Raises `InputError` for a host name or other text that is no IP address, and for a port outside
    1 to 65535. `what` precedes the text in the error.
    """
    host, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "53")
    if bracketed := re.fullmatch(r"\[([^]]*)](?::(.*))?", text):
        host, port = bracketed[1], bracketed[2] or "53"
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
    """The name servers of a --forward option: ADDRESS[:PORT], or those of a resolv.conf at a /path.

    Addresses of the file are not checked, lose a `%zone`, and get port 53; a file without
    nameserver lines gives an empty list and a logged warning. Raises `InputError` for other text
    that is no address, or an unreadable file.
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


def bind_listener(option: str, address: str, example: str = "0.0.0.0:8080") -> socket.socket:
    """A bound TCP socket, not listening yet, for ADDRESS:PORT, IPv6 in brackets.

    Raises `InputError`, naming the option, for other text or an address that cannot be bound.
    """
    return bind_address(option, address, example, _bind_tcp)


def bind_address(option: str, address: str, example: str, bind: Callable[[str, int], T]) -> T:
    """Call `bind` with host, without brackets, and port of an ADDRESS:PORT, and return its result.

    Raises `InputError`, naming the option, for other text, or if `bind` raises OSError. Whether the
    host is an IP address is left to `bind`.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{option} {address!r} is not ADDRESS:PORT; write it as {example}")
    try:
        return bind(host.removeprefix("[").removesuffix("]"), int(port))
    except OSError as error:
        why = error.strerror or "the address cannot be used"
        raise InputError(f"{option} {address}: {why}; choose another address or port") from None


def _bind_tcp(host: str, port: int) -> socket.socket:
    """A new TCP socket with SO_REUSEADDR, bound and not listening; IPv6 if the host has a colon.

    Raises OSError if the address cannot be used, after closing the socket.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def parse_network(
    option: str, text: str, example: str = "198.51.100.0/24", *, strict: bool = True
) -> str:
    """The network in CIDR notation; raises `InputError` for other text.

    An address alone is a network of one. Host bits that are set are an error with `strict`, and
    else cleared.
    """
    try:
        return str(ip_network(text, strict=strict))
    except ValueError:
        raise InputError(f"{option} {text!r} is no network; write it as {example}") from None
