"""Our elector and client-go's stand for the same Lease: kube-controller-manager is the peer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.credentials import from_files
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.kube.leader_election import LeaderElector, LeaderState
from hanse.kube.lease import LeaseTimings
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import CONTROLLER_MANAGER
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import Namespace
from hanse.model.objects import Meta

pytestmark = pytest.mark.anyio

SPACE, NAME = "elections", "member"
TERMS = LeaseTimings(
    lease_duration=timedelta(seconds=4),
    renew_deadline=timedelta(seconds=3),
    retry_period=timedelta(milliseconds=500),
)
OURS = "lubeck_1"


@pytest.fixture
async def client(real_clusters: RealFleet) -> AsyncIterator[Client]:
    made = Client(HttpTransport(from_files((real_clusters.kubeconfig,))))
    with suppress(AlreadyExists):
        await made.create(Namespace(metadata=Meta(name=SPACE)))
    yield made
    with suppress(NotFound):
        await made.delete(Lease, NAME, SPACE)
    await made.close()


@asynccontextmanager
async def client_go(
    binaries: dict[str, Path], kubeconfig: Path, log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program whose elector is client-go's; it is killed at the end, without a good-bye."""
    with log.open("wb") as written:
        running = await asyncio.create_subprocess_exec(
            binaries[CONTROLLER_MANAGER.name],
            f"--kubeconfig={kubeconfig}",
            "--controllers=ttl-after-finished-controller",
            "--secure-port=0",
            "--leader-elect=true",
            f"--leader-elect-resource-namespace={SPACE}",
            f"--leader-elect-resource-name={NAME}",
            f"--leader-elect-lease-duration={int(TERMS.lease_duration.total_seconds())}s",
            f"--leader-elect-renew-deadline={int(TERMS.renew_deadline.total_seconds())}s",
            f"--leader-elect-retry-period={int(TERMS.retry_period.total_seconds() * 1000)}ms",
            stdout=written,
            stderr=written,
        )
        try:
            yield running
        finally:
            if running.returncode is None:
                running.kill()
                await running.wait()


@asynccontextmanager
async def running_elector(client: Client) -> AsyncIterator[list[LeaderState]]:
    """Run our elector; yields the list of its leader states."""
    states: list[LeaderState] = []
    elector = LeaderElector(
        client, SPACE, NAME, OURS, clock=WallClock(), random=Random(1), timings=TERMS
    )
    task = asyncio.create_task(elector.run(states.append), name="elector")
    try:
        yield states
    finally:
        task.cancel()
        await asyncio.wait({task})


async def held(client: Client, wanted: Callable[[LeaseSpec], bool]) -> LeaseSpec:
    """The record as soon as it is so."""
    async with asyncio.timeout(20):
        while True:
            with suppress(NotFound):
                spec = (await client.read(Lease, NAME, SPACE)).spec
                if wanted(spec):
                    return spec
            await asyncio.sleep(0.1)


def by_us(spec: LeaseSpec) -> bool:
    return spec.holder_identity == OURS


def by_the_peer(spec: LeaseSpec) -> bool:
    return spec.holder_identity not in ("", OURS)


async def test_a_lease_passes_between_our_elector_and_that_of_client_go(
    client: Client, binaries: dict[str, Path], real_clusters: RealFleet, tmp_path: Path
) -> None:
    peer = client_go(binaries, real_clusters.kubeconfig, tmp_path / "peer.log")
    async with running_elector(client) as states:
        first = await held(client, by_us)
        async with peer:
            await asyncio.sleep(
                TERMS.lease_duration.total_seconds() + 2
            )  # it stands, and waits for us
            kept = await held(client, by_us)
            assert kept.lease_transitions == first.lease_transitions, "client-go took it from us"
            assert kept.renew_time is not None
            assert first.renew_time is not None
            assert kept.renew_time > first.renew_time

    # We stopped and gave it back while the peer ran no more; now the peer leads and we follow.
    peer = client_go(binaries, real_clusters.kubeconfig, tmp_path / "second.log")
    async with peer:
        second = await held(client, by_the_peer)
        assert second.lease_transitions == first.lease_transitions + 1
        async with running_elector(client) as states:
            await asyncio.sleep(TERMS.lease_duration.total_seconds() + 2)
            third = await held(client, by_the_peer)
            assert third.holder_identity == second.holder_identity, "we took it from client-go"
            assert [getattr(one, "holder", "") for one in states][-1] == second.holder_identity
    # It was killed: it gave nothing back, and we wait until its lease has run out.
    async with running_elector(client):
        last = await held(client, by_us)
        assert last.lease_transitions == second.lease_transitions + 1
