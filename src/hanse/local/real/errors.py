"""Errors of real clusters; each message is one sentence for a person.

RealClusterError     the kubernetes engine cannot do what it was asked
  GoNotFound         there is no Go to build with, and none could be installed
  BuildFailed        a program did not compile: its log says why
  ProgramMissing     a program is neither installed nor built yet
  FleetFolderLocked  another fleet runs in the folder
  PortInUse          another process listens on a server's port
  ServerDied         a server exited unexpectedly: the message has the end of its log
  ClusterNotReady    a cluster did not become ready in time
  SnapshotFailed     etcd's state could not be saved or restored
  NodesUnsupported   this machine or user cannot run nodes with containers
  NodesFailed        a node with containers could not be set up
"""

from pathlib import Path


class RealClusterError(Exception):
    """The kubernetes engine cannot do what it was asked."""


class GoNotFound(RealClusterError):
    """There is no Go to build with, and none could be installed."""


class BuildFailed(RealClusterError):
    """A program did not compile."""

    def __init__(self, program: str, log: Path) -> None:
        """The message has the end of the log."""
        super().__init__(f"building {program} failed{_log_tail(log)}")
        self.log = log


class ProgramMissing(RealClusterError):
    """A program is neither installed nor built yet."""


class FleetFolderLocked(RealClusterError):
    """Another fleet runs in the folder."""


class PortInUse(RealClusterError):
    """Another process listens on a server's port."""


class ServerDied(RealClusterError):
    """A server exited unexpectedly."""

    def __init__(self, cluster: str, program: str, code: int, log: Path) -> None:
        """`code` is the exit status, or minus the signal; the message has the end of the log."""
        super().__init__(f"{program} of {cluster} ended with {_exit_cause(code)}{_log_tail(log)}")
        self.cluster = cluster
        self.program = program
        self.code = code
        self.log = log


class ClusterNotReady(RealClusterError):
    """A cluster did not become ready in time."""


class SnapshotFailed(RealClusterError):
    """etcd's state could not be saved or restored."""


class NodesUnsupported(RealClusterError):
    """This machine or user cannot run nodes with containers."""


class NodesFailed(RealClusterError):
    """A node with containers could not be set up."""


def tail(log: Path, lines: int = 5) -> str:
    """The last lines of a log, of which at most 400 bytes for each line are read.

    Empty if it cannot be read.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 400 * lines))
            return "\n".join(file.read().decode("utf-8", "replace").strip().splitlines()[-lines:])
    except OSError:
        return ""


def _exit_cause(code: int) -> str:
    """`signal N` for a negative exit code -N, else `status N`."""
    return f"signal {-code}" if code < 0 else f"status {code}"


def _log_tail(log: Path) -> str:
    """The end of a log as a clause of a message; only its path if it is empty or unreadable."""
    end = tail(log)
    return f"; its log {log} ends:\n{end}" if end else f"; see {log}"
