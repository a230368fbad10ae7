"""Leaving the broker, and joining it again, when the record of this cluster there says so."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from hanse.kube.clock import Clock
from hanse.kube.errors import KubeError, NotFound
from hanse.model.facts import ClusterDeparted, HeartbeatState, Role
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.runtime.api import ClusterClient
from hanse.runtime.leaving import POLL_INTERVAL, leave
from hanse.runtime.ownership import sources_of
from hanse.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)

RECHECK_INTERVAL = 10.0
"""Seconds between two reads of the record while the broker's objects are not seen: a cluster that
was made to leave has no other right there than to read its record, and one that has left may join
again."""

STRAY_TIMEOUT = 60.0
"""Seconds that a cluster that was given up tries to delete what it wrote to the broker since."""


class BrokerClient(ClusterClient):
    """The client of a broker; leaving does not close it, as this cluster may join again."""

    async def close(self) -> None:
        """Nothing is closed: who made the transport closes it."""


class BrokerMembership:
    """Withdraws everything of this cluster from a broker, and at home what came from there.

    It happens once the record of this cluster is Leaving, at the end of which it is Left; or Left,
    if an administrator gave the cluster up while it was away. A later join is taken up.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        client: ClusterClient,
        broker: ClusterId,
        namespace: str,
        clock: Clock,
    ) -> None:
        """Nothing has begun; `client` and `namespace` are those of the broker."""
        self._reconciler = reconciler
        self._client = client
        self._broker = broker
        self._namespace = namespace
        self._clock = clock
        self._changed = asyncio.Event()
        self._epoch = 0
        """The latest epoch of the record that was seen: a restored broker may show an earlier."""
        self._uid = ""
        """The uid of that record."""
        self.has_left = False
        """Whether this cluster is no member of the broker any more."""

    def on_change(self, change: Change) -> None:
        """Wake `run` if our record on the broker changes, or any `HeartbeatState` fact is put."""
        match change:
            case ObjectChange(where, _, ClusterMember(metadata=meta)):
                if where == self._broker and meta.name == self._reconciler.informers.local:
                    self._changed.set()
            case FactChange(_, HeartbeatState()):
                self._changed.set()
            case _:
                return

    async def run(self, is_active: Callable[[], bool]) -> None:
        """Wait, while active, until our record has phase Leaving, Left or Replaced; then withdraw.

        Leaving withdraws everywhere and writes Left; the others withdraw at home. A record of an
        earlier epoch is ignored. Once this cluster has left, a record of a later epoch, or a new
        one, connects the broker again. Returns once another cluster has its id (Replaced).
        """
        while True:
            self._changed.clear()  # before the record is read, so that no change is missed
            record = await self._record() if is_active() else None
            if record is not None and self.has_left:
                if not record.has_left and self._is_later(record):
                    self._join_again(record)
                    continue
            elif record is not None and record.status.epoch >= self._epoch:
                self._epoch, self._uid = record.status.epoch, record.metadata.uid
                if record.status.phase == "Leaving":
                    await self._leave()
                elif record.has_left:
                    await self._withdraw_at_home()
                if record.status.phase == "Replaced":
                    return
            with suppress(TimeoutError):
                async with asyncio.timeout(RECHECK_INTERVAL):
                    await self._changed.wait()

    def _is_later(self, record: ClusterMember) -> bool:
        """Whether a record was written by a join after the one that we left by."""
        return record.status.epoch > self._epoch or record.metadata.uid != self._uid

    def _join_again(self, record: ClusterMember) -> None:
        """Connect the broker that we have left, and keep the epoch of our new record; logged."""
        log.warning("has joined the broker again", extra={"namespace": self._namespace})
        self.has_left, self._epoch = False, record.status.epoch
        self._reconciler.informers.join(self._broker, {Role.BROKER}, self._client)

    async def _record(self) -> ClusterMember | None:
        """The record of this cluster: as watched, or read while the broker's objects are not seen.

        None if there is none, or it cannot be read.
        """
        snapshot = self._reconciler.snapshot()
        if snapshot.synced(self._broker, ClusterMember):
            return snapshot.get(self._broker, ClusterMember, snapshot.local, self._namespace)
        try:
            return await self._client.read(ClusterMember, snapshot.local, self._namespace)
        except KubeError:
            return None

    async def _leave(self) -> None:
        """Delete our objects there and what came from there, write phase Left, and disconnect.

        Sets `has_left`; waits however long that takes.
        """
        log.warning("leaving the broker", extra={"namespace": self._namespace})
        await leave(self._reconciler, self._broker, self._finish)
        self.has_left = True
        log.warning("has left the broker", extra={"namespace": self._namespace})

    async def _finish(self) -> None:
        """Wait until nothing at home is derived from the broker, then write phase Left there.

        Errors are retried without end; a record that is gone is not written.
        """
        await self._wait_until_withdrawn()
        since = msgspec.to_builtins(self._clock.now().replace(microsecond=0))
        change = {"status": {"phase": "Left", "since": since}}
        local = self._reconciler.informers.local
        while True:
            try:
                place = (ClusterMember, local, self._namespace)
                await self._client.patch(*place, change, subresource="status")
            except NotFound:
                return  # somebody deleted the record: there is nobody to tell
            except KubeError as error:
                log.warning("the record cannot be written", extra={"why": str(error)})
                await asyncio.sleep(POLL_INTERVAL)
            else:
                return

    async def _withdraw_at_home(self) -> None:
        """Withdraw at home what came from a broker that has given this cluster up, and disconnect.

        Sets `has_left`, puts `ClusterDeparted` for the broker, so that plans delete it, and waits
        until it is gone. What we wrote there is deleted, too, if the broker is synced, within
        STRAY_TIMEOUT.
        """
        self.has_left = True
        log.warning(
            "this cluster has left its broker: what came from there is withdrawn",
            extra={"namespace": self._namespace, "rejoin": "hanse join --broker"},
        )
        informers = self._reconciler.informers
        informers.put_fact(ClusterDeparted(self._broker, self._clock.now()))
        if self._reconciler.snapshot().synced(self._broker):
            with suppress(TimeoutError):
                async with asyncio.timeout(STRAY_TIMEOUT):
                    await leave(self._reconciler, self._broker, self._report_withdrawn)
        if self._broker in informers.connections:
            informers.set_leaving(self._broker)
            await self._report_withdrawn()
            await informers.disconnect(self._broker)

    async def _report_withdrawn(self) -> None:
        """Wait until nothing at home is derived from the broker, then clear `status.abandoned`.

        Nothing is written if our record there can be read and is not abandoned; API errors are
        ignored.
        """
        await self._wait_until_withdrawn()
        record = await self._record()
        if record is not None and not record.status.abandoned:
            return
        place = (ClusterMember, self._reconciler.informers.local, self._namespace)
        with suppress(KubeError):
            await self._client.patch(*place, {"status": {"abandoned": False}}, subresource="status")

    async def _wait_until_withdrawn(self) -> None:
        """Wait until nothing at home is derived from the broker."""
        while self._derived_at_home():  # noqa: ASYNC110 - the index of owned objects is polled
            await asyncio.sleep(POLL_INTERVAL)

    def _derived_at_home(self) -> tuple[ClusterObjectRef, ...]:
        """The references of our objects at home with the broker as a source.

        Without those in the broker's namespace.
        """
        local = self._reconciler.informers.local
        return tuple(
            ClusterObjectRef(where, object_ref(obj))
            for where, obj in self._reconciler.owned.objects()
            if where == local
            and self._broker in sources_of(obj)
            and obj.metadata.namespace != self._namespace  # this server may be the broker, too
        )
