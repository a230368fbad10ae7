"""Fleets that have started are shared by the tests of a process."""

from collections.abc import Iterator

import pytest

from tests.support.simulator.forks import FLEETS


@pytest.fixture(scope="session", autouse=True)
def _end_fleets() -> Iterator[None]:
    yield
    FLEETS.end()
