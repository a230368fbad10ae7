"""What README and guides point at is there, and what they call exists."""

import re
from pathlib import Path

import pytest

from hanse.cli.root import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("src/hanse/**/README.md"),
        *ROOT.glob("examples/**/*.md"),
    ]
)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{target} is not there"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{target} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"(?:^|[`$|(] *|bin/)hanse ([a-z][a-z-]+)\b", page.read_text(), re.MULTILINE)
    assert set(named) - set(COMMANDS) - {"is", "in", "agents"} == set()
