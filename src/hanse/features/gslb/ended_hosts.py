"""Hosts that ended while a name server did not see its cluster, or whose objects were lost."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from hanse.features.gslb.known import KnownHosts
from hanse.features.gslb.leader_lease import DURATION, leader_word
from hanse.features.gslb.names import HOSTS
from hanse.features.gslb.settled_hosts import digest_hosts, live_hosts
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

RENEWALS = 4
"""Renewals of the leader's Lease, about half a minute, that have to name the same set of hosts."""


class EndedHosts:
    """Forgets known hosts that have no service, once the leader has settled without them.

    Its Lease has to name exactly the hosts that have services here, several times in a row: then
    the leader has nothing left to write here, and would have written what was lost.
    """

    def __init__(self, known: KnownHosts) -> None:
        """No host has ended yet; `known` are the hosts of the zone."""
        self._known = known
        self._renewal: tuple[ClusterId, str | None] | None = None
        self._settled = ""
        self._counted: datetime | None = None
        """When the Lease was renewed that was counted last."""
        self._renewals = 0
        self._ended: tuple[str, ...] = ()

    def observe(self, lease: Lease, snapshot: Snapshot) -> Sequence[str]:
        """Forgets the hosts that ended by this renewal of the leader's Lease; returns their names.

        For the same cluster and renewTime it returns the same names again and forgets nothing.
        """
        renewal = (snapshot.local, lease.spec.renew_time)
        if renewal != self._renewal:
            self._renewal = renewal
            ended = list(self._count_renewal_and_list_ended(lease, snapshot))
            for service in ended:
                self._known.forget(service)
            self._ended = tuple(service.metadata.name for service in ended)
        return self._ended

    def _count_renewal_and_list_ended(
        self, lease: Lease, snapshot: Snapshot
    ) -> Iterator[GlobalService]:
        """The known hosts without a service here, once RENEWALS in a row name just those with one.

        It counts those renewals: again from 1 after a gap of DURATION or for another set of hosts,
        from 0 if the Lease names no set, or another than that here. Left out are hosts with a
        member in a cluster that the leader does not see.
        """
        live = live_hosts(snapshot)
        missing = [service for service in self._known if service.metadata.name not in live]
        settled = lease.metadata.annotations.get(HOSTS, "")
        if not missing or not settled or settled != digest_hosts(live):
            self._renewals = 0
            return
        follows = settled == self._settled and _is_soon_after(self._counted, lease.renewed)
        self._renewals = self._renewals + 1 if follows else 1
        self._settled, self._counted = settled, lease.renewed
        if self._renewals < RENEWALS:
            return
        for service in missing:
            believes = leader_word(service, snapshot)
            if all(believes(member.cluster) for member in service.spec.members):
                yield service


def _is_soon_after(before: datetime | None, renewed: datetime | None) -> bool:
    """Whether a Lease was renewed less than DURATION after `before`, so that it did not expire.

    False if either time is None.
    """
    return before is not None and renewed is not None and renewed - before < DURATION
