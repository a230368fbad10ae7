"""Many datagrams per system call: `recvmmsg` and `sendmmsg`, which Python's sockets lack.

A response is written over its query, whose id and client address are already in place. If the
system calls are missing or forbidden, datagrams are received and sent one by one.
"""

import ctypes
import errno
import sys
from ctypes import Structure, byref, c_int, c_size_t, c_ssize_t, c_uint, c_void_p, sizeof
from socket import AF_INET, inet_ntop

BATCH_SIZE = 64
"""Datagrams per batch, after which other sockets are served."""

MAX_DATAGRAM = 4096
"""Bytes read of a datagram."""

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""An address as sockets take it."""


class _IoVec(Structure):
    """`struct iovec`: the buffer of a datagram."""

    _fields_ = (("base", c_void_p), ("size", c_size_t))


class _MsgHdr(Structure):
    """`struct msghdr`: the client address and buffer of a datagram."""

    _fields_ = (
        ("name", c_void_p),
        ("name_size", c_uint),
        ("iovecs", c_void_p),
        ("iovec_count", c_size_t),
        ("control", c_void_p),
        ("control_size", c_size_t),
        ("flags", c_int),
    )


class _MMsgHdr(Structure):
    """`struct mmsghdr`: one of many datagrams, and its length."""

    _fields_ = (("header", _MsgHdr), ("length", c_uint))


_libc = ctypes.CDLL(None, use_errno=True)
_recvfrom = _libc.recvfrom
_recvfrom.argtypes = (c_int, c_void_p, c_size_t, c_int, c_void_p, c_void_p)
_recvfrom.restype = c_ssize_t
_sendto = _libc.sendto
_sendto.argtypes = (c_int, c_void_p, c_size_t, c_int, c_void_p, c_uint)
_sendto.restype = c_ssize_t
HAS_MMSG = hasattr(_libc, "recvmmsg") and hasattr(_libc, "sendmmsg")
"""Whether the C library has the system calls for many datagrams."""
if HAS_MMSG:
    _recvmmsg = _libc.recvmmsg
    _recvmmsg.argtypes = (c_int, c_void_p, c_uint, c_int, c_void_p)
    _sendmmsg = _libc.sendmmsg
    _sendmmsg.argtypes = (c_int, c_void_p, c_uint, c_int)
_FORBIDDEN = (errno.ENOSYS, errno.EPERM)


class Batch:
    """Buffers for the datagrams of one address family, reused for all sockets.

    The kernel writes the length of client addresses, which is the same for all of a family.
    """

    def __init__(self, family: int, *, mmsg: bool = HAS_MMSG) -> None:
        """Allocate the buffers for BATCH_SIZE datagrams of an address family.

        Without `mmsg` they are received and sent one by one, not by recvmmsg and sendmmsg.
        """
        self._mmsg = mmsg
        self._at, self._width, size = (4, 4, 16) if family == AF_INET else (8, 16, 28)
        self._family = family
        self._name_size = size
        buffer, names = bytearray(BATCH_SIZE * MAX_DATAGRAM), bytearray(BATCH_SIZE * size)
        iovecs, messages = (
            bytearray(BATCH_SIZE * sizeof(_IoVec)),
            bytearray(BATCH_SIZE * sizeof(_MMsgHdr)),
        )
        self.bytes = memoryview(buffer)
        self.lengths = memoryview(messages).cast("I")
        """Length of each datagram, at the index in `slots`."""
        self.sizes = memoryview(iovecs).cast("L")
        """Length of each response, at the index in `slots`."""
        self.slots = [_slot(number) for number in range(BATCH_SIZE)]
        """For each datagram: number, offset in `bytes`, index in `lengths`, index in `sizes`."""
        self._names = memoryview(names)
        self._iovecs = memoryview(iovecs)
        self._buffer_start, self._names_start = (
            _Bytes.from_buffer(held) for held in (buffer, names)
        )
        self._iovec_array = (_IoVec * BATCH_SIZE).from_buffer(iovecs)
        self._message_array = (_MMsgHdr * BATCH_SIZE).from_buffer(messages)
        self._first = ctypes.addressof(self._message_array)
        self._buffer_address = ctypes.addressof(self._buffer_start)
        self._names_address = ctypes.addressof(self._names_start)
        self._link_buffers()
        self._empty = bytes(iovecs)

    def _link_buffers(self) -> None:
        """Point each message header at its buffer and its address."""
        iovecs = ctypes.addressof(self._iovec_array)
        for number, (iovec, message) in enumerate(
            zip(self._iovec_array, self._message_array, strict=True)
        ):
            iovec.base, iovec.size = self._buffer_address + number * MAX_DATAGRAM, MAX_DATAGRAM
            message.header.name = self._names_address + number * self._name_size
            message.header.name_size = self._name_size
            message.header.iovecs = iovecs + number * sizeof(_IoVec)
            message.header.iovec_count = 1

    def receive(self, fd: int) -> int:
        """Receive what waits on a non-blocking socket, and return the number of datagrams.

        At most BATCH_SIZE; 0 if none waits, or the socket reports an error. If recvmmsg is
        forbidden, it switches to recvfrom for good.
        """
        self._iovecs[:] = self._empty
        if not self._mmsg:
            return self._receive_each(fd)
        number: int = _recvmmsg(fd, self._first, BATCH_SIZE, 0, None)
        if number >= 0:
            return number
        if ctypes.get_errno() in _FORBIDDEN:
            self._mmsg = False
            return self._receive_each(fd)
        return 0  # nothing waits, or an ICMP error for an earlier client

    def _receive_each(self, fd: int) -> int:
        """Receive datagrams one by one until none waits or all slots are full.

        Stores their lengths and senders, and returns how many were received.
        """
        for number, at, length, _ in self.slots:
            size = c_uint(self._name_size)
            name = self._names_address + number * self._name_size
            got: int = _recvfrom(fd, self._buffer_address + at, MAX_DATAGRAM, 0, name, byref(size))
            if got < 0:
                return number
            self.lengths[length] = got
        return BATCH_SIZE

    def send(self, fd: int, first: int, after: int) -> None:
        """Send the responses of slots `first` up to, not including, `after` to their clients.

        Errors are ignored: clients retry.
        """
        if not self._mmsg:
            for number, at, _, size in self.slots[first:after]:
                name = self._names_address + number * self._name_size
                _sendto(fd, self._buffer_address + at, self.sizes[size], 0, name, self._name_size)
            return
        while first < after:
            sent = _sendmmsg(fd, self._first + first * sizeof(_MMsgHdr), after - first, 0)
            first += max(sent, 1)

    def packet(self, number: int) -> bytes:
        """The bytes of a datagram; only as received until its response is written over it."""
        _, at, length, _ = self.slots[number]
        return self.bytes[at : at + self.lengths[length]].tobytes()

    def address(self, number: int) -> bytes:
        """The packed client address of a datagram."""
        at = number * self._name_size + self._at
        return self._names[at : at + self._width].tobytes()

    def client(self, number: int) -> SocketAddress:
        """The client address of a datagram, as sockets take it."""
        at = number * self._name_size
        name = self._names[at : at + self._name_size]
        host, port = inet_ntop(self._family, self.address(number)), int.from_bytes(name[2:4])
        if self._family == AF_INET:
            return host, port
        return host, port, int.from_bytes(name[4:8]), int.from_bytes(name[24:28], sys.byteorder)


_Bytes = ctypes.c_char * 1
"""A type to take the address of a buffer by."""


def _slot(number: int) -> tuple[int, int, int, int]:
    """The number of a slot, its offset in `bytes`, and its indexes in `lengths` and `sizes`."""
    length = number * sizeof(_MMsgHdr) + _MMsgHdr.length.offset
    size = number * sizeof(_IoVec) + _IoVec.size.offset
    return number, number * MAX_DATAGRAM, length // sizeof(c_uint), size // sizeof(c_size_t)
