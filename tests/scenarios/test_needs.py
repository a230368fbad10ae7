"""What scenarios need of an engine is said, and how many one cannot play is known."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import tests.scenarios
from tests.scenarios.engines import missing

SKIPPED_ON_EMBEDDED_CLUSTERS = 3


def _needs() -> Iterator[frozenset[str]]:
    """What each scenario needs, one entry for each."""
    for module in pkgutil.iter_modules(tests.scenarios.__path__):
        if not module.name.startswith("test_"):
            continue
        loaded = importlib.import_module(f"tests.scenarios.{module.name}")
        for name, scenario in inspect.getmembers(loaded, inspect.isfunction):
            if name.startswith("test_") and scenario.__module__ == loaded.__name__:
                marks = getattr(scenario, "pytestmark", [])
                yield frozenset(n for m in marks if m.name == "needs" for n in m.args)


def test_the_number_of_scenarios_that_embedded_clusters_cannot_play_is_known() -> None:
    skipped = [needs for needs in _needs() if missing("embedded", needs)]

    assert len(skipped) == SKIPPED_ON_EMBEDDED_CLUSTERS


def test_real_clusters_play_every_scenario() -> None:
    assert not [needs for needs in _needs() if missing("kubernetes", needs)]


def test_a_need_that_no_engine_can_meet_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no engine has gold"):
        missing("embedded", frozenset({"gold"}))
