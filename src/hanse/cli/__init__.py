"""The command line: a module or a folder per command, imported when the command is called."""

import gc
import sys

GC_THRESHOLD = 1_000_000
"""New objects after which the garbage collector runs: imports and lists make many, and no garbage.

Commands that run for long set their own."""


def main() -> None:
    """Run `hanse`, or `kubectl hanse`, with `sys.argv`, and exit with its status."""
    gc.set_threshold(GC_THRESHOLD)
    from hanse.cli.root import run

    status = run(sys.argv[1:])
    gc.freeze()  # else the interpreter traverses all objects twice at its end
    sys.exit(status)
