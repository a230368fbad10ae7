"""Real clusters for tests: one fleet for the whole run, and small ones to be hurt.

These tests run only when asked for (`-m real`): the first time, Kubernetes is built, which takes
minutes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import Struct

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import CLUSTER, KUBECTL

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is here, and leave it out of runs that choose nothing by mark."""
    here = [item for item in items if HERE in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.real)
    if not config.option.markexpr:
        config.hook.pytest_deselected(items=here)
        items[:] = [item for item in items if item not in here]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One event loop for the run, for it is the one that watches the fleet's servers."""
    return "asyncio"


@pytest.fixture(scope="session")
async def binaries() -> dict[str, Path]:
    """The programs of real clusters, and kubectl of the same version."""
    return await find_or_build((*CLUSTER, KUBECTL), cache_folder())


@pytest.fixture(scope="session")
async def real_clusters(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealFleet]:
    """Three clusters and a broker, shared: work in a namespace of your own, and hurt nothing."""
    folder = tmp_path_factory.mktemp("fleet")
    async with RealFleet(folder, binaries) as fleet, asyncio.TaskGroup() as group:
        providing = group.create_task(fleet.provide(), name="provide")
        yield fleet
        providing.cancel()


class Said(Struct, frozen=True):
    """What a command said and how it ended."""

    status: int
    output: str
    errors: str


Kubectl = Callable[..., Awaitable[Said]]


@pytest.fixture(scope="session")
def kubectl(binaries: dict[str, Path]) -> Kubectl:
    """Run kubectl in one context of a fleet's kubeconfig."""

    async def run(kubeconfig: Path, context: str, *arguments: str, given: str = "") -> Said:
        running = await asyncio.create_subprocess_exec(
            binaries["kubectl"],
            f"--kubeconfig={kubeconfig}",
            f"--context={context}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await running.communicate(given.encode())
        return Said(running.returncode or 0, output.decode(), errors.decode())

    return run
