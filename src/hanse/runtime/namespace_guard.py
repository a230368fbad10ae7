"""Holds what rests on a broker's namespace when objects vanish there, until it is known to stand.

A namespace is terminating before its objects are deleted, but a watch of Namespaces may be slower
than theirs: so the namespace is read before anything follows from what is gone.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeAlias

from hanse.kube.errors import KubeError, NotFound
from hanse.kube.watch_events import Listed, WatchEvent
from hanse.model.facts import Role
from hanse.model.kinds.core import Namespace
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, ObjectChange, Watch
from hanse.runtime.actions import LEFT, Action, Create, Delete
from hanse.runtime.connection import Scope
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.ownership import sources_of
from hanse.runtime.questions import StartTask
from hanse.runtime.workqueue import Dequeued, Item, WorkQueue

DOUBT = timedelta(seconds=30)
"""For how long what is gone is doubted: no watch that works is later than that."""

READ_TIMEOUT = timedelta(seconds=5)
"""How long a read may take, and after how long it is repeated at the latest."""

RETRY = timedelta(seconds=1)

Place: TypeAlias = tuple[ClusterId, str]
"""A broker and the namespace that clusters share there."""

EVERYTHING = None
"""Stands for all keys: a list, unlike an event, does not say what is gone."""


class NamespaceGuard:
    """Knows which keys lost something in a namespace since that was last read, and reads it.

    One read at a time serves all keys that lost something before it began.
    """

    def __init__(
        self,
        watches: Iterable[Watch],
        informers: ClusterInformers,
        queue: WorkQueue,
        time: Callable[[], float],
    ) -> None:
        """Guard the namespaces of the watches on brokers; `queue` gets keys back that were held."""
        self._namespaces = frozenset(w.namespace for w in watches if w.role is Role.BROKER) - {""}
        self._informers = informers
        self._time = time
        self._queue = queue
        self._doubts: dict[Place, dict[Item | None, float]] = {}
        """Since when each key is in doubt, the earliest first."""
        self._asked: dict[Place, dict[Item | None, float]] = {}
        """The doubts that a read under way will end."""
        self._held: dict[Place, dict[Item, Dequeued]] = {}

    def place_of_loss(self, change: Change) -> Place | None:
        """The guarded namespace from which an object is gone by a change, with its cluster.

        None for any other change.
        """
        if not isinstance(change, ObjectChange) or change.after is not None:
            return None
        place = (change.where, change.object.metadata.namespace)
        return place if self._is_guarded(*place) else None

    def on_watch_event(self, cluster: ClusterId, scope: Scope, event: WatchEvent[Any]) -> None:
        """Doubt a guarded namespace for all keys after its objects were listed; else nothing."""
        if isinstance(event, Listed) and self._is_guarded(cluster, scope.namespace):
            self.doubt((cluster, scope.namespace), EVERYTHING)

    def doubt_everything(self) -> None:
        """Doubt all guarded namespaces: their objects may have gone while nobody was looking."""
        for cluster in self._informers.connections:
            for namespace in self._namespaces:
                if self._is_guarded(cluster, namespace):
                    self.doubt((cluster, namespace), EVERYTHING)

    def doubt(self, place: Place, item: Item | None) -> None:
        """Have actions wait until a namespace was read: those of a key, or with EVERYTHING of all.

        This only records the doubt, `hold_doubted` begins the read. Doubts that are older than
        DOUBT are dropped.
        """
        doubts = self._doubts.setdefault(place, {})
        doubts.pop(item, None)
        doubts[item] = self._time()
        while self._is_over(doubts[oldest := next(iter(doubts))]):
            del doubts[oldest]

    def hold_doubted(
        self, dequeued: Dequeued, actions: list[Action], start: StartTask
    ) -> list[Action]:
        """The actions without those that rest on a namespace in doubt, and later steps of theirs.

        Those write objects with its broker as a source; later steps are those in the same cluster.
        If there are any, `start` is used to read the namespace, and the key is enqueued after that.
        """
        if not actions:
            return actions
        for place in sorted(self._doubts.keys() | self._asked.keys()):
            resting = [a for a in actions if _rests_on(a, place[0])]
            if not resting or not self._is_doubted(place, dequeued.item):
                continue
            first: dict[ClusterId, int] = {}
            for action in resting:
                first[action.where] = min(action.step, first.get(action.where, action.step))
            held = {id(a) for a in resting}
            actions = [
                a for a in actions if id(a) not in held and a.step <= first.get(a.where, a.step)
            ]
            self._hold(place, dequeued, start)
        return actions

    def _is_guarded(self, cluster: ClusterId, namespace: str) -> bool:
        """Whether the cluster is connected as a broker, and features watch this namespace there.

        Watches of all namespaces do not count.
        """
        if namespace not in self._namespaces:
            return False
        connection = self._informers.connections.get(cluster)
        return connection is not None and Role.BROKER in connection.roles

    def _is_doubted(self, place: Place, item: Item) -> bool:
        """Whether a namespace must be read before actions of a key that rest on it are sent.

        False without a recent doubt of the key or of all, and if the namespace is not known or is
        terminating.
        """
        if not any(
            one in doubts and not self._is_over(doubts[one])
            for doubts in (self._doubts.get(place, {}), self._asked.get(place, {}))
            for one in (item, EVERYTHING)
        ):
            return False
        known = self._informers.snapshot().get(place[0], Namespace, place[1])
        return known is not None and not known.terminating

    def _is_over(self, since: float) -> bool:
        """Whether a doubt that began at this time has lasted longer than DOUBT."""
        return self._time() - since > DOUBT.total_seconds()

    def _hold(self, place: Place, dequeued: Dequeued, start: StartTask) -> None:
        """Keep a key until the namespace is read; begins to read it unless a read is under way.

        The queue counts the key as not done until then.
        """
        held = self._held.setdefault(place, {})
        known = held.get(dequeued.item)
        if known is None or not known.deletion_seen:
            held[dequeued.item] = dequeued
        self._queue.hold(dequeued.item)
        if place not in self._asked:
            self._asked[place] = self._doubts.pop(place, {})
            start(self._read(place), f"read namespace {place[1]}")

    async def _read(self, place: Place) -> None:
        """Read a namespace, end the doubts from before, and enqueue all keys that were held.

        If the read fails, the doubts return after RETRY; the keys are enqueued then all the same,
        held again, and the next read begins.
        """
        try:
            async with asyncio.timeout(READ_TIMEOUT.total_seconds()):
                await self._observe_namespace(place)
            self._asked.pop(place)
        except (KubeError, OSError, TimeoutError):
            await asyncio.sleep(RETRY.total_seconds())
            self._doubts[place] = self._asked.pop(place) | self._doubts.get(place, {})
        for dequeued in self._held.pop(place, {}).values():
            self._queue.add(dequeued.item, deletion_seen=dequeued.deletion_seen)

    async def _observe_namespace(self, place: Place) -> None:
        """Read a namespace as it is now, and store it as its watch event will; raises KubeError.

        One that is gone, or was made anew since, is dropped until its watch tells what has become
        of it. Nothing is read if the broker is not connected or the namespace is not known.
        """
        cluster, name = place
        connection = self._informers.connections.get(cluster)
        known = self._informers.snapshot().get(cluster, Namespace, name)
        if connection is None or known is None:
            return
        try:
            found = await connection.api.read(Namespace, name)
        except NotFound:
            found = None
        if found is not None and found.metadata.uid == known.metadata.uid:
            self._informers.observe_write(cluster, found)
        else:
            self._informers.observe_absence(cluster, known)


def _rests_on(action: Action, broker: ClusterId) -> bool:
    """Whether an action writes or deletes an object that has this broker as a source.

    False for a deletion by leaving.
    """
    if isinstance(action, Delete) and action.cause == LEFT:
        return False
    obj = action.object if isinstance(action, Create) else action.base
    return broker in sources_of(obj)
