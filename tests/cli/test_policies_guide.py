"""The guide to policies says what is true: its commands are run as they stand there."""

import re
from pathlib import Path

from tests.cli.programs import hanse

GUIDE = Path(__file__).parents[2] / "docs/guides/policies.md"


def test_the_walk_through_the_guide_works(tmp_path: Path) -> None:
    commands = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "walk.sh").write_text("set -eu\n" + "\n".join(commands))

    result = hanse(
        *("up", "--no-sample", "--exec", "timeout 150 bash walk.sh"), cwd=tmp_path, patience=180
    )

    assert result.status == 0, result.out + result.err
    assert "acnp/no-telnet  lubeck   Applied  Applied  Applied\n" in result.out
    assert "Replicated" in result.out
    assert "Blocked: PlainPolicy" in result.out
    assert "the version of hamburg lost against lubeck's and is kept" in result.out
    assert "acnp/no-telnet: bergen has carried it out" in result.out
    assert "no policy is federated" in result.out.rsplit("no-ftp", 1)[1]
    assert "Warning: federated.anp.antreaplus.vmware.com: spec.ingress[0].from[0]" in result.err
    assert "local-only in lubeck: spec.ingress[0].from[0] selects only" in result.out
