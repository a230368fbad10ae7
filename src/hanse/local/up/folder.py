"""The folder of a local federation: locked by one process, readable only by its owner."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from hanse.local.file_lock import LockHeld, lock_file
from hanse.local.up.errors import FolderLocked, UnknownSave, UpError
from hanse.local.up.journal import Journal

_SAVED_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,62}")


class Folder:
    """Holds the kubeconfig, the control socket, backups and, with `keep`, all objects."""

    def __init__(self, path: Path, *, keep: bool) -> None:
        """Only the path is kept, absolute; nothing is created.

        With `keep` objects outlive the process.
        """
        self.path = path.absolute()
        self.keep = keep

    @property
    def kubeconfig(self) -> Path:
        """The path of the kubeconfig."""
        return self.path / "kubeconfig"

    @property
    def control(self) -> Path:
        """The path of the control socket."""
        return self.path / "control.sock"

    @property
    def servers(self) -> Path:
        """The files of real clusters: certificates, etcd data, logs."""
        return self.path / "kubernetes"

    def new_save(self, cluster: str, name: str) -> Path:
        """The file for a backup of a cluster, in a folder that is created; the file is not.

        Raises `UpError` if the name cannot be a file's.
        """
        if not _SAVED_NAME.fullmatch(name):
            raise UpError(
                f"{name!r} cannot be the name of a backup; use lower-case letters, digits, dots "
                "and dashes"
            )
        (self._saved / cluster).mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._saved / cluster / name

    def find_save(self, cluster: str, name: str) -> Path:
        """The existing file of a backup; raises `UnknownSave`, which lists those that there are."""
        known = {file.name: file for file in sorted((self._saved / cluster).glob("*"))}
        if name not in known:
            there = f"there is: {', '.join(known)}" if known else "nothing was saved of it"
            raise UnknownSave(f"there is no backup {name!r} of {cluster}; {there}")
        return known[name]

    @property
    def _saved(self) -> Path:
        """The folder of backups."""
        return self.path / "saved"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create and lock the folder until the block ends; then the control socket is deleted.

        Raises `FolderLocked`, or `UpError` if the folder cannot be used. Unless the folder keeps
        objects, earlier backups are deleted at the start.
        """
        self._prepare()
        try:
            lock = lock_file(self.path / "lock")
        except LockHeld as held:
            pid = "PID" if held.holder == "unknown" else held.holder
            raise FolderLocked(
                f"a federation runs in {self.path} already, as process {held.holder}; "
                f"stop it with `kill {pid}`, or give another folder with --dir"
            ) from None
        with lock:
            if not self.keep:
                rmtree(self._saved, ignore_errors=True)  # of clusters that are gone
            try:
                yield
            finally:
                self.control.unlink(missing_ok=True)
                lock.truncate(0)

    def journal(self, cluster: str) -> Journal | None:
        """A journal of a cluster's objects in the folder; None if the folder does not keep them."""
        return Journal(self.path / "clusters", cluster) if self.keep else None

    def _prepare(self) -> None:
        """Create the folder with mode 0700, unless it exists, and exclude it from git.

        Raises `UpError` if it cannot be used.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")  # the folder holds credentials
        except OSError as error:
            raise UpError(
                f"the folder {self.path} cannot be used: {error.strerror}; give another with --dir"
            ) from None
