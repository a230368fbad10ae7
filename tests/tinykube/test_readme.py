"""The examples of tinykube's README run as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tinykube

README = Path(tinykube.__file__).with_name("README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, tmp_path: Path) -> None:
    example = tmp_path / "test_example.py"
    example.write_text(EXAMPLES[number])
    command = [sys.executable, str(example)]
    if "import pytest" in EXAMPLES[number]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(example)]

    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 5
