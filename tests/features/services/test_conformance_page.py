"""docs/conformance.md names a test for each spec of the conformance suite, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_spec_has_a_test_and_each_test_is_named() -> None:
    page = (ROOT / "docs/conformance.md").read_text()
    tests = (ROOT / "tests/nodes/test_conformance.py").read_text()

    numbers = re.findall(r"^\| (\d+) \| .+ \| (?:required|optional) \| `test_", page, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 28)]
    assert set(re.findall(r"`(test_\w+)`", page)) == set(re.findall(r"def (test_\w+)", tests))
