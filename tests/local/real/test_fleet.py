"""How a fleet of real clusters reports that its clusters do not start."""

from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.errors import KubeError, Unreachable
from hanse.local.kubeconfig import Context
from hanse.local.real.cluster import RealCluster
from hanse.local.real.config import ClusterConfig
from hanse.local.real.errors import ClusterNotReady, RealClusterError
from hanse.local.real.fleet import RealFleet
from hanse.local.up.errors import UpError
from hanse.local.up.kubernetes import KubernetesCluster

pytestmark = pytest.mark.anyio


class FailingCluster:
    """A cluster that does not start if there is an error of its name."""

    errors: ClassVar[dict[str, Exception]] = {}

    def __init__(self, config: ClusterConfig, *_: Any) -> None:
        self.name = config.name

    @property
    def context(self) -> Context:
        return Context(self.name, ClientConfig(ServerEndpoint("https://127.0.0.1:1"), Identity()))

    async def start(self) -> None:
        if self.name in self.errors:
            raise self.errors[self.name]

    async def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    "errors",
    [
        {"lubeck": Unreachable("reset")},
        {"lubeck": Unreachable("reset"), "bergen": Unreachable("reset")},
        {"lubeck": Unreachable("reset"), "bergen": ClusterNotReady("not ready")},
    ],
    ids=["one request", "two requests", "a request and a cluster"],
)
async def test_a_fleet_that_does_not_start_raises_one_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, errors: dict[str, Exception]
) -> None:
    monkeypatch.setattr("hanse.local.real.fleet.RealCluster", FailingCluster)
    monkeypatch.setattr(FailingCluster, "errors", errors)

    with pytest.raises((KubeError, RealClusterError), match=r"reset|not ready"):
        async with RealFleet(tmp_path, {}, ("lubeck", "bergen")):
            pass


class Unrestorable:
    """A cluster that does not start again when it is restored."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def restore(self, *_: Any, **__: Any) -> None:
        raise self._error


@pytest.mark.parametrize("error", [Unreachable("reset"), ClusterNotReady("not ready")])
async def test_a_restore_that_fails_is_told_in_a_sentence(tmp_path: Path, error: Exception) -> None:
    cluster = KubernetesCluster(cast("RealCluster", Unrestorable(error)))

    with pytest.raises(UpError, match=str(error)):
        await cluster.restore(tmp_path / "save", 7)
