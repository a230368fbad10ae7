"""The tables of a worker by view, and by the address of the client."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from random import Random

from hanse.dns.messages import ListeningSocket
from hanse.dns.table import Table


class ViewTables:
    """All tables of a worker; a socket has the table of its view, or one for each client."""

    def __init__(self, random: Random) -> None:
        self.by_view: dict[str, Table] = {}
        self.by_asker: dict[bytes, Table] = {}
        """The table of each client whose packed address selects its view."""
        self._random = random

    def get_or_create(self, view: str) -> Table:
        """The table of a view; an empty one is added if it does not exist."""
        if view not in self.by_view:
            self.by_view[view] = Table(view, self._random)
        return self.by_view[view]

    def drop(self, view: str) -> None:
        """Remove the table of a view; clients that still have it have none from now on."""
        table = self.by_view.pop(view, None)
        for address in [a for a, other in self.by_asker.items() if other is table]:
            del self.by_asker[address]

    def change_askers(self, changes: Iterable[tuple[bytes, str | None]]) -> None:
        """Let addresses select other views, or none."""
        for address, view in changes:
            if view is None:
                self.by_asker.pop(address, None)
            else:
                self.by_asker[address] = self.get_or_create(view)

    def askers_of(self, listening: ListeningSocket) -> Mapping[bytes, Table] | None:
        """The tables by client of a socket; None if all its clients have the table of its view.

        Clients without a table are refused, also for names that are forwarded for others.
        """
        self.get_or_create(listening.view).forwards = not listening.by_asker
        return self.by_asker if listening.by_asker else None

    def for_client(self, listening: ListeningSocket, client: str) -> Table:
        """The table of a socket for a client by its address."""
        table = self.get_or_create(listening.view)
        if not listening.by_asker:
            return table
        return self.by_asker.get(ip_address(client.partition("%")[0]).packed, table)
