"""Errors of local federations; each message is one sentence for a person.

UpError                a local federation cannot do what it was asked
  InvalidClusterNames  the names of clusters cannot be used
  FolderLocked         another federation runs in the folder
  CorruptSnapshot      the saved objects of a cluster cannot be read
  NotSaved             the objects of a cluster cannot be written to disk
  UnknownSave          nothing was saved under that name
  UnknownCluster       there is no cluster of that name
  NotRunning           no federation runs in the folder
"""


class UpError(Exception):
    """A local federation cannot do what it was asked."""


class InvalidClusterNames(UpError):
    """The names of clusters cannot be used."""


class FolderLocked(UpError):
    """Another federation runs in the folder."""


class CorruptSnapshot(UpError):
    """The saved objects of a cluster cannot be read."""


class NotSaved(UpError):
    """The objects of a cluster cannot be written to disk."""


class UnknownSave(UpError):
    """Nothing was saved under that name."""


class UnknownCluster(UpError):
    """There is no cluster of that name."""


class NotRunning(UpError):
    """No federation runs in the folder."""


def single_error(error: BaseException) -> BaseException:
    """The error itself; in place of a group of one error, also if nested, the error inside.

    A group of several errors is returned as it is.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
