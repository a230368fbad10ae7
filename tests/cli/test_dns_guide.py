"""The guide to names says what is true: its commands are run as they stand there."""

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.programs import hanse

GUIDE = Path(__file__).parents[2] / "docs/guides/dns.md"


@pytest.mark.skipif(shutil.which("dig") is None, reason="needs dig (Debian: bind9-dnsutils)")
def test_the_walk_on_your_machine_works(tmp_path: Path) -> None:
    (section,) = re.findall(
        r"^## On your machine\n(.*?)(?=^## )", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
    (tmp_path / "walk.sh").write_text("set -eu\n" + commands)

    result = hanse("up", "--exec", "bash walk.sh", cwd=tmp_path, patience=120)

    assert result.status == 0, result.out + result.err
    assert "local first: bergen is ready" in result.out
    assert re.search(r"^0 50 \d+ web\.shop\.svc\.clusterset\.local\.$", result.out, re.MULTILINE)
    assert "clusterset.local:53 {" in result.out
    assert re.search(
        r'^dns-version\.clusterset\.local\.\s+5\s+IN\s+TXT\s+"1\.0\.0"', result.out, re.MULTILINE
    )
    assert "dns stops" in result.err
