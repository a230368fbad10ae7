"""The architecture page names functions that exist, few enough to follow a change through them."""

import re
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/architecture.md"
MOST = 25


def named_functions() -> list[str]:
    return re.findall(r"\| `(hanse\.[\w.]+)` \|", PAGE.read_text())


def test_the_path_of_a_change_names_functions_that_exist() -> None:
    for name in named_functions():
        parts = name.split(".")
        depth = next(n for n, part in enumerate(parts) if part[0].isupper() or n == len(parts) - 1)
        found: object = import_module(".".join(parts[:depth]))
        for part in parts[depth:]:
            found = getattr(found, part)
        assert callable(found), name


def test_the_path_of_a_change_is_short() -> None:
    assert 15 <= len(named_functions()) <= MOST
