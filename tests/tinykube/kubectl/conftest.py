"""A cluster for each test, and the oldest and newest kubectl that are supported."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanse.local.real.binaries import cache_folder, cached
from hanse.local.real.programs import KUBECTL
from tests.tinykube.kubectl.command import Kubectl
from tinykube.cluster import Cluster
from tinykube.controllers.controller_manager import ALL_CONTROLLERS, CORE_CONTROLLERS


@pytest.fixture(params=["installed", "built"])
def program(request: pytest.FixtureRequest) -> Path:
    """The kubectl on PATH, and the newest one where it was built."""
    if request.param == "built":
        built = cached(KUBECTL, cache_folder())
        if not built.exists():
            pytest.skip(f"kubectl {KUBECTL.version} is not built: make kube-binaries")
        if built.resolve() == Path(shutil.which("kubectl") or "").resolve():
            pytest.skip("the kubectl on PATH is the one that was built")
        return built
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("there is no kubectl on this machine")
    return Path(found)


@asynccontextmanager
async def serving(folder: Path, program: Path, enabled: frozenset[str]) -> AsyncIterator[Kubectl]:
    cluster = Cluster("lubeck", controllers=enabled)
    async with cluster, cluster.serve(folder / "kubeconfig") as url:
        yield Kubectl(program, folder, url, dict(os.environ))


@pytest.fixture
async def kubectl(tmp_path: Path, program: Path) -> AsyncIterator[Kubectl]:
    """A cluster without workload controllers."""
    async with serving(tmp_path, program, CORE_CONTROLLERS) as made:
        yield made


@pytest.fixture
async def workload_kubectl(tmp_path: Path, program: Path) -> AsyncIterator[Kubectl]:
    """A cluster with nodes, on which pods become ready."""
    async with serving(tmp_path, program, ALL_CONTROLLERS) as made:
        yield made
