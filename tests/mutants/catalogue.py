"""The mutants of `mutants.patch`: small faults in decisions, each in one place of one file.

    # NAME
    --- FILE
    -lines as they are, which occur once
    +lines with the fault
    ! why nothing notices it, if so

The first seventeen are kinds of faults that were once planted and survived the laws; the others
were planted without looking at the tests.
"""

import re
import shutil
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
SERIES = Path(__file__).with_name("mutants.patch")


class Mutant(Struct, frozen=True):
    """One fault: `old`, which occurs once in the file, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    survives: str = ""
    """Why nothing notices it; empty if something has to."""

    def apply(self, text: str) -> str:
        """The text of the file with the fault; raises `ValueError` if it no longer fits."""
        if text.count(self.old) != 1:
            found = f"{self.file} has its lines {text.count(self.old)} times"
            raise ValueError(f"{self.name}: {found}; mend tests/mutants/mutants.patch")
        return text.replace(self.old, self.new)


def load_mutants() -> tuple[Mutant, ...]:
    """All mutants, in their order."""
    return tuple(
        _parse(block) for block in re.split(r"^# ", SERIES.read_text(), flags=re.MULTILINE)[1:]
    )


def _parse(block: str) -> Mutant:
    name, header, *lines = block.rstrip("\n").split("\n")
    return Mutant(
        name,
        header.removeprefix("--- src/"),
        old="".join(f"{line[1:]}\n" for line in lines if line.startswith("-")),
        new="".join(f"{line[1:]}\n" for line in lines if line.startswith("+")),
        survives=" ".join(line[2:] for line in lines if line.startswith("! ")),
    )


def plant(mutant: Mutant, folder: Path) -> Path:
    """A copy of `src` in a folder, with the fault."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    file = source / mutant.file
    file.write_text(mutant.apply(file.read_text()))
    return source
