"""Invariants at the end of any history: all members agree, and foreign objects are unchanged."""

import pytest

from tests.features.federated.schedules import replay


@pytest.mark.parametrize("seed", range(4))
def test_every_history_ends_well(seed: int) -> None:
    replay(seed)
