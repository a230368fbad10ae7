"""The folder of a local federation: locked by one process, readable only by its owner."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hanse.local.file_lock import LockHeld, lock_file
from hanse.local.up.errors import FolderLocked, UpError
from hanse.local.up.journal import Journal


class Folder:
    """Holds the kubeconfig, the control socket and, with `keep`, the objects of all clusters."""

    def __init__(self, path: Path, *, keep: bool) -> None:
        self.path = path.absolute()
        self.keep = keep

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def control(self) -> Path:
        return self.path / "control.sock"

    @property
    def servers(self) -> Path:
        """The files of real clusters: certificates, etcd data, logs."""
        return self.path / "kubernetes"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create and lock the folder; at the end delete the socket. Raises `FolderLocked`."""
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
            try:
                yield
            finally:
                self.control.unlink(missing_ok=True)
                lock.truncate(0)

    def journal(self, cluster: str) -> Journal | None:
        """The objects of a cluster on disk; None if the folder does not keep them."""
        return Journal(self.path / "clusters", cluster) if self.keep else None

    def _prepare(self) -> None:
        """Create the folder with mode 0700, and exclude it from git; raises `UpError`."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")  # the folder holds credentials
        except OSError as error:
            raise UpError(
                f"the folder {self.path} cannot be used: {error.strerror}; give another with --dir"
            ) from None
