"""axe-core, which finds what people with other eyes and hands cannot use; fetched once by npm."""

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.web.dashboard.browser import Page

VERSION = "4.10.3"
DIGEST = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
PLACE = Path.home() / ".cache/hanse" / f"axe-core-{VERSION}.tgz"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa")


def axe_source() -> str:
    """The program to run in a page; skips where it is not here and cannot be fetched."""
    if not PLACE.exists():
        npm = shutil.which("npm") or pytest.skip(
            "no npm here to fetch axe-core: apt-get install npm"
        )
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(
            [npm, "pack", f"axe-core@{VERSION}"],
            cwd=PLACE.parent,
            capture_output=True,
            timeout=120,
            check=False,
        )
        if fetched.returncode:
            pytest.skip(f"axe-core cannot be fetched: {fetched.stderr.decode()[-200:]}")
    assert hashlib.sha256(PLACE.read_bytes()).hexdigest() == DIGEST
    with tarfile.open(PLACE) as package:
        found = package.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


async def violations(page: Page, source: str) -> list[str]:
    """What breaks WCAG 2.1 AA in a page as it is shown now."""
    await page.ask(f"{source}; 0")
    run = (
        f"axe.run(document, {{runOnly: {json.dumps(RULES)}}}).then(r => JSON.stringify("
        "r.violations.flatMap(v => v.nodes.map("
        "n => `${v.id} ${n.target} ${n.failureSummary}`))))"
    )
    found: list[str] = json.loads(await page.ask(run))
    return found
