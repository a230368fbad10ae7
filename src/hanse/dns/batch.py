"""Many datagrams by one call of the kernel: `recvmmsg` and `sendmmsg`, which sockets here lack.

An answer is written where its question was: its id and its client's address stand there already.
Where such calls are forbidden, or are none, datagrams come and go one by one.
"""

import ctypes
import errno
import sys
from ctypes import Structure, byref, c_int, c_size_t, c_ssize_t, c_uint, c_void_p, sizeof
from socket import AF_INET, inet_ntop

MOST = 64
"""Datagrams of one batch, after which other sockets get their turn."""

LARGEST = 4096
"""Bytes that are read of a datagram."""

Client = tuple[str, int] | tuple[str, int, int, int]
"""An address as sockets take it."""


class _Piece(Structure):
    """`struct iovec`: where the bytes of a datagram are."""

    _fields_ = (("base", c_void_p), ("size", c_size_t))


class _Header(Structure):
    """`struct msghdr`: whose datagram it is, and where."""

    _fields_ = (
        ("name", c_void_p),
        ("name_size", c_uint),
        ("pieces", c_void_p),
        ("piece_count", c_size_t),
        ("control", c_void_p),
        ("control_size", c_size_t),
        ("flags", c_int),
    )


class _Message(Structure):
    """`struct mmsghdr`: one of many datagrams, and how long it was."""

    _fields_ = (("header", _Header), ("length", c_uint))


_libc = ctypes.CDLL(None, use_errno=True)
_receive_one = _libc.recvfrom
_receive_one.argtypes = (c_int, c_void_p, c_size_t, c_int, c_void_p, c_void_p)
_receive_one.restype = c_ssize_t
_send_one = _libc.sendto
_send_one.argtypes = (c_int, c_void_p, c_size_t, c_int, c_void_p, c_uint)
_send_one.restype = c_ssize_t
TOGETHER = hasattr(_libc, "recvmmsg") and hasattr(_libc, "sendmmsg")
"""Whether this system has calls for many datagrams."""
if TOGETHER:
    _receive = _libc.recvmmsg
    _receive.argtypes = (c_int, c_void_p, c_uint, c_int, c_void_p)
    _send = _libc.sendmmsg
    _send.argtypes = (c_int, c_void_p, c_uint, c_int)
_FORBIDDEN = (errno.ENOSYS, errno.EPERM)


class Batch:
    """Room for datagrams of one address family, of any socket; what it holds is of the last one.

    The kernel writes how long a client's address is, which is the same for all of a family.
    """

    def __init__(self, family: int, *, together: bool = TOGETHER) -> None:
        self._together = together
        self._at, self._width, size = (4, 4, 16) if family == AF_INET else (8, 16, 28)
        self._family = family
        self._name_size = size
        room, names = bytearray(MOST * LARGEST), bytearray(MOST * size)
        pieces, messages = bytearray(MOST * sizeof(_Piece)), bytearray(MOST * sizeof(_Message))
        self.bytes = memoryview(room)
        self.lengths = memoryview(messages).cast("I")
        """How long each datagram was, where `slots` says."""
        self.sizes = memoryview(pieces).cast("L")
        """How long each answer is, where `slots` says."""
        self.slots = [_slot(number) for number in range(MOST)]
        """For each datagram: its number, where it begins, its place in `lengths`, in `sizes`."""
        self._names = memoryview(names)
        self._pieces = memoryview(pieces)
        self._room_of, self._names_of = (_Bytes.from_buffer(held) for held in (room, names))
        self._piece_of = (_Piece * MOST).from_buffer(pieces)
        self._message_of = (_Message * MOST).from_buffer(messages)
        self._first = ctypes.addressof(self._message_of)
        self._room_at = ctypes.addressof(self._room_of)
        self._names_at = ctypes.addressof(self._names_of)
        self._lay_out()
        self._empty = bytes(pieces)

    def _lay_out(self) -> None:
        pieces = ctypes.addressof(self._piece_of)
        for number, (piece, message) in enumerate(
            zip(self._piece_of, self._message_of, strict=True)
        ):
            piece.base, piece.size = self._room_at + number * LARGEST, LARGEST
            message.header.name = self._names_at + number * self._name_size
            message.header.name_size = self._name_size
            message.header.pieces = pieces + number * sizeof(_Piece)
            message.header.piece_count = 1

    def receive(self, fd: int) -> int:
        """Take what waits on a socket that does not block; says how many there were."""
        self._pieces[:] = self._empty
        if not self._together:
            return self._receive_each(fd)
        number: int = _receive(fd, self._first, MOST, 0, None)
        if number >= 0:
            return number
        if ctypes.get_errno() in _FORBIDDEN:
            self._together = False
            return self._receive_each(fd)
        return 0  # nothing waits, or what an earlier client's network sent back to us

    def _receive_each(self, fd: int) -> int:
        for number, at, length, _ in self.slots:
            size = c_uint(self._name_size)
            name = self._names_at + number * self._name_size
            got: int = _receive_one(fd, self._room_at + at, LARGEST, 0, name, byref(size))
            if got < 0:
                return number
            self.lengths[length] = got
        return MOST

    def send(self, fd: int, first: int, after: int) -> None:
        """Send the answers from one slot up to another; who cannot be reached will ask again."""
        if not self._together:
            for number, at, _, size in self.slots[first:after]:
                name = self._names_at + number * self._name_size
                _send_one(fd, self._room_at + at, self.sizes[size], 0, name, self._name_size)
            return
        while first < after:
            sent = _send(fd, self._first + first * sizeof(_Message), after - first, 0)
            first += max(sent, 1)

    def packet(self, number: int) -> bytes:
        """A datagram as it came in."""
        _, at, length, _ = self.slots[number]
        return self.bytes[at : at + self.lengths[length]].tobytes()

    def address(self, number: int) -> bytes:
        """The address that a datagram came from, packed."""
        at = number * self._name_size + self._at
        return self._names[at : at + self._width].tobytes()

    def client(self, number: int) -> Client:
        """Where a datagram came from, as sockets take it."""
        at = number * self._name_size
        name = self._names[at : at + self._name_size]
        host, port = inet_ntop(self._family, self.address(number)), int.from_bytes(name[2:4])
        if self._family == AF_INET:
            return host, port
        return host, port, int.from_bytes(name[4:8]), int.from_bytes(name[24:28], sys.byteorder)


_Bytes = ctypes.c_char * 1
"""The beginning of some memory, whose address is wanted."""


def _slot(number: int) -> tuple[int, int, int, int]:
    length = number * sizeof(_Message) + _Message.length.offset
    size = number * sizeof(_Piece) + _Piece.size.offset
    return number, number * LARGEST, length // sizeof(c_uint), size // sizeof(c_size_t)
