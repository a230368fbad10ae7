"""The tables of a worker by view, and by the address of the client."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from random import Random

from hanse.dns.messages import ListeningSocket, QueryCount
from hanse.dns.questions import RCODES
from hanse.dns.table import Table


class ViewTables:
    """All tables of a worker; a socket has the table of its view, or one for each client."""

    def __init__(self, random: Random) -> None:
        """No view has a table yet; `random` sets where rotations begin."""
        self.by_view: dict[str, Table] = {}
        self.by_client: dict[bytes, Table] = {}
        """The table of each client whose packed address selects its view."""
        self._random = random

    def get_or_create(self, view: str) -> Table:
        """The table of a view; an empty one is added if it does not exist."""
        if view not in self.by_view:
            self.by_view[view] = Table(view, self._random)
        return self.by_view[view]

    def drop(self, view: str) -> None:
        """Remove the table of a view, if any; clients whose addresses select it have none then.

        Their queries get the table of the socket's view.
        """
        table = self.by_view.pop(view, None)
        for address in [a for a, other in self.by_client.items() if other is table]:
            del self.by_client[address]

    def set_client_views(self, changes: Iterable[tuple[bytes, str | None]]) -> None:
        """Set the views that clients' packed addresses select; None removes an address.

        A view without a table gets an empty one.
        """
        for address, view in changes:
            if view is None:
                self.by_client.pop(address, None)
            else:
                self.by_client[address] = self.get_or_create(view)

    def tables_by_client(self, listening: ListeningSocket) -> Mapping[bytes, Table] | None:
        """The tables of a socket by client address; None if all clients have the table of its view.

        It also sets whether the view's table forwards: not where clients have tables of their own,
        so that those without one are refused.
        """
        self.get_or_create(listening.view).forwards = not listening.by_client
        return self.by_client if listening.by_client else None

    def for_client(self, listening: ListeningSocket, client: str) -> Table:
        """The table for a client: that of its address, if the socket selects by client.

        The table of the socket's view if it does not, or if the address has none.
        """
        table = self.get_or_create(listening.view)
        if not listening.by_client:
            return table
        return self.by_client.get(ip_address(client.partition("%")[0]).packed, table)

    def take_counts(self) -> tuple[QueryCount, ...]:
        """The queries of all tables since the last call, by view, zone, type and rcode, if any.

        It resets the counters to 0.
        """
        counts = tuple(
            QueryCount(view, zone, rtype, RCODES[rcode], counter[0])
            for view, table in self.by_view.items()
            for (zone, rtype, rcode), counter in table.counts.items()
            if counter[0]
        )
        for table in self.by_view.values():
            for counter in table.counts.values():
                counter[0] = 0
        return counts
