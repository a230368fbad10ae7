"""The name of this program in hints that users copy."""

import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """`hanse` where PATH finds this very program, else the path that it was called by.

    `kubectl hanse` for the plugin; `hanse` also if another program, such as Python, runs this code.
    """
    called = Path(sys.argv[0])
    if called.name == "kubectl-hanse":
        return "kubectl hanse"
    found = shutil.which("hanse")
    if called.name != "hanse" or (found is not None and Path(found).resolve() == called.resolve()):
        return "hanse"
    return str(called)
