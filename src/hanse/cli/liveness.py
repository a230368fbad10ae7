"""Which members of a broker are alive, judged by a single read as by an agent that just started."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from hanse.app import BROKER
from hanse.cli.inventory import read_clock
from hanse.kube.client import Client
from hanse.kube.errors import Forbidden, NotFound
from hanse.kube.lease_observer import LeaseObserver
from hanse.kube.watch_events import Listed
from hanse.model.facts import LeaseLiveness
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import K


class BrokerMembers(Struct, frozen=True):
    """The states of the holders of Leases on a broker, and the records of its members."""

    states: tuple[LeaseLiveness, ...] = ()
    records: Listed[ClusterMember] | None = None


async def read_members(client: Client) -> BrokerMembers:
    """Read Leases and ClusterMembers of the default broker namespace from a broker.

    Where Leases may not be listed or are not served, there are no states: nobody counts as dead.
    """
    leases = await _list_if_allowed(client, Lease)
    records = await _list_if_allowed(client, ClusterMember)
    now = await read_clock(client)
    return BrokerMembers(judge_leases(leases.objects, now) if leases is not None else (), records)


def judge_leases(leases: Iterable[Lease], server_time: datetime) -> tuple[LeaseLiveness, ...]:
    """The states of the holders of Leases, by the age of each on the API server's own clock."""
    states = []
    for lease in leases:
        observer, meta = LeaseObserver(), lease.metadata
        observer.observe(lease, 0.0, server_time)
        state = observer.state(meta.namespace, meta.name)
        holder = lease.spec.holder_identity
        outdated = bool(observer.is_outdated(meta.namespace, meta.name))
        states.append(
            LeaseLiveness(BROKER, meta.namespace, meta.name, holder, state, server_time, outdated)
        )
    return tuple(states)


async def _list_if_allowed(client: Client, kind: type[K]) -> Listed[K] | None:
    """List a kind in the default broker namespace; None if it is not served, or forbidden."""
    try:
        return await client.list(kind, namespace=BROKER_NAMESPACE)
    except (NotFound, Forbidden):
        return None
