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

    Without the right to list Leases there are no states, so that nobody counts as dead; without
    that for ClusterMembers, or if they are not served, `records` is None. Other errors are raised.
    """
    leases = await _list_if_allowed(client, Lease)
    records = await _list_if_allowed(client, ClusterMember)
    now = await read_clock(client)
    return BrokerMembers(judge_leases(leases.objects, now) if leases is not None else (), records)


def judge_leases(leases: Iterable[Lease], server_time: datetime) -> tuple[LeaseLiveness, ...]:
    """The state of each Lease's holder, in order, as judged when the Leases are first observed.

    READY if it is held and was renewed within its duration by `server_time`, else UNKNOWN; the
    latter is `outdated`, too, unless its time is unknown or after `server_time`.
    """
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
