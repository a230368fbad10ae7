"""The state of a cluster in which not everything can be read, and closing its API."""

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from hanse.kube.clock import WallClock
from hanse.kube.errors import Forbidden, KubeError, Status, Unreachable
from hanse.kube.watch_events import Interrupted
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import ClusterState, Facts, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import Object
from hanse.runtime.api import ClusterClient
from hanse.runtime.connection import Connection, Informer, Scope
from hanse.runtime.informers import ClusterInformers
from tinykube.apiserver import ApiServer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORBIDDEN = Forbidden(Status(code=403, reason="Forbidden", message="you cannot list it"))


def state_of(role: Role, **failing: KubeError) -> tuple[Phase, str]:
    """The phase and its reason of a cluster in which these kinds cannot be read."""
    state = full_state(role, **failing)
    return state.phase, state.reason


def full_state(role: Role, **failing: KubeError) -> ClusterState:
    """How a cluster stands in which these kinds cannot be read."""
    api = ClusterClient(InProcessTransport(ApiServer("broker", clock=WallClock())), Random(0))
    connection = Connection("broker", frozenset({role}), api, NOW)
    kinds: tuple[type[Object], ...] = (ConfigMap, Lease, ServiceImport)
    for kind in kinds:
        scope = Scope(kind, "", "")
        connection.informers[scope] = stream = Informer(scope, ())
        if kind.kind.name in failing:
            stream.take(Interrupted(failing[kind.kind.name]))
    return connection.current_state(NOW)


def test_a_phase_did_not_begin_in_the_time_that_a_clock_went_back() -> None:
    api = ClusterClient(InProcessTransport(ApiServer("broker", clock=WallClock())), Random(0))
    connection = Connection("broker", frozenset({Role.BROKER}), api, NOW)
    connection.state = connection.current_state(NOW)

    back = NOW - timedelta(hours=1)

    assert connection.current_state(NOW + timedelta(hours=1)).since == NOW
    assert connection.current_state(back).since == back


def test_the_state_names_what_may_not_be_read_if_that_is_all_that_is_wrong() -> None:
    refused = full_state(Role.LOCAL, Lease=FORBIDDEN, ServiceImport=FORBIDDEN)
    lost = full_state(Role.LOCAL, Lease=FORBIDDEN, ServiceImport=Unreachable("refused"))

    assert refused.forbidden == ("leases", "serviceimports")
    assert (lost.forbidden, full_state(Role.LOCAL).forbidden) == ((), ())


@pytest.mark.parametrize(
    ("role", "remedy"),
    [
        (Role.LOCAL, "apply what `hanse manifests` prints once more"),
        (Role.BROKER, "let it `hanse join --broker` once more"),
        (Role.MEMBER, "let it `hanse join --federation` once more"),
        (Role.SITE, "apply what `hanse gslb rights` prints once more"),
    ],
)
def test_rights_that_are_missing_are_named_with_the_remedy(role: Role, remedy: str) -> None:
    phase, reason = state_of(role, Lease=FORBIDDEN, ServiceImport=FORBIDDEN)

    assert phase is Phase.UNREACHABLE
    assert reason == (
        "the agent's account may not read Lease.coordination.k8s.io, "
        f"ServiceImport.multicluster.x-k8s.io; {remedy}"
    )


def test_a_cluster_that_rejects_our_credentials_while_its_watches_are_up_is_not_silent() -> None:
    api = ClusterClient(InProcessTransport(ApiServer("broker", clock=WallClock())), Random(0))
    connection = Connection("bergen", frozenset({Role.MEMBER}), api, NOW)
    connection.informers[Scope(Lease, "", "")] = Informer(Scope(Lease, "", ""), ())
    connection.rejection = "Unauthorized"

    state = connection.current_state(NOW)

    assert (state.phase, state.rejected, state.silent) == (Phase.UNREACHABLE, True, False)


def test_an_outage_is_reported_before_missing_rights() -> None:
    _, reason = state_of(Role.BROKER, ConfigMap=FORBIDDEN, Lease=Unreachable("connection refused"))

    assert reason == "connection refused"


class Slow(InProcessTransport):
    """A transport whose first close never returns."""

    asked = 0
    ended = False

    async def close(self) -> None:
        self.asked += 1
        if self.asked == 1:
            await asyncio.sleep(3600)
        self.ended = True


@pytest.mark.anyio
@pytest.mark.parametrize("replaced", [False, True], ids=["left", "replaced"])
async def test_an_api_whose_close_was_cancelled_is_closed_with_the_informers(
    replaced: bool,
) -> None:
    informers = ClusterInformers((), Facts(), WallClock(), "lubeck")
    transport = Slow(ApiServer("bergen", clock=WallClock()))

    async def part() -> None:
        async with informers.running():
            informers.join("bergen", {Role.MEMBER}, ClusterClient(transport, Random(0)))
            if replaced:
                other = InProcessTransport(ApiServer("bergen", clock=WallClock()))
                informers.join("bergen", {Role.MEMBER}, ClusterClient(other, Random(0)))
                await asyncio.get_running_loop().create_future()
            await informers.disconnect("bergen")

    parting = asyncio.create_task(part())
    while not transport.asked:  # noqa: ASYNC110 - a turn of the loop or two
        await asyncio.sleep(0)
    parting.cancel()
    await asyncio.wait({parting})
    assert not transport.ended

    await informers.close()

    assert transport.ended
