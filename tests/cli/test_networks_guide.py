"""The guide to tenant networks says what is true: its commands are run as they stand there."""

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.programs import hanse

GUIDE = Path(__file__).parents[2] / "docs/guides/networks.md"


def _commands(heading: str) -> str:
    """The shell blocks below a heading, one after the other."""
    (section,) = re.findall(
        rf"^## {heading}\n(.*?)(?=^## )", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


@pytest.mark.skipif(shutil.which("dig") is None, reason="needs dig")
def test_the_walk_on_your_machine_works(tmp_path: Path) -> None:
    (tmp_path / "walk.sh").write_text("set -eu\n" + _commands("On your machine"))

    up = ("up", "--no-sample", "--clusters", "lubeck", "--address-provider", "mizar")
    result = hanse(*up, "--exec", "bash walk.sh", cwd=tmp_path, patience=180)

    assert result.status == 0, result.out + result.err
    assert re.search(r"globex\.lab +· +✓ +· +·", result.out), result.out
    assert re.search(r"globex\.lab +· +✓ +✓ +·", result.out), result.out
    assert re.search(r"trial +ClusterIP +10\.77\.0\.\d+ ", result.out), result.out
    assert re.search(r"globex\.default +flat +Ready +10\.[0-9.]+ +1 +1\n", result.out), result.out
    assert re.search(r"globex\.lab +flat +Ready +10\.77\.0\.10 +0 +1\n", result.out), result.out
    assert re.search(r"kubernetes-far +ClusterIP +10\.60\.0\.\d+ ", result.out), result.out
    assert re.search(r"kube-dns-far +ClusterIP +10\.60\.0\.10 ", result.out), result.out
    assert re.search(r"remote +ClusterIP +10\.60\.0\.\d+ ", result.out), result.out
    assert 'network.arktos.futurewei.com "globex.far" deleted' in result.out
    assert "kube-dns.kube-system.svc.cluster.local." in result.out
    assert "waiting for Service globex-web/trial to be deleted" in result.out
    assert "tenant globex has no network initech" in result.err + result.out
