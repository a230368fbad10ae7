"""Why a local federation cannot do what it was asked, each told in one sentence for a person.

UpError          what was asked cannot be done
  BadNames       the clusters' names cannot be used
  FolderHeld     another federation runs in the folder
  Spoilt         what a folder keeps cannot be read
  Unknown        there is no cluster of that name
  NotRunning     no federation runs in the folder
"""


class UpError(Exception):
    """A local federation cannot do what it was asked."""


class InvalidClusterNames(UpError):
    """The clusters' names cannot be used."""


class FolderLocked(UpError):
    """Another federation runs in the folder."""


class CorruptSnapshot(UpError):
    """What a folder keeps cannot be read."""


class UnknownCluster(UpError):
    """There is no cluster of that name."""


class NotRunning(UpError):
    """No federation runs in the folder."""
