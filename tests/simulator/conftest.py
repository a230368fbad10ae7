"""Started fleets, which the tests of a worker share."""

from collections.abc import Iterator

import pytest

from tests.support.simulator.forks import StartedFleets


@pytest.fixture(scope="session")
def fleets() -> Iterator[StartedFleets]:
    """Fleets that start when they are first needed, and end with the session."""
    started = StartedFleets()
    yield started
    started.end()
