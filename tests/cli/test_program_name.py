"""The name in hints is one that can be typed."""

import sys
from pathlib import Path

import pytest

from hanse.cli.program_name import program_name


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "hanse"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    return program


def test_on_the_path_it_is_the_plain_name(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", [str(installed), "up"])

    assert program_name() == "hanse"


@pytest.mark.usefixtures("installed")
def test_a_program_outside_of_path_is_named_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["bin/hanse", "up"])

    assert program_name() == "bin/hanse"


def test_another_one_on_the_path_is_not_meant(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "hanse"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.setattr(sys, "argv", [str(installed), "up"])

    assert program_name() == str(installed)


def test_as_a_plugin_it_is_kubectls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-hanse", "up"])

    assert program_name() == "kubectl hanse"
