"""The reference says what the kinds are: it is made from them, and checked."""

from pathlib import Path

from tools.reference import reference
from tools.write_rules import write_rules

from hanse.model.crds import crds

PAGE = Path(__file__).parents[2] / "docs/reference.md"


def test_the_page_is_what_the_kinds_are_now() -> None:
    assert PAGE.read_text() == reference(), "run `make reference`"


def test_the_page_of_write_rules_is_what_policies_are_made_of() -> None:
    page = PAGE.with_name("write-rules.md").read_text()

    assert page == write_rules(), "run `make reference`"


def test_every_kind_and_every_field_has_a_description() -> None:
    page = reference()

    for crd in crds():
        assert f"\n## {crd['spec']['names']['kind']}\n" in page
    unsaid = [
        line for line in page.splitlines() if line.startswith("| `") and line.endswith("|  |")
    ]
    assert unsaid == []
