"""The objects of an embedded cluster on disk: a snapshot, and a journal of every write since.

A write is in the journal before its request is answered, so that a killed process loses nothing
that it acknowledged. `NAME.json` holds the snapshot of some version; `NAME.VERSION.log` the writes
after that version, a line each. Logs that a newer snapshot covers are deleted.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from hanse.local.kubeconfig import write_private_file
from hanse.local.up.errors import CorruptSnapshot
from tinykube.resources import Object
from tinykube.storage import Change, Snapshot, Storage, StorageEvent, name_of

MAX_LOG_BYTES = 4_000_000
"""The size of a log from which on a new snapshot is due."""


class _Entry(Struct, frozen=True, array_like=True):
    """One write: the object after it, or the last state of a deleted one."""

    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    store: str
    object: Object


class Journal:
    """Keeps the objects of one cluster in a folder.

    An error does not end the cluster: it is kept as `error` until a snapshot can be written again.
    """

    def __init__(self, folder: Path, cluster: str) -> None:
        """Nothing is opened until a snapshot is begun; `cluster` is part of the file names."""
        self.error: OSError | None = None
        self._folder = folder
        self._cluster = cluster
        self._log: BinaryIO | None = None
        self._log_file = folder
        self._size = 0

    @property
    def file(self) -> Path:
        """The file of the snapshot."""
        return self._folder / f"{self._cluster}.json"

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the log is longer than MAX_LOG_BYTES or not open, or the last write failed."""
        return self.error is not None or self._log is None or self._size > MAX_LOG_BYTES

    def load(self) -> Snapshot | None:
        """The objects of the snapshot after the writes in its logs; None without a snapshot.

        Writes after the first that is missing or incomplete are left out. Raises `CorruptSnapshot`
        for a snapshot, and `OSError` for a log, that cannot be read.
        """
        try:
            known = msgspec.json.decode(self.file.read_bytes(), type=Snapshot)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise CorruptSnapshot(
                f"what {self._cluster} held cannot be read from {self.file}: {error}; "
                "move the file away to start without it"
            ) from None
        entries = (entry for log in self._logs() for entry in _read_entries(log))
        return _replay(known, entries)

    def append(self, event: StorageEvent) -> None:
        """Append a change to the log; a failure is kept as `error`, and nothing is raised.

        Any other event, and a failure, close the log: a snapshot is due then. No effect while no
        log is open.
        """
        if self._log is None:
            return
        if not isinstance(event, Change):
            self._close_log()
            return
        entry = _Entry(event.version, event.type, event.store, event.object)
        line = msgspec.json.encode(entry) + b"\n"
        try:
            if self._log.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - as below
        except OSError as error:
            self.error = error
            self._close_log()
        self._size += len(line)

    def begin_snapshot(self, storage: Storage) -> Snapshot:
        """The objects to pass to `write_snapshot`; later writes go to a new log, which is opened.

        Sets `error` if the log cannot be opened.
        """
        self._close_log()
        snapshot = storage.snapshot()
        self._log_file = self._folder / f"{self._cluster}.{snapshot.version}.log"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self._log, self._size = os.fdopen(descriptor, "wb", buffering=0), 0
        except OSError as error:
            self.error = error
        return snapshot

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the snapshot atomically, then delete all logs but the open one.

        May run in a thread. Sets `error` if it fails, in which case what was on disk stays. A
        success clears it.
        """
        try:
            write_private_file(self.file, msgspec.json.encode(snapshot))
            for log in self._logs():
                if log != self._log_file:
                    log.unlink(missing_ok=True)
        except OSError as error:
            self.error = error
        else:
            self.error = None

    def close(self) -> None:
        """Close the log; changes are no longer written."""
        self._close_log()

    def _close_log(self) -> None:
        """Close the log, if one is open."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _logs(self) -> list[Path]:
        """The logs of the cluster, in the order of their versions."""
        found = [log.name.split(".") for log in self._folder.glob(f"{self._cluster}.*.log")]
        versions = sorted(int(parts[1]) for parts in found if len(parts) == 3)
        return [self._folder / f"{self._cluster}.{version}.log" for version in versions]


def _read_entries(log: Path) -> Iterator[_Entry]:
    """The entries of a log, up to a line that was not written to its end."""
    with log.open("rb") as lines:
        for line in lines:
            try:
                yield msgspec.json.decode(line, type=_Entry)
            except msgspec.DecodeError:
                return


def _replay(known: Snapshot, entries: Iterable[_Entry]) -> Snapshot:
    """The snapshot after the entries that follow it, up to the first that is missing."""
    version = known.version
    stores = {store: {name_of(o): o for o in objects} for store, objects in known.objects.items()}
    for entry in entries:
        if entry.version <= version:
            continue
        if entry.version > version + 1:
            break
        version, named = entry.version, stores.setdefault(entry.store, {})
        if entry.type == "DELETED":
            named.pop(name_of(entry.object), None)
        else:
            named[name_of(entry.object)] = entry.object
    return Snapshot(version, {store: list(named.values()) for store, named in stores.items()})
