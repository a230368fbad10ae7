"""What a fleet refuses before it starts anything."""

from pathlib import Path

import pytest

from hanse.local.real.fleet import RealFleet


def test_no_cluster_takes_the_name_of_the_broker(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no cluster can be named broker"):
        RealFleet(tmp_path, {}, names=("lubeck", "broker"))
