"""Unix sockets at paths of any length, for the owner of the folder only."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_ADDRESS_LENGTH = 100
"""Kernels allow a few more bytes; the exact limit differs between them."""


def private_listener(path: Path) -> socket.socket:
    """A Unix socket bound with mode 0600, not listening yet; it replaces an existing file.

    Raises `OSError`.
    """
    path.unlink(missing_ok=True)  # the folder is locked: its previous owner has ended
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        with socket_address(path) as address:
            listener.bind(address)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address for the path that is short enough for a Unix socket; valid within the block.

    The path itself if it has at most 100 bytes; else one below `/proc/self/fd`, for which the
    folder is opened, which raises `OSError` if it does not exist.
    """
    if len(os.fsencode(path)) <= _MAX_ADDRESS_LENGTH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
