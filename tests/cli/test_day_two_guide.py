"""The guide about days after the first says what is true: its commands are run as they stand."""

import re
from pathlib import Path

from tests.cli.programs import hanse

GUIDE = Path(__file__).parents[2] / "docs/guides/day-two.md"


def _commands(heading: str) -> str:
    """The shell blocks below a heading, one after the other."""
    (section,) = re.findall(
        rf"^## {heading}\n(.*?)(?=^## )", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def test_the_walk_on_your_machine_works(tmp_path: Path) -> None:
    (tmp_path / "walk.sh").write_text("set -eux\n" + _commands("On your machine"))
    (started,) = re.findall(r"^`hanse (up [^`]+)` in one shell", GUIDE.read_text(), re.MULTILINE)
    up = started.split()

    result = hanse(*up, "--exec", "bash walk.sh", cwd=tmp_path, patience=240)

    assert result.status == 0, result.out + result.err
    assert "lubeck uses a new token for broker; 1 earlier one is revoked\n" in result.out
    assert "You must be logged in to the server (Unauthorized)" in result.err
    assert result.out.count("NAME     HOLDER") == 1, "the old token was known once, and then not"
    assert "bergen lubeck" in result.out
    assert "ClusterSetMissing" in result.out
    assert "broker: created ClusterSet default\n" in result.out
    imported = re.findall(
        r"^ *(\d+) serviceimport.multicluster.x-k8s.io/(\w+)$", result.out, re.MULTILINE
    )
    assert imported == [("10", "beer"), ("10", "fish")]
    assert "# broker: would delete ServiceAccount hanse-broker-accounts/lubeck\n" in result.out
    assert "# lubeck: would delete ServiceImport market/fish\n" in result.out
    assert "# lubeck: would delete Secret hanse-system/hanse-broker\n" in result.out
    assert "lubeck has left broker: nothing of it is left there but its record\n" in result.out
    assert '[{"cluster":"bergen"}]' in result.out
    assert "bergen was made to leave broker: 1 objects that it published are deleted" in result.out
    assert "hanse: cluster id 'hamburg' is that of another cluster (kube-system uid" in result.err
    assert re.search(
        r"^broker: hamburg \(kube-system uid \S+\) is replaced;", result.out, re.MULTILINE
    )
    assert "lubeck has joined broker as hamburg; start its agent, unless it runs:" in result.out
    assert "epoch 2" in result.out
    assert "fish of hamburg" in result.out
