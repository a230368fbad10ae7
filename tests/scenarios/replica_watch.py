"""Counts the ready replicas of a set in all clusters, by the events of their pods."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from random import Random

from hanse.kube.watch_events import Applied, Deleted, Listed
from hanse.kube.watcher import list_and_watch
from hanse.model.kinds.core import Pod
from hanse.model.objects import ClusterId
from tests.scenarios.statefulsets import StatefulSetsScenario


class ReplicaWatch:
    """The ready replicas now, the fewest that there were, and those that were taken, in order."""

    def __init__(self) -> None:
        self._ready: set[str] = set()
        self.least = 0
        self.taken: list[str] = []

    @property
    def ready(self) -> int:
        return len(self._ready)

    def start_counting(self) -> None:
        """Forget what was before."""
        self.least = self.ready
        self.taken.clear()

    def observe(self, pod: Pod, *, gone: bool = False) -> None:
        """Take up one event."""
        name = pod.metadata.name
        going = gone or pod.metadata.deletion_timestamp is not None
        if going and name in self._ready:
            self.taken.append(name)
        if pod.ready and not going:
            self._ready.add(name)
        else:
            self._ready.discard(name)
        self.least = min(self.least, self.ready)


@asynccontextmanager
async def replica_watch(sets: StatefulSetsScenario) -> AsyncIterator[ReplicaWatch]:
    """Watch the pods of all clusters while the block runs."""
    watch = ReplicaWatch()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_follow(sets, cluster, watch), name=f"pods of {cluster}")
            for cluster in sets.scenario.names
        ]
        yield watch
        for task in tasks:
            task.cancel()


async def _follow(sets: StatefulSetsScenario, cluster: ClusterId, watch: ReplicaWatch) -> None:
    client, namespace = sets.admin(cluster), sets.scenario.namespace
    async with aclosing(
        list_and_watch(client, Pod, namespace=namespace, random=Random(1))
    ) as events:
        async for event in events:
            match event:
                case Listed(objects):
                    for pod in objects:
                        watch.observe(pod)
                case Applied(pod):
                    watch.observe(pod)
                case Deleted(pod):
                    watch.observe(pod, gone=True)
                case _:
                    pass
