"""Each import contract breaks when a forbidden import is added to a copy of the source."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FORBIDDEN = {
    "layers": ("hanse.runtime", "hanse.app"),
    "features": ("hanse.features.gslb", "hanse.features.services.feature"),
    "pure": ("hanse.features.services", "socket"),
    "providers": ("hanse.features.gslb", "hanse.providers"),
    "tinykube": ("tinykube", "hanse.model"),
    "composition": ("hanse.web", "hanse.features.services.feature"),
    "commands": ("hanse.cli", "hanse.runtime.reconciler"),
    "pure-servers": ("hanse.dns.compiler", "random"),
    "embedded": ("hanse.runtime", "tinykube"),
}
"""By the id of a contract: a module, and what it may not import."""


def contract_names() -> dict[str, str]:
    """The names of all contracts, by id."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {one["id"]: one["name"] for one in config["tool"]["importlinter"]["contracts"]}


def test_every_contract_is_tried() -> None:
    assert contract_names().keys() == FORBIDDEN.keys()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each contract, by its name, once all forbidden imports are there."""
    folder = tmp_path_factory.mktemp("contracts")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for importing, imported in FORBIDDEN.values():
        path = folder.joinpath("src", *importing.split("."))
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        module.write_text(f"{module.read_text()}\nimport {imported}\n")
    _, _, broken = lint(folder).partition("Broken contracts\n")
    titles = list(re.finditer(r"^(.+)\n-+\n\n", broken, re.MULTILINE))
    ends = [*(title.start() for title in titles[1:]), len(broken)]
    return {t[1]: broken[t.end() : end] for t, end in zip(titles, ends, strict=True)}


@pytest.mark.parametrize("contract", sorted(FORBIDDEN))
def test_a_forbidden_import_breaks_the_contract(contract: str, reports: dict[str, str]) -> None:
    importing, imported = FORBIDDEN[contract]

    assert f" {importing} -> {imported} (" in reports[contract_names()[contract]]


def lint(folder: Path) -> str:
    """The output of the import linter over the source in a folder."""
    program = (
        "import sys; sys.path.insert(0, 'src'); "
        "from importlinter.cli import lint_imports_command as run; run()"
    )
    config = ("--no-cache", "--config", str(ROOT / "pyproject.toml"))
    return subprocess.run(
        (sys.executable, "-c", program, *config),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout
