"""Which replica of an agent works, and how many wait, as a person sees it."""

import pytest
from msgspec.structs import replace

from hanse.cli.doctor.lists import DEPLOYMENTS
from hanse.cli.fleet import build_fleet
from hanse.features.fleet.view import ClustersView
from hanse.kube.watch_events import Listed
from hanse.model.kinds.apps import Deployment, DeploymentSpec, DeploymentStatus
from hanse.model.objects import Meta
from tests.support.fleet_reads import NOW, lease, read


@pytest.mark.parametrize(
    ("age", "ready", "expected"),
    [(1, 3, ("agent-7d4-x2", 2)), (1, 0, ("agent-7d4-x2", 0)), (600, 3, ("", 0))],
    ids=["two wait", "nothing is known to wait", "nobody works"],
)
def test_the_replica_that_works_is_named_and_those_on_standby_are_counted(
    age: float, ready: int, expected: tuple[str, int]
) -> None:
    own = read(
        "lubeck", lease("hanse-agent", "hanse-system", "lubeck_agent-7d4-x2", age), agent=None
    )
    installed = Deployment(
        metadata=Meta(name="hanse-agent", namespace="hanse-system"),
        spec=DeploymentSpec(replicas=3),
        status=DeploymentStatus(ready_replicas=ready),
    )
    own = replace(own, lists={**own.lists, DEPLOYMENTS: Listed((installed,), "1")})

    item = ClustersView().render("lubeck", build_fleet([own], NOW))

    assert item is not None
    assert (item.replica, item.standby) == expected
