"""Elements of nftables sets, changed over netlink: the cost is that of what changes.

libnftables reads all sets of a table before each command, which costs milliseconds and memory with
thousands of them. All changes of a call apply together or not at all.
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from hanse.features.networks.guard.transaction import ElementChange

_NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEW_ELEMENT, _DELETE_ELEMENT = (_SUBSYSTEM << 8) | 12, (_SUBSYSTEM << 8) | 14
_REQUEST, _ACK, _CREATE = 0x1, 0x4, 0x400
_ERROR = 2
_NESTED = 0x8000
_INET = 1
_GOTO = 0xFFFFFFFC
_TIMEOUT_SECONDS = 5.0
_MAX_REPLY = 65536


class NetlinkError(Exception):
    """A change that the kernel refused; the message says why."""


def change_elements(table: str, changes: Sequence[ElementChange]) -> None:
    """Add and remove elements of sets of an `inet` table in the kernel, all or none.

    Raises `NetlinkError` if the kernel refuses one, or does not answer within five seconds.
    """
    if not changes:
        return
    last = len(changes)
    messages = [
        _message(_BATCH_BEGIN, _REQUEST, 0, _header(0, _SUBSYSTEM)),
        *(
            _change_message(table, change, number, is_last=number == last)
            for number, change in enumerate(changes, 1)
        ),
        _message(_BATCH_END, _REQUEST, last + 1, _header(0, _SUBSYSTEM)),
    ]
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as kernel:
            kernel.bind((0, 0))
            kernel.settimeout(_TIMEOUT_SECONDS)
            kernel.send(b"".join(messages))
            _await_end(kernel, changes)
    except OSError as error:
        raise NetlinkError(f"netlink: {error}") from None


def _await_end(kernel: socket.socket, changes: Sequence[ElementChange]) -> None:
    """Read the kernel's answers up to that of the last change; raises the first error in them.

    That is a `NetlinkError`, or TimeoutError if the kernel does not answer.
    """
    errors: list[str] = []
    while True:
        for number, code in _answers(kernel.recv(_MAX_REPLY)):
            if code:
                named = f"{changes[number - 1].set} " if 0 < number <= len(changes) else ""
                errors.append(f"{named}{os.strerror(code)}")
            if number in (0, len(changes)) or number > len(changes):
                if errors:
                    raise NetlinkError(errors[0])
                return


def _answers(data: bytes) -> Iterator[tuple[int, int]]:
    """The sequence number of each message that is acknowledged, and its errno, 0 for success."""
    at = 0
    while at + 20 <= len(data):
        length, kind, _, number, _ = struct.unpack_from("=IHHII", data, at)
        if kind == _ERROR:
            yield number, -struct.unpack_from("=i", data, at + 16)[0]
        at += max(16, (length + 3) & ~3)


def _change_message(table: str, change: ElementChange, number: int, *, is_last: bool) -> bytes:
    """The netlink message that adds or deletes one address of a set or verdict map.

    The kernel acknowledges only the last; the others are answered only if they fail.
    """
    key = _nested(1, _attribute(1, ip_address(change.address).packed))
    data = b""
    kind, flags = _DELETE_ELEMENT, _REQUEST
    if change.add:
        kind, flags = _NEW_ELEMENT, _REQUEST | _CREATE
        if change.value:
            chain = change.value.removeprefix("goto ")
            verdict = _attribute(1, struct.pack("!I", _GOTO)) + _attribute(2, _text(chain))
            data = _nested(2, _nested(2, verdict))
    element = _nested(3, _nested(1, key + data))
    body = _attribute(1, _text(table)) + _attribute(2, _text(change.set)) + element
    flags |= _ACK if is_last else 0
    return _message(kind, flags, number, _header(_INET, 0) + body)


def _header(family: int, resource: int) -> bytes:
    """The header of a netfilter message: address family, version 0 and resource id."""
    return struct.pack("=BB", family, 0) + struct.pack("!H", resource)


def _message(kind: int, flags: int, number: int, body: bytes) -> bytes:
    """A netlink message with its header; `number` is its sequence number."""
    return struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    """A netlink attribute, padded to a multiple of four bytes."""
    padding = b"\0" * (-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), kind) + value + padding


def _nested(kind: int, value: bytes) -> bytes:
    """A netlink attribute that contains attributes."""
    return _attribute(kind | _NESTED, value)


def _text(text: str) -> bytes:
    """A text as netlink has it, with a final NUL."""
    return text.encode() + b"\0"
