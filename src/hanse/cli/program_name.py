"""What a person types to call this program again, for hints that are to be typed as they stand."""

import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """`hanse` where the PATH leads to this very program, else the way it was called by."""
    called = Path(sys.argv[0])
    if called.name == "kubectl-hanse":
        return "kubectl hanse"
    found = shutil.which("hanse")
    if called.name != "hanse" or (found is not None and Path(found).resolve() == called.resolve()):
        return "hanse"
    return str(called)
