"""A cluster of its own for each test, reached by real kubectls of both ends of what we support."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket

import pytest

from hanse.kube.certificates import CertificateAuthority, server_context
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.clock import WallClock
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.local.real.binaries import cache_folder, cached
from hanse.local.real.programs import KUBECTL
from tests.tinykube.kubectl.running import Kubectl
from tinykube.apiserver import ApiServer
from tinykube.controllers.controller_manager import ALL, BROKER, ControllerManager
from tinykube.http import serve
from tinykube.users import ADMIN

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(params=["installed", "built"])
def program(request: pytest.FixtureRequest) -> Path:
    """The kubectl of this machine, and the newest one, where it was built."""
    if request.param == "built":
        built = cached(KUBECTL, cache_folder())
        if not built.exists():
            pytest.skip(f"kubectl {KUBECTL.version} is not built: make kube-binaries")
        return built
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("there is no kubectl on this machine")
    return Path(found)


@asynccontextmanager
async def serving(folder: Path, program: Path, which: frozenset[str]) -> AsyncIterator[Kubectl]:
    authority = CertificateAuthority.create("hanse tests")
    sock = socket(AF_INET, SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    server = f"https://127.0.0.1:{sock.getsockname()[1]}"
    access = ClientConfig(ServerEndpoint(server, authority.certificate), Identity(token=TOKEN))
    write_kubeconfig(folder / "kubeconfig", [Context("lubeck", access)])
    api = ApiServer("lubeck", clock=WallClock())
    controllers = ControllerManager(api, enabled=which)
    async with serve(api, sock, {TOKEN: ADMIN}, server_context(authority.server("lubeck"))):
        running = asyncio.create_task(controllers.run(), name="controllers")
        try:
            yield Kubectl(program, folder, server, dict(os.environ))
        finally:
            running.cancel()
            await asyncio.wait([running])


@pytest.fixture
async def kubectl(tmp_path: Path, program: Path) -> AsyncIterator[Kubectl]:
    """A cluster that runs nothing: namespaces and garbage are seen to, pods are not."""
    async with serving(tmp_path, program, BROKER) as made:
        yield made


@pytest.fixture
async def busy(tmp_path: Path, program: Path) -> AsyncIterator[Kubectl]:
    """A cluster with nodes, on which pods become ready."""
    async with serving(tmp_path, program, ALL) as made:
        yield made
