"""Reads every cluster by itself, again and again, and keeps what it last saw of each."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from hanse.app.views import reads
from hanse.cli.clusters import ClusterAccess
from hanse.cli.fleet import ClusterRead, build_fleet, read_one
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace

INTERVAL = 5.0
"""Seconds between two readings of a cluster."""
PUBLISH_INTERVAL = 1.0
"""Seconds between two snapshots."""


class FleetPoller:
    """The fleet as it was last read, cluster by cluster; what is old is said to be old."""

    def __init__(self, clusters: Sequence[ClusterAccess], *, local: bool) -> None:
        self._clusters = clusters
        self._local = local
        self._reads: dict[str, ClusterRead] = {}
        self._read_at: dict[str, datetime] = {}
        self._fleet = MultiClusterSnapshot({})
        self._dirty = False
        self.on_change: Callable[[], None] = lambda: None
        """Called when the snapshot has changed."""

    def snapshot(self) -> MultiClusterSnapshot:
        """The fleet as of the last readings."""
        return self._fleet

    def namespaces(self) -> set[str]:
        """The namespaces of everything that was read."""
        found = {
            obj.namespace
            for one in self._reads.values()
            for listed in one.lists.values()
            for obj in listed.objects
            if obj.namespace
        }
        named = (one.objects(Namespace) for one in self._reads.values())
        return found | {obj.name for several in named for obj in several}

    async def run(self) -> None:
        """Read at intervals, each cluster on its own; never returns."""
        async with asyncio.TaskGroup() as group:
            for cluster in self._clusters:
                group.create_task(self._follow(cluster), name=f"read {cluster.name}")
            group.create_task(self._publish(), name="publish")

    async def _publish(self) -> None:
        """Build the fleet of what was read, at most once in a while however many clusters."""
        while True:
            if self._dirty:
                self._dirty = False
                now = datetime.now(UTC)
                self._fleet = build_fleet(self._reads.values(), now, local=self._local)
                self.on_change()
            await asyncio.sleep(PUBLISH_INTERVAL)

    async def _follow(self, cluster: ClusterAccess) -> None:
        while True:
            self._take(cluster.name, await read_one(cluster, reads()))
            await asyncio.sleep(INTERVAL)

    def _take(self, name: str, read: ClusterRead) -> None:
        """Keep a reading; one that failed leaves what was seen before, with its age."""
        now = datetime.now(UTC)
        known = self._reads.get(name)
        if read.failure and known is not None:
            age = int((now - self._read_at[name]).total_seconds())
            text = f"{read.failure}; shown as it was {age} s ago"
            read = replace(known, failure=text, refused=read.refused)
        else:
            self._read_at[name] = now
        self._reads[name] = read
        self._dirty = True
