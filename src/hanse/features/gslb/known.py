"""The hosts that a name server last knew, whatever becomes of their objects.

A host is forgotten only on its leader's word: the leader marks a GlobalService as withdrawn before
it deletes it. Who missed that is told by the leader's Lease (`ended_hosts.py`). What disappears
otherwise, with its namespace, its definition or a restored cluster, is answered as before, by the
name server's own probes.
"""

from collections.abc import Iterable, Iterator

from hanse.features.gslb.names import WITHDRAWN
from hanse.features.gslb.terms import leader_term
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, ObjectChange


def is_withdrawn(service: GlobalService) -> bool:
    """Whether a GlobalService has the withdrawn annotation: its leader is about to delete it."""
    return WITHDRAWN in service.metadata.annotations


class KnownHosts:
    """The last known GlobalService of each host in one cluster."""

    def __init__(self) -> None:
        """No host is known yet."""
        self.changes = 0
        """How often a host was taken up, changed or forgotten."""
        self._services: dict[str, GlobalService] = {}
        self._by_address: dict[str, set[str]] = {}
        self._by_alias: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._services)

    def __iter__(self) -> Iterator[GlobalService]:
        return iter(self._services.values())

    def get(self, host: str) -> GlobalService | None:
        """The last known GlobalService of a host; None if unknown, or ended on its leader's word.

        It stays if the object vanished without that word, as with its namespace.
        """
        return self._services.get(host)

    def hosts_at(self, address: str) -> Iterable[str]:
        """The hosts that have a member with an address."""
        return self._by_address.get(address, ())

    def hosts_of_alias(self, name: str) -> Iterable[str]:
        """The hosts that have a name as an alias."""
        return self._by_alias.get(name, ())

    def update(self, services: Iterable[GlobalService]) -> None:
        """Keep these services, or forget those that are withdrawn; other known hosts stay.

        A service that a leader of an earlier term wrote over the same object is ignored.
        """
        for service in services:
            self._observe(service)

    def observe(self, change: Change, local: ClusterId) -> None:
        """Keep a local GlobalService that was created or updated, or forget it if it is withdrawn.

        Ignored are deletions, other changes, and what a leader of an earlier term wrote over the
        same object.
        """
        if isinstance(change, ObjectChange) and change.where == local:
            service = change.after
            if isinstance(service, GlobalService):
                self._observe(service)

    def _observe(self, service: GlobalService) -> None:
        """Keeps a service in place of the known one, or forgets it if withdrawn; counts changes.

        Ignored if it is the same Python object, or a leader of an earlier term, or of none, wrote
        it over the same Kubernetes object.
        """
        host = service.metadata.name
        known = self._services.get(host)
        if known is service or (known is not None and _overwrites_later_term(service, known)):
            return
        if known is not None:
            self.forget(known)
        if not is_withdrawn(service):
            self.changes += 1
            self._services[host] = service
            for hosts, name in self._places(service):
                hosts.setdefault(name, set()).add(host)

    def forget(self, service: GlobalService) -> None:
        """Forget a known host, with the addresses of its members and its aliases.

        `service` must be the one that is known; raises KeyError if the host is unknown.
        """
        self.changes += 1
        host = service.metadata.name
        del self._services[host]
        for hosts, name in self._places(service):
            if name in hosts:
                hosts[name].discard(host)
                if not hosts[name]:
                    del hosts[name]

    def _places(self, service: GlobalService) -> Iterator[tuple[dict[str, set[str]], str]]:
        """(index, value) of each entry of a service in the indexes by address and by alias."""
        yield from ((self._by_address, member.address) for member in service.spec.members)
        yield from ((self._by_alias, alias) for alias in service.spec.aliases)


def _overwrites_later_term(service: GlobalService, known: GlobalService) -> bool:
    """Whether the same object (uid) now has an earlier epoch than before, or none any more.

    False if the known one had no valid term.
    """
    term, before = leader_term(service), leader_term(known)
    same_object = service.metadata.uid == known.metadata.uid
    return same_object and before is not None and (term is None or term.epoch < before.epoch)
