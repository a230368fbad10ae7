"""Small real programs on disk, for what only needs some program to run."""

from pathlib import Path


def script(path: Path, *lines: str) -> Path:
    """A shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(0o755)
    return path
