"""The command line: a module or a folder per command, imported when the command is called."""

import sys


def main() -> None:
    """Run `hanse`, or `kubectl hanse`, with `sys.argv`, and exit with its status."""
    from hanse.cli.root import run

    sys.exit(run(sys.argv[1:]))
