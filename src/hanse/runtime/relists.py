"""Lists clusters again, and waits until they are listed."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from hanse.kube.lease_observer import RECONNECT_TIME
from hanse.kube.rest_mapper import Notifier
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId
from hanse.runtime.connection import Connection, Informer, Scope


class Relists:
    """The lists of all connected clusters; informers call `notify` after each of theirs."""

    def __init__(
        self,
        connections: Mapping[ClusterId, Connection],
        restart: Callable[[Connection, Scope], None],
    ) -> None:
        """`restart` restarts an informer, which lists again then."""
        self._connections = connections
        self._restart = restart
        self._listed = Notifier()

    def notify(self) -> None:
        """Wake all who wait: an informer has listed, works again, or was stopped."""
        self._listed.notify()

    async def relist_all(self) -> None:
        """List everything once more, and wait until every informer that can has done so.

        Informers that have an error are neither restarted nor waited for; nor are those waited for
        that are stopped meanwhile or whose kind is not served.
        """
        working: dict[Informer, int] = {}
        for connection in self._connections.values():
            lists = self._restart_working(connection)
            working |= {i: n for i, n in lists.items() if i.error is None}
        await self._wait_for_lists(working)

    async def relist(self, cluster: ClusterId) -> None:
        """List a cluster once more, and wait until every informer has done so, however long.

        Those with an error are not restarted: they retry. Returns at once if the cluster is not
        connected; informers that are stopped or find their kind not served are not waited for.
        """
        if cluster in self._connections:
            await self._wait_for_lists(self._restart_working(self._connections[cluster]))

    def _restart_working(self, connection: Connection) -> dict[Informer, int]:
        """Restart the informers without an error; returns how often each of all has listed."""
        lists = {informer: informer.store.lists for informer in connection.informers.values()}
        for scope, informer in connection.informers.items():
            if informer.error is None:
                self._restart(connection, scope)
        return lists

    async def _wait_for_lists(self, before: dict[Informer, int]) -> None:
        """Wait until each informer has listed again, was stopped, or found its kind not served."""
        while any(i.open and _is_due(i, n) for i, n in before.items()):
            await self._listed.wait_for_change(self._listed.notified)

    async def wait_until_listed(self, cluster: ClusterId) -> None:
        """Wait until a cluster is no longer partial, or is not connected.

        It is partial until every watched kind was listed, and again since we began to lead.
        """
        while cluster in self._connections and self._connections[cluster].state.is_partial:
            await self._listed.wait_for_change(self._listed.notified)

    async def relist_leases(self, connection: Connection) -> None:
        """List a cluster's Leases again and wait for that, at most RECONNECT_TIME; never raises.

        Called before every list of another kind but its first, as the server may have been
        restored: Leases from before that would not show which objects are those of a backup.
        Informers of Leases that fail, or were restarted already, are only waited for.
        """
        listed = {
            i: i.store.lists if i.error is None and i.synced else -1
            for i in _lease_informers(connection)
        }
        for informer, lists in listed.items():
            if lists >= 0 and not informer.restarted:
                self._restart(connection, informer.scope)
        await self._wait_for_newer(listed)

    async def wait_for_leases(self, connection: Connection) -> None:
        """Wait, at most RECONNECT_TIME, until a cluster's Leases are listed."""
        await self._wait_for_newer(dict.fromkeys(_lease_informers(connection), -1))

    async def _wait_for_newer(self, lists: Mapping[Informer, int]) -> None:
        """Wait until each informer works and has listed more often than this, or is stopped.

        Returns after RECONNECT_TIME in any case.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(RECONNECT_TIME):
                while any(
                    i.open and (i.error is not None or not i.synced or _is_due(i, n))
                    for i, n in lists.items()
                ):
                    await self._listed.wait_for_change(self._listed.notified)


def _lease_informers(connection: Connection) -> list[Informer]:
    """The informers of Leases of a cluster."""
    return [i for i in connection.informers.values() if i.scope.kind is Lease]


def _is_due(informer: Informer, lists: int) -> bool:
    """Whether an informer's kind may be served, and it has listed no more often than this."""
    return informer.served is not False and informer.store.lists <= lists
