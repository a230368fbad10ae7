"""The mutants fit the source, and one of them is noticed; `make mutants` tries them all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.catalogue import ROOT, Mutant, load_mutants, plant

MUTANTS = load_mutants()

SAMPLE = ("dead-cluster-imported", "tests/features/services/test_imports.py")
"""A mutant that tests of few seconds notice."""


def test_there_are_at_least_thirty_six_mutants_with_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 36


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_mutant_fits_the_source(mutant: Mutant) -> None:
    text = (ROOT / "src" / mutant.file).read_text()

    changed = mutant.apply(text)

    assert changed != text
    compile(changed, mutant.file, "exec")


def test_a_mutant_is_noticed(tmp_path: Path) -> None:
    name, nearest = SAMPLE
    source = plant(next(m for m in MUTANTS if m.name == name), tmp_path)
    tests = ("-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", nearest)

    ended = subprocess.run(
        [sys.executable, *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1, f"a test should have failed: {ended.stdout}{ended.stderr}"
