"""The guide to federated Services says what is true: its commands are run as they stand there."""

import re
from pathlib import Path

import pytest

from hanse.cli.agent.command import parse_federated_options
from hanse.cli.errors import InputError
from tests.cli.programs import hanse

GUIDE = Path(__file__).parents[2] / "docs/guides/federated-services.md"


def blocks(heading: str) -> list[str]:
    """The shell blocks below a heading."""
    (section,) = re.findall(
        rf"^## {heading}\n(.*?)(?=^## )", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_the_walk_works_from_its_beginning_to_the_move_to_antrea(tmp_path: Path) -> None:
    walk = [*blocks("On your machine"), *blocks("Moving to Antrea Multi-cluster")]
    (tmp_path / "walk.sh").write_text("set -eu\n" + "\n".join(walk))

    result = hanse("up", "--no-sample", "--exec", "bash walk.sh", cwd=tmp_path)

    assert result.status == 0, result.out + result.err
    assert "ExternalName" in result.out
    assert "bergen Service market/scales: 1 ready" in result.out, result.out
    assert "fish is imported from bergen lubeck" in result.out


@pytest.mark.parametrize("template", ["{namespace}.example.org", "{name}", "{name}_x.example"])
def test_a_template_that_gives_no_names_is_refused(template: str) -> None:
    with pytest.raises(InputError, match="--federated-hostname"):
        parse_federated_options(template)


def test_a_good_template_is_taken() -> None:
    assert parse_federated_options("{name}.{namespace}.example.org").hostname
    assert parse_federated_options("").hostname == ""
