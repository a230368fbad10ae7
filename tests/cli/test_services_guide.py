"""The guide to services says what is true: its commands are run as they stand there."""

import re
from pathlib import Path

from tests.cli.programs import hanse

GUIDE = Path(__file__).parents[2] / "docs/guides/services.md"


def _commands(heading: str) -> str:
    """The shell blocks below a heading, one after the other."""
    (section,) = re.findall(
        rf"^## {heading}\n(.*?)(?=^## )", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def test_the_walk_on_your_machine_works(tmp_path: Path) -> None:
    (tmp_path / "walk.sh").write_text("set -eu\n" + _commands("On your machine"))

    result = hanse("up", "--no-sample", "--exec", "bash walk.sh", cwd=tmp_path)

    assert result.status == 0, result.out + result.err
    assert "market/fish is exported by hamburg, lubeck\n" in result.out
    assert "PortConflict: the export of market/fish" in result.out
