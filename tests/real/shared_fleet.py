"""Session fixtures: one real fleet for a whole test run."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import CLUSTER, KUBECTL


@pytest.fixture(scope="session")
async def binaries() -> dict[str, Path]:
    """The programs of real clusters, and kubectl of the same version."""
    return await find_or_build((*CLUSTER, KUBECTL), cache_folder())


@pytest.fixture(scope="session")
async def real_clusters(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealFleet]:
    """Three clusters and a broker, shared: each test uses its own namespaces."""
    folder = tmp_path_factory.mktemp("fleet")
    async with RealFleet(folder, binaries) as fleet, asyncio.TaskGroup() as group:
        provisioners = group.create_task(fleet.run_provisioners(), name="provide")
        yield fleet
        provisioners.cancel()
