"""Decisions are numbered in one row, and whoever names one names a page that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECISIONS = sorted(path.name for path in ROOT.glob("docs/decisions/*.md"))
NUMBERS = [int(name[:4]) for name in DECISIONS]
READ = frozenset({".md", ".py", ".toml", ".yaml"})
FOLDERS = ("docs", "src", "tests", "tools", "deploy", "examples")


def test_numbers_have_neither_gaps_nor_doubles() -> None:
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS


def test_each_page_has_its_number_in_its_title() -> None:
    for name in DECISIONS:
        title = (ROOT / "docs/decisions" / name).read_text().partition("\n")[0]
        assert title.startswith(f"# {name[:4]}: "), name


def test_every_reference_names_a_page() -> None:
    pages = [*ROOT.glob("*.md"), *(page for at in FOLDERS for page in (ROOT / at).rglob("*"))]
    for page in (page for page in pages if page.suffix in READ):
        text = page.read_text()
        numbers = re.findall(r"\b[Dd]ecision\s+(\d{1,4})\b", text)
        assert {int(number) for number in numbers} <= set(NUMBERS), page
        assert set(re.findall(r"\b\d{4}-[a-z][a-z-]+\.md\b", text)) <= set(DECISIONS), page
