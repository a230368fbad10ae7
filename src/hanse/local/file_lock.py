"""Lock files that name the process that holds them."""

import fcntl
import os
from pathlib import Path
from typing import TextIO


class LockHeld(Exception):
    """Another process holds the lock; `holder` is its pid, or `unknown`."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"the lock is held by process {holder}")
        self.holder = holder


def lock_file(path: Path) -> TextIO:
    """Create and lock a file, until it is closed, and replace its content by our pid.

    Does not wait: if it is locked, raises `LockHeld` with the holder's pid, or with `unknown` if
    the file is empty.
    """
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise LockHeld(holder or "unknown") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
