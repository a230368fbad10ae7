"""The command line: one file per command, each imported only when it is called."""

import sys


def main() -> None:
    """The program `hanse`, which is also `kubectl hanse`."""
    from hanse.cli.root import run

    sys.exit(run(sys.argv[1:]))
