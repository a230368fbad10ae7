"""Reads every cluster by itself, again and again, and keeps what it last saw of each."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from hanse.cli.clusters import ClusterAccess, ReadFailure, read_cluster
from hanse.cli.fleet import (
    ClusterRead,
    build_fleet,
    missing_reads,
    read_further,
    read_objects,
    unread,
)
from hanse.cli.inventory import discover_kinds
from hanse.kube.client import Client
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace
from hanse.model.snapshot import Watch

INTERVAL = 5.0
"""Seconds between two readings of a cluster; in a large fleet more."""
INTERVAL_PER_CLUSTER = 0.25
START_INTERVAL = 0.5
"""Seconds until a cluster is read again while others have not been read at all."""
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
        """The names of all namespaces, and those of all objects, that were last read."""
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
        """Rebuild the snapshot and call `on_change`, if something was read, each second."""
        while True:
            if self._dirty:
                self._dirty = False
                now = datetime.now(UTC)
                self._fleet = build_fleet(self._reads.values(), now, local=self._local)
                self.on_change()
            await asyncio.sleep(PUBLISH_INTERVAL)

    async def _follow(self, cluster: ClusterAccess) -> None:
        """Read one cluster again and again; faster while others were not read at all."""
        usual = max(INTERVAL, INTERVAL_PER_CLUSTER * len(self._clusters))
        while True:
            completes = self._all_read
            found = await read_cluster(cluster, self._read)
            self._take(cluster.name, unread(found) if isinstance(found, ReadFailure) else found)
            await asyncio.sleep(usual if completes else START_INTERVAL)

    @property
    def _all_read(self) -> bool:
        """Whether each cluster was read once, or has failed."""
        return len(self._reads) == len(self._clusters)

    async def _read(self, cluster: ClusterAccess, client: Client) -> ClusterRead:
        """Read a cluster's first lists and, once all were read, those that the others call for."""
        await discover_kinds(client)
        found = await read_objects(cluster, client)
        if not self._all_read:
            return found
        while more := self._missing(cluster.name, found):
            found = await read_further(found, client, more)
        return found

    def _missing(self, name: str, found: ClusterRead) -> set[Watch]:
        """What a cluster has yet to list; clusters stay in order, as the first is asked for all."""
        return missing_reads({**self._reads, name: found}.values()).get(name, set())

    def _take(self, name: str, read: ClusterRead) -> None:
        """Keep a reading; one that failed leaves what was read before, with its age, if it was."""
        now = datetime.now(UTC)
        if not read.failure:
            self._read_at[name] = now
        elif name in self._read_at:
            age = int((now - self._read_at[name]).total_seconds())
            text = f"{read.failure}; shown as it was {age} s ago"
            read = replace(self._reads[name], failure=text, refused=read.refused)
        self._reads[name] = read
        self._dirty = True
