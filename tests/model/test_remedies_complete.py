"""Every finding says what mends it: commands that can be pasted as they stand, or whom to ask."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hanse
from hanse.model.finding_codes import CODES
from hanse.model.findings import Finding, Ref, Remedy, Severity, cluster_ref, judge, link_ref

SOURCES = sorted(Path(hanse.__file__).parent.rglob("*.py"))
SUBJECTS = {
    "a cluster": (cluster_ref("bergen"), "the administrator of bergen"),
    "a link": (link_ref("lubeck", "bergen"), "whoever runs the network of lubeck"),
    "an object": (
        Ref("NetworkPolicy", "web", "shop", "lubeck"),
        "the author of NetworkPolicy shop/web in lubeck",
    ),
    "credentials": (
        Ref("Credentials", "lubeck", cluster="lubeck"),
        "whoever gave you the credentials lubeck",
    ),
    "the fleet": (Ref("AMKOCluster", "leader"), "the administrators of the fleet"),
}
LOOKING = re.compile(r"\b(describe|edit|logs|cluster-info|can-i|config view|get)\b|\b[A-Z]{3,}\b")
"""Commands that show something and mend nothing, need an editor, or have words to be replaced."""


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("subject", "person"), SUBJECTS.values(), ids=SUBJECTS)
def test_where_no_command_mends_it_a_person_is_named(code: str, subject: Ref, person: str) -> None:
    advice = Remedy("do as it says")
    found = Finding(
        code=code, severity=Severity.RISK, subject=subject, summary="it is bad", remedy=advice
    )

    (judged,) = judge([found])

    assert judged.remedy == Remedy("do as it says", ask=person)


def test_where_a_command_mends_it_nobody_is_asked() -> None:
    mend = Remedy(commands=("hanse local start bergen",))
    found = Finding(
        code="ClusterUnreachable",
        severity=Severity.OUTAGE,
        subject=cluster_ref("bergen"),
        summary="it does not answer",
        remedy=mend,
    )

    assert [one.remedy for one in judge([found])] == [mend]


def commands_of(tree: ast.AST) -> Iterator[str]:
    """The source of each argument of `remedy` that is a command."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "remedy":
            yield from (ast.unparse(one) for one in node.args)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_commands_of_remedies_mend_as_they_stand(source: Path) -> None:
    text = source.read_text()
    found = commands_of(ast.parse(text)) if "remedy(" in text else ()
    assert [command for command in found if LOOKING.search(_constants(command))] == []


def _constants(command: str) -> str:
    """The texts in an expression, without the names of variables."""
    parsed = ast.walk(ast.parse(command))
    return " ".join(str(one.value) for one in parsed if isinstance(one, ast.Constant))
