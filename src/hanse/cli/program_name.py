"""The name of this program in hints that users copy."""

import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """How users call this program: `kubectl hanse` as the plugin, else `hanse`, or a path.

    The path by which it was called only if its last part is `hanse` and PATH finds no `hanse`, or
    another one; so `hanse` also if another program, such as Python, runs this code.
    """
    called = Path(sys.argv[0])
    if called.name == "kubectl-hanse":
        return "kubectl hanse"
    found = shutil.which("hanse")
    if called.name != "hanse" or (found is not None and Path(found).resolve() == called.resolve()):
        return "hanse"
    return str(called)
