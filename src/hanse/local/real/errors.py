"""What can go wrong with real clusters, each told in one sentence for a person.

RealClusterError     the kubernetes engine cannot do what it was asked
  NoGo               there is no Go to build with, and none could be installed
  BuildFailed        a program did not compile: its log says why
  Missing            a program is neither installed nor built yet
  PortHeld           another process listens where a server must
  ServerDied         a server ended by itself: its log's last lines are part of the message
  NotReady           a server runs and did not become ready in time
  SnapshotFailed     etcd's state could not be saved or restored
"""

from pathlib import Path


class RealClusterError(Exception):
    """The kubernetes engine cannot do what it was asked."""


class GoNotFound(RealClusterError):
    """There is no Go to build with, and none could be installed."""


class BuildFailed(RealClusterError):
    """A program did not compile."""

    def __init__(self, program: str, log: Path) -> None:
        super().__init__(f"building {program} failed{_last_words(log)}")
        self.log = log


class ProgramMissing(RealClusterError):
    """A program is neither installed nor built yet."""


class FleetFolderLocked(RealClusterError):
    """Another fleet keeps its state there."""


class PortInUse(RealClusterError):
    """Another process listens where a server must."""


class ServerDied(RealClusterError):
    """A server ended by itself."""

    def __init__(self, cluster: str, program: str, code: int, log: Path) -> None:
        super().__init__(f"{program} of {cluster} ended with {_cause(code)}{_last_words(log)}")
        self.cluster = cluster
        self.program = program
        self.code = code
        self.log = log


class ClusterNotReady(RealClusterError):
    """A server runs and did not become ready in time."""


class SnapshotFailed(RealClusterError):
    """etcd's state could not be saved or restored."""


def tail(log: Path, lines: int = 5) -> str:
    """The end of a log, without reading all of it."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 400 * lines))
            return "\n".join(file.read().decode("utf-8", "replace").strip().splitlines()[-lines:])
    except OSError:
        return ""


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"status {code}"


def _last_words(log: Path) -> str:
    words = tail(log)
    return f"; its log {log} ends:\n{words}" if words else f"; see {log}"
