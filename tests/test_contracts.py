"""Each import contract breaks when a forbidden import is added to a copy of the source."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FORBIDDEN = {
    "layers": ("hanse/runtime/__init__.py", "import hanse.app"),
    "features": ("hanse/features/gslb/__init__.py", "import hanse.features.services.feature"),
    "pure": ("hanse/features/services/__init__.py", "import socket"),
    "providers": ("hanse/features/gslb/__init__.py", "import hanse.providers"),
    "tinykube": ("tinykube/__init__.py", "import hanse.model"),
    "composition": ("hanse/web/__init__.py", "import hanse.features.services.feature"),
    "commands": ("hanse/cli/__init__.py", "import hanse.runtime.reconciler"),
    "pure-servers": ("hanse/dns/compiler.py", "import random"),
    "embedded": ("hanse/runtime/__init__.py", "import tinykube"),
}


def contracts() -> set[str]:
    return set(re.findall(r'^id = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))


def test_every_contract_is_tried() -> None:
    assert contracts() == FORBIDDEN.keys()


@pytest.mark.parametrize("contract", sorted(FORBIDDEN))
def test_a_forbidden_import_breaks_the_contract(contract: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file, line = FORBIDDEN[contract]
    module = tmp_path / "src" / file

    kept = lint(contract, tmp_path)
    module.write_text(f"{module.read_text()}\n{line}\n")
    broken = lint(contract, tmp_path)

    assert kept.returncode == 0, kept.stdout
    assert broken.returncode == 1, broken.stdout
    assert "1 broken" in broken.stdout


def lint(contract: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    program = (
        "import sys; sys.path.insert(0, 'src'); "
        "from importlinter.cli import lint_imports_command as run; run()"
    )
    arguments = ("--no-cache", "--config", "pyproject.toml", "--contract", contract)
    return subprocess.run(
        (sys.executable, "-c", program, *arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
