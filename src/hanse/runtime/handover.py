"""Hands members over to other supervisors: nothing is written in them but their Leases."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta

from hanse.kube.client import Client
from hanse.kube.errors import KubeError, NotFound
from hanse.model.facts import Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId
from hanse.runtime.api import Api
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.leader_election import LeaderElections

log = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(seconds=0.5)

SUCCESSION_TIMEOUT = timedelta(seconds=45)
"""How long a member may be without a leader before we lead it again, until another requests it."""


async def wait_for_successors(
    informers: ClusterInformers, elections: LeaderElections, members: Mapping[ClusterId, Client]
) -> None:
    """Resign from all members, and wait until another supervisor leads each.

    One that cannot be read counts as led. All stay connected meanwhile, so that no plan sees a part
    of them. We contend again for a member that nobody takes in time, and resign from that at the
    end, too.
    """
    await asyncio.gather(*(elections.resign(member) for member in members))
    await asyncio.gather(
        *(_wait_for_successor(informers, elections, m, c) for m, c in members.items())
    )
    await asyncio.gather(*(elections.resign(member) for member in members))


def disconnect_released(informers: ClusterInformers, members: Iterable[ClusterId]) -> None:
    """Disconnect members that others lead, without a `ClusterDeparted` fact; each is logged.

    Our own cluster stays connected, as LOCAL only.
    """
    for member in members:
        if member == informers.local:
            informers.set_roles(member, {Role.LOCAL})
        elif member in informers.connections:
            informers.disconnect_undeparted(member)
        log.info("cluster handed over", extra={"cluster": member})


async def _wait_for_successor(
    informers: ClusterInformers, elections: LeaderElections, member: ClusterId, client: Client
) -> None:
    """Wait until another supervisor holds a member's Lease, or the Lease cannot be read.

    After SUCCESSION_TIMEOUT we contend again, which is logged, and yield the Lease to any that
    requests it; the wait goes on.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + SUCCESSION_TIMEOUT.total_seconds()
    while not await has_other_holder(informers.local, member, client):
        if loop.time() >= until and member not in elections.members:
            log.warning("no successor leads a cluster: we go on", extra={"cluster": member})
            elections.contend(member, client, prefers_anyone=True)
        await asyncio.sleep(POLL_INTERVAL.total_seconds())


async def has_other_holder(local: ClusterId, member: ClusterId, client: Client | Api) -> bool:
    """Whether another cluster holds a member's Lease, read live.

    False if there is no Lease, or nobody or we hold it; True if it cannot be read.
    """
    try:
        lease = await client.read(Lease, member, SYSTEM)
    except NotFound:
        return False
    except KubeError:
        return True  # whoever reaches it leads it
    return holder_cluster(lease.spec.holder_identity) not in ("", local)
