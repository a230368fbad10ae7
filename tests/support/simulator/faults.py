"""The faults of clusters, links, agents and clocks, which every feature must survive."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Literal

from msgspec.structs import replace

from hanse.features.gslb.names import site_of
from hanse.features.services.records import FIRST_PUBLICATIONS
from hanse.kube.errors import KubeError
from hanse.model.objects import ClusterId
from tests.support.faults import Link, LinkFaults
from tests.support.simulator.fleet import Backup, Fleet, server_party
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import BROKER, CLUSTERS, EVERYWHERE, step
from tests.support.testbed_embedded import EmbeddedTestbed
from tinykube.storage import Snapshot

STORM = LinkFaults(delay=timedelta(milliseconds=30), refused=0.15, lost=0.1, breaks=0.1)
SLOW = LinkFaults(delay=timedelta(seconds=2), lag=timedelta(seconds=4))
LATE_WATCHES = LinkFaults(lag=timedelta(seconds=4))
CRASH_WAIT = 30.0
BUMP = 1000


class Faults:
    """Faults by their step; what is undone by itself takes its time in the step."""

    name = "faults"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def open(self) -> None:
        """Nothing: faults come later."""

    async def heal(self) -> None:
        """Heal links, continue and start agents, and set clocks right."""
        fleet = self._fleet
        fleet.network.heal_all()
        for name in fleet.names:
            await self.go_on(name)
            if name not in fleet.agents:
                await fleet.start_agent(name)
        if isinstance(fleet.testbed, EmbeddedTestbed):
            for clock in fleet.testbed.clocks.values():
                clock.skew = timedelta(0)

    def laws(self) -> Sequence[Law]:
        return ()

    def _links(self, source: ClusterId, target: ClusterId) -> Iterator[Link]:
        """The links of an agent to a cluster, also as a GSLB site."""
        network = self._fleet.network
        yield network.link(source, target)
        yield network.link(source, site_of(target))

    # -- links

    @step(4, source=CLUSTERS, target=EVERYWHERE)
    async def cut(self, source: ClusterId, target: ClusterId) -> None:
        for link in self._links(source, target):
            self._fleet.network.cut(link.source, link.target)

    @step(1, source=CLUSTERS, target=EVERYWHERE)
    async def hang(self, source: ClusterId, target: ClusterId) -> None:
        """Requests are accepted and never answered."""
        for link in self._links(source, target):
            self._fleet.network.hang(link.source, link.target)

    @step(3, source=CLUSTERS, target=EVERYWHERE)
    async def storm(self, source: ClusterId, target: ClusterId) -> None:
        """Answers 409, 429, 500, 503 and 504, lost requests and answers, broken watches."""
        for link in self._links(source, target):
            link.faults = STORM

    @step(1, source=CLUSTERS, target=EVERYWHERE)
    async def slow(self, source: ClusterId, target: ClusterId) -> None:
        for link in self._links(source, target):
            link.faults = SLOW

    @step(2, source=CLUSTERS, target=EVERYWHERE)
    async def late_watches(self, source: ClusterId, target: ClusterId) -> None:
        """Events arrive late: decisions rest on old state."""
        for link in self._links(source, target):
            link.faults = LATE_WATCHES

    @step(2, searched=True, source=CLUSTERS, target=EVERYWHERE, what=("writes", "everything"))
    async def forbid(
        self, source: ClusterId, target: ClusterId, what: Literal["writes", "everything"]
    ) -> None:
        """The rights of an agent in a cluster are revoked: 403 until links are healed."""
        for link in self._links(source, target):
            link.faults = LinkFaults(forbids=what)
            link.break_watches()

    @step(3)
    async def heal_links(self) -> None:
        self._fleet.network.heal_all()

    # -- agents

    @step(2, cluster=CLUSTERS)
    async def kill(self, cluster: ClusterId) -> None:
        if cluster in self._fleet.agents:
            await self._fleet.kill_agent(cluster)

    @step(3, cluster=CLUSTERS)
    async def restart(self, cluster: ClusterId) -> None:
        await self._fleet.restart_agent(cluster)

    @step(2, requests=tuple(range(1, 25)))
    async def crash(self, requests: int) -> None:
        """The sender of the n-th request from now dies at it, and is started again."""
        fleet = self._fleet
        crash = fleet.network.crash_at(requests)
        done, _ = await asyncio.wait({crash}, timeout=CRASH_WAIT)
        fleet.network.cancel_crash()
        if done and crash.result() in fleet.agents:
            await fleet.restart_agent(crash.result())

    @step(2, searched=True, cluster=CLUSTERS, awaits=(1, 2, 5, 11, 23, 47, 101, 211, 401, 997))
    async def kill_at(self, cluster: ClusterId, awaits: int) -> None:
        """A process is killed at the n-th await from now, whatever it is about, and started."""
        loop = self._fleet.loop
        if loop is None or cluster not in self._fleet.agents:
            return
        loop.stop_process_after(cluster, awaits)
        await asyncio.sleep(CRASH_WAIT)
        loop.stop_process(cluster)
        await self._fleet.restart_agent(cluster)

    @step(2, cluster=CLUSTERS, seconds=(3, 12, 20, 60))
    async def stall(self, cluster: ClusterId, seconds: int) -> None:
        """A process is stopped for a while, as by SIGSTOP, and then goes on."""
        loop = self._fleet.loop
        if loop is None or cluster not in self._fleet.agents:
            return
        loop.stop_process(cluster)
        await asyncio.sleep(seconds)
        self._fleet.observe_health()
        await self.go_on(cluster)

    @step(1, cluster=CLUSTERS)
    async def stop(self, cluster: ClusterId) -> None:
        """A process is stopped until something continues it."""
        if self._fleet.loop is not None and cluster in self._fleet.agents:
            self._fleet.loop.stop_process(cluster)

    @step(1, cluster=CLUSTERS)
    async def go_on(self, cluster: ClusterId) -> None:
        """A stopped process goes on."""
        if self._fleet.loop is not None and cluster in self._fleet.loop.stopped:
            self._fleet.observe_health()
            self._fleet.loop.continue_process(cluster)

    # -- servers

    @step(2, cluster=EVERYWHERE)
    async def restart_server(self, cluster: ClusterId) -> None:
        """An API server is down for seconds, and has forgotten its history: 410 Gone."""
        self._fleet.disturb(server_party(cluster))
        await self._fleet.testbed.restart_server(cluster)
        self._fleet.disturb(server_party(cluster))

    @step(3, cluster=EVERYWHERE)
    async def back_up(self, cluster: ClusterId) -> None:
        await back_up(self._fleet, cluster)

    @step(2, cluster=EVERYWHERE, which=(0, 1, 2, 3))
    async def restore(self, cluster: ClusterId, which: int) -> None:
        """A cluster goes back to one of its backups, users' objects and versions included."""
        await self._restore(cluster, which, forward=False)

    @step(2, cluster=EVERYWHERE, which=(0, 1, 2, 3))
    async def restore_forward(self, cluster: ClusterId, which: int) -> None:
        """The same, but resourceVersions go forward, as `etcdutl --bump-revision` does it."""
        await self._restore(cluster, which, forward=True)

    async def _restore(self, cluster: ClusterId, which: int, *, forward: bool) -> None:
        fleet = self._fleet
        backups = fleet.backups.get(cluster)
        if not backups:
            return
        backup = backups[which % len(backups)]
        data = backup.data
        if forward and isinstance(fleet.testbed, EmbeddedTestbed) and isinstance(data, Snapshot):
            data = replace(data, version=fleet.testbed.servers[cluster].storage.version + BUMP)
        fleet.disturb(server_party(cluster))
        async with fleet.acting:  # what users have is what is restored
            await fleet.testbed.restore(cluster, data)
            fleet.users.restore(cluster, backup.users)
        fleet.disturb(server_party(cluster))
        fleet.restored_at[cluster] = fleet.now
        if forward:
            fleet.restored_forward_at[cluster] = fleet.now

    # -- clocks

    @step(1, cluster=EVERYWHERE, seconds=(-3600, -70, 70, 3600))
    async def jump_clock(self, cluster: ClusterId, seconds: int) -> None:
        """The clock of a cluster and of its agent jumps."""
        testbed = self._fleet.testbed
        if isinstance(testbed, EmbeddedTestbed):
            testbed.clocks[cluster].skew += timedelta(seconds=seconds)
            self._fleet.clocks_jumped = True
            if cluster == BROKER and testbed.clocks[cluster].skew > FIRST_PUBLICATIONS / 2:
                self._fleet.broker_was_ahead = True
            if seconds < 0:
                self._fleet.clock_set_back[cluster] = self._fleet.now


async def back_up(fleet: Fleet, cluster: ClusterId) -> None:
    """Keep the present state of a cluster, as the newest of its backups."""
    try:
        data = await fleet.testbed.back_up(cluster)
    except KubeError:
        return
    saved = fleet.users.saved(cluster)
    fleet.backups.setdefault(cluster, []).insert(0, Backup(data, saved))
