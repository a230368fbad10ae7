"""Reads every cluster by itself, again and again, and keeps what it last saw of each."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from hanse.cli.clusters import ClusterAccess, ReadFailure, read_cluster
from hanse.cli.doctor.checks import CheckedFleet, ChecksView
from hanse.cli.doctor.lists import CONSOLE_FIRST, CONSOLE_LISTS, further_lists
from hanse.cli.fleet import ClusterRead, build_fleet, identified
from hanse.cli.fleet_lists import ask_renewal, read_further, read_objects, wanted_reads
from hanse.cli.inventory import (
    AccessAnswer,
    describe_cluster,
    explain_failure,
    read_access,
    read_version,
)
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.watch_events import Listed
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
CHECK_INTERVAL = 60.0
"""Seconds between two readings of what checks need: definitions are large, and seldom change."""


class FleetPoller:
    """The fleet as it was last read, cluster by cluster; what is old is said to be old."""

    def __init__(self, clusters: Sequence[ClusterAccess], *, local: bool) -> None:
        """Nothing is read until `run`; `local` says that the clusters are a local federation."""
        self._clusters = clusters
        self._local = local
        self._reads: dict[str, ClusterRead] = {}
        self._read_at: dict[str, datetime] = {}
        self._fleet = MultiClusterSnapshot({})
        self._dirty = False
        self._access: dict[str, AccessAnswer] = {}
        self._checked: dict[str, dict[Watch, Listed[Any]]] = {}
        """What checks need, as it was last read of each cluster."""
        self._check_at: dict[str, float] = {}
        """When that is read again, by the loop's time."""
        self._wanted: dict[str, set[Watch]] = {}
        """What each cluster is to list beside the first lists, by what all had listed."""
        self._wakes = {cluster.name: asyncio.Event() for cluster in clusters}
        """Set where a cluster has yet to list something that is wanted."""
        self.checks = ChecksView(self._checked_fleet, local=local)
        self.on_change: Callable[[], None] = lambda: None
        """Called when the snapshot has changed."""

    def snapshot(self) -> MultiClusterSnapshot:
        """The snapshot that was last built; it is empty before the first readings."""
        return self._fleet

    def namespaces(self) -> set[str]:
        """The names of all Namespaces, and the namespaces of all objects, that were last read."""
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
        """Read at intervals, each cluster on its own, and publish snapshots; never returns."""
        async with asyncio.TaskGroup() as group:
            for cluster in self._clusters:
                group.create_task(self._follow(cluster), name=f"read {cluster.name}")
            group.create_task(self._publish(), name="publish")

    async def _publish(self) -> None:
        """Rebuild the snapshot each second, if something was read, and call `on_change`.

        Never returns. It also wakes clusters that have more to list.
        """
        while True:
            if self._dirty:
                self._dirty = False
                now = datetime.now(UTC)
                self._fleet = build_fleet(self._reads.values(), now, local=self._local)
                self._share_wanted()
                self.on_change()
            await asyncio.sleep(PUBLISH_INTERVAL)

    def _share_wanted(self) -> None:
        """Compute from the latest readings which further lists each cluster needs.

        For checks only those of `CONSOLE_LISTS`. Wakes the reading of each cluster that has not
        tried all of its own. Does nothing until each cluster was read, or failed, once.
        """
        if not self._all_read:
            return
        beside = further_lists(self._reads.values())
        self._wanted = {
            name: lists | {one for one in beside.get(name, ()) if one in CONSOLE_LISTS}
            for name, lists in wanted_reads(self._reads.values()).items()
        }
        for name, lists in self._wanted.items():
            if lists - self._reads[name].tried:
                self._wakes[name].set()

    def _checked_fleet(self) -> CheckedFleet:
        """Inventories and readings of the clusters whose last reading did not fail, for checks."""
        reads = [one for one in self._reads.values() if not one.failure]
        inventories = [describe_cluster(one, self._access[one.context]) for one in reads]
        return CheckedFleet(inventories, reads, datetime.now(UTC))

    async def _follow(self, cluster: ClusterAccess) -> None:
        """Read one cluster again and again; faster while others were not read at all.

        It is also read at once when it is woken; a failure is kept as a reading. Never returns.
        """
        usual = max(INTERVAL, INTERVAL_PER_CLUSTER * len(self._clusters))
        while True:
            completes = self._all_read
            found = await read_cluster(cluster, self._read)
            if isinstance(found, ReadFailure):
                found = await explain_failure(cluster, found)
            self._keep_reading(cluster.name, found)
            wake = self._wakes[cluster.name]
            with suppress(TimeoutError):
                async with asyncio.timeout(usual if completes else START_INTERVAL):
                    await wake.wait()
            wake.clear()

    @property
    def _all_read(self) -> bool:
        """Whether each cluster was read once, or has failed."""
        return len(self._reads) == len(self._clusters)

    async def _read(self, cluster: ClusterAccess, client: Client) -> ClusterRead:
        """Read a cluster's version, first lists, access, and the lists that all readings call for.

        What checks need is listed once per `CHECK_INTERVAL`, and its last result used meanwhile.
        Keeps that and the access for checks. Raises `KubeError`.
        """
        answer = await read_version(client)
        await refresh(client)
        name, now = cluster.name, asyncio.get_running_loop().time()
        is_due = now >= self._check_at.get(name, now)
        found = await read_objects(cluster, client, CONSOLE_FIRST if is_due else ())
        if is_due:
            self._check_at[name] = now + CHECK_INTERVAL
            self._checked[name] = {w: found.lists[w] for w in CONSOLE_FIRST if w in found.lists}
        lists = {**self._checked[name], **found.lists}
        found = replace(
            found,
            lists=lists,
            skew=answer.skew,
            asked_at=answer.sent,
            slow=answer.is_slow,
        )
        found = await ask_renewal(found, client)
        if more := self._wanted.get(name, set()) - found.tried:
            found = await read_further(found, client, more)
        self._access[name] = await read_access(cluster, client, (), answer, found)
        return found

    def _keep_reading(self, name: str, read: ClusterRead) -> None:
        """Keep a reading for the next snapshot, and work out the ids of all clusters anew.

        If it failed and the cluster was read before, what was read then is kept, with the failure
        and the age of that as its text.
        """
        now = datetime.now(UTC)
        if not read.failure:
            self._read_at[name] = now
        elif name in self._read_at:
            age = int((now - self._read_at[name]).total_seconds())
            text = f"{read.failure}; shown as it was {age} s ago"
            read = replace(
                self._reads[name],
                failure=text,
                refused=read.refused,
                untrusted=read.untrusted,
                slow=read.slow,
            )
        known = identified({**self._reads, name: read}.values())
        self._reads = {one.context: one for one in known}
        self._dirty = True
