"""Addresses of servers as people give them."""

from ipaddress import ip_address

from hanse.cli.oops import Oops


def server_address(text: str, what: str = "") -> tuple[str, int]:
    """Host and port of `ADDRESS` or `ADDRESS:PORT`, IPv6 in brackets; raises `Oops`."""
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
        raise Oops(f"{named} is not ADDRESS or ADDRESS:PORT; names of servers are not looked up")
    return host, int(port)
