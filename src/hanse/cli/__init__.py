"""The command line: a module or a folder per command, imported when the command is called."""

import sys


def main() -> None:
    """The program `hanse`, which is also `kubectl hanse`."""
    from hanse.cli.root import run

    sys.exit(run(sys.argv[1:]))
