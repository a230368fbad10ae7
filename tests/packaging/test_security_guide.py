"""The table of the security guide: each credential has a test that shows the worst it can do."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "security.md").read_text()
TABLE = GUIDE.split("## Who holds what")[1].split("Each supervisor")[0]
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ")][1:]
_TEST = re.compile(r"`(tests/[\w/.]+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_each_credential_has_a_holder_a_worst_case_and_a_test(row: str) -> None:
    _, credential, holder, worst, shown, _ = row.split("|")

    assert all(cell.strip() for cell in (credential, holder, worst))
    assert _TEST.findall(shown)


def test_every_test_that_the_guide_names_exists() -> None:
    named = set(_TEST.findall(GUIDE))

    assert len(named) >= 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
