"""What is installed and shipped is pinned by hash, and listed."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from tools.sbom import LOCK, ROOT, bill_of_materials

LOCKS = ("requirements.lock", "requirements-runtime.lock")
_ENTRY = re.compile(r"^(\S+?)==(\S+).*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def entries(name: str) -> dict[str, str]:
    return {m[1]: m[0] for m in _ENTRY.finditer((ROOT / name).read_text())}


@pytest.mark.parametrize("name", LOCKS)
def test_every_pinned_distribution_has_hashes_and_no_index_is_named(name: str) -> None:
    found = entries(name)

    assert len(found) > 10
    assert [one for one, text in found.items() if "--hash=sha256:" not in text] == []
    assert "://" not in (ROOT / name).read_text()


def test_the_image_has_the_versions_that_were_tested() -> None:
    tested, shipped = (
        {one: re.search(r"==(\S+)", text)[1] for one, text in entries(name).items()}  # type: ignore[index]
        for name in LOCKS
    )

    assert shipped.items() <= tested.items()


def test_installing_demands_hashes() -> None:
    for file in ("Makefile", "Dockerfile"):
        text = (ROOT / file).read_text()
        installs = [line for line in text.splitlines() if re.search(r"install.* -r ", line)]
        assert installs, file
        assert all("--require-hashes" in line for line in installs), file


def test_every_stage_of_the_image_has_the_base_that_is_pinned_by_digest() -> None:
    text = (ROOT / "Dockerfile").read_text()

    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}


def test_the_bill_of_materials_lists_all_that_is_shipped_and_is_reproducible() -> None:
    bill = bill_of_materials(LOCK.read_text())

    assert bill["bomFormat"] == "CycloneDX"
    assert {one["name"] for one in bill["components"]} == entries(LOCK.name).keys()
    known = {one["bom-ref"] for one in (*bill["components"], bill["metadata"]["component"])}
    assert {ref for one in bill["dependencies"] for ref in one["dependsOn"]} <= known
    direct = tomllib.loads(Path(ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert len(bill["dependencies"][0]["dependsOn"]) == len(direct)
    assert json.dumps(bill) == json.dumps(bill_of_materials(LOCK.read_text()))
