"""The source of version 0.1.0, from the history of this repository."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

EARLIER = "f2ba60798a226c7001769a81e480f6f2c76fdf0f"
"""The last commit of version 0.1.0: later ones moved the packages."""

_REPOSITORY = Path(__file__).parents[2]


def earlier_source(folder: Path) -> Path:
    """Extract the packages of 0.1.0; skips the test where the history is not there."""
    archived = subprocess.run(
        ["git", "archive", EARLIER, "src"],
        cwd=_REPOSITORY,
        capture_output=True,
        check=False,
    )
    if archived.returncode:
        pytest.skip(f"the commit of version 0.1.0 is not in this clone: {archived.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"
