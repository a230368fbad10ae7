"""The reference says what the kinds are: it is made from them, and checked."""

import re
from pathlib import Path

from tools.findings import findings_page
from tools.reference import reference
from tools.write_rules import write_rules

from hanse.model.crds import crds
from hanse.model.finding_codes import CODES

NO_CODES = {"", "ClusterNetworkPolicy", "NetworkPolicy"}
PAGE = Path(__file__).parents[2] / "docs/reference.md"


def test_the_page_is_what_the_kinds_are_now() -> None:
    assert PAGE.read_text() == reference(), "run `make reference`"


def test_the_page_of_write_rules_is_what_policies_are_made_of() -> None:
    page = PAGE.with_name("write-rules.md").read_text()

    assert page == write_rules(), "run `make reference`"


def test_the_page_of_findings_is_what_hanse_explains() -> None:
    assert PAGE.with_name("findings.md").read_text() == findings_page(), "run `make reference`"


def test_every_code_that_the_source_uses_is_explained_and_no_other() -> None:
    pattern = re.compile(
        r'code="(\w+)"|ConditionRule\(\s*"(\w+)"|"([A-Z]\w+)" if |else "([A-Z]\w+)",$'
        r'|^ +"([A-Z][a-z]+[A-Z]\w+)",$|"(Crd\w+)"|: \("(\w+)", Severity|where, "([A-Z]\w+)"',
        re.MULTILINE,
    )
    folder = PAGE.parents[1] / "src/hanse"
    files = [*folder.glob("features/*/findings.py"), *folder.glob("features/*/*view.py")]
    files += [*folder.glob("features/fleet/*.py"), *folder.glob("cli/doctor/*.py")]
    files += [folder / "model/object_view.py", folder / "model/paused_objects.py"]
    files += [folder / "model/held_deletions.py"]
    used = {code for f in files for found in pattern.findall(f.read_text()) for code in found}

    assert used - CODES.keys() <= NO_CODES
    assert CODES.keys() - used <= {"PortConflict", "TypeConflict", "ExportPending"}


def test_every_kind_and_every_field_has_a_description() -> None:
    page = reference()

    for crd in crds():
        assert f"\n## {crd['spec']['names']['kind']}\n" in page
    unsaid = [
        line for line in page.splitlines() if line.startswith("| `") and line.endswith("|  |")
    ]
    assert unsaid == []
