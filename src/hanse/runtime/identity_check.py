"""Checks which server a connection reaches, and what time it is there."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from hanse.kube.clock import Clock
from hanse.kube.errors import BadCredentials, KubeError, Unreachable
from hanse.model.facts import Fact, Facts, ServerClock
from hanse.model.objects import ClusterId
from hanse.runtime.connection import Connection

CLOCK_TOLERANCE = timedelta(seconds=2)
"""How far a server's clock may move before it is noted: `Date` headers have whole seconds."""


class FactStore(Protocol):
    """The part of `ClusterInformers` that takes what a check finds."""

    facts: Facts

    def put_fact(self, fact: Fact) -> None:
        """Store a fact in place of the one of its type and key."""
        ...

    def record_answer(self, cluster: ClusterId, *, rejection: str = "") -> None:
        """Record that a cluster answered, and the text with which it rejects our credentials.

        An empty `rejection`: it accepts them.
        """
        ...


class IdentityCheck:
    """Reads a server's identity after each sync, and whenever the cluster is probed."""

    def __init__(
        self, store: FactStore, clock: Clock, on_other: Callable[[Connection], None]
    ) -> None:
        """`on_other` is called when a connection reaches another server than before.

        What a check finds goes to `store`.
        """
        self._store = store
        self._clock = clock
        self._on_other = on_other

    async def check_after_sync(self, connection: Connection) -> None:
        """Count a sync of an informer, and check the identity if none was begun since that sync.

        Informers sync together, so that one check serves all that synced before it.
        """
        sync = connection.syncs = connection.syncs + 1
        async with connection.identity_lock:
            if connection.identified_syncs < sync:
                syncs = connection.syncs
                await self.check(connection)
                connection.identified_syncs = syncs

    async def check(self, connection: Connection) -> str:
        """Read the server's identity and time; call `on_other` if the identity is not the last one.

        Keeps the identity in the connection, and puts `ServerClock`. Returns why there was no
        answer, else "". An API error counts as an answer, and any answer is recorded in the store,
        with the rejection of our credentials.
        """
        try:
            found = await connection.api.identity()
        except Unreachable as error:
            return str(error)
        except BadCredentials as error:
            self._store.record_answer(connection.cluster, rejection=str(error) or "Unauthorized")
            return ""
        except KubeError:
            self._store.record_answer(connection.cluster)  # an error is an answer, too
            return ""
        self._store.record_answer(connection.cluster)
        known, connection.identity = connection.identity, found.uid
        self._record_clock(connection.cluster, found.time)
        if known and known != found.uid:
            self._on_other(connection)
        return ""

    def _record_clock(self, cluster: ClusterId, server_time: datetime | None) -> None:
        """Put how far a server's clock is ahead of ours, if that is not known closely enough.

        The known value may be off by CLOCK_TOLERANCE. Nothing if the server's time is None.
        """
        if server_time is None:
            return
        ahead = server_time - self._clock.now()
        known = self._store.facts.get(ServerClock, cluster)
        if known is None or abs(known.ahead - ahead) > CLOCK_TOLERANCE:
            self._store.put_fact(ServerClock(cluster, ahead))
