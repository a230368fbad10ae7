"""One federation for all tests that leave nothing in it that others would notice."""

from collections.abc import Iterator

import pytest

from tests.cli.programs import RunningFederation, commands_in_forks, running


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Three clusters with the sample."""
    with running(tmp_path_factory.mktemp("fleet")) as federation:
        yield federation


@pytest.fixture(scope="session", autouse=True)
def forked_commands() -> Iterator[None]:
    """Importing is most of what a short command takes, and the same each time."""
    with commands_in_forks():
        yield
