"""Leaving a cluster: what we made there goes first, or is written down as left behind."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from msgspec import Struct

from hanse.kube.errors import KubeError, NotFound
from hanse.model.facts import ClusterAbandoned, Leadership, Role
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.ownership import OWNER
from hanse.runtime.ownership import owner_of
from hanse.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)

LOOK_AGAIN = 0.5


class LeaveResult(Struct, frozen=True):
    """A cluster was left; what could not be withdrawn from it is named."""

    cluster: ClusterId
    abandoned: tuple[ClusterObjectRef, ...] = ()


async def _nothing_to_do() -> None:
    return


async def leave(
    reconciler: Reconciler, cluster: ClusterId, last: Callable[[], Awaitable[None]] = _nothing_to_do
) -> LeaveResult:
    """Withdraw everything of ours from a cluster, see for ourselves that it is gone, let go of it.

    This lasts until the cluster can be reached; cancelling it leaves the cluster in state Leaving.
    `last` is done while the cluster can still be reached. What another supervisor leads is its to
    withdraw. Of home we leave only what it was as a member.
    """
    reconciler.informers.set_leaving(cluster)
    reconciler.enqueue_owners_in(cluster)
    while await _ours_in(reconciler, cluster) != ():  # noqa: ASYNC110 - the cluster must be asked
        await asyncio.sleep(LOOK_AGAIN)
    await last()
    if cluster == reconciler.informers.local:
        reconciler.informers.set_roles(cluster, {Role.LOCAL})
        reconciler.informers.set_leaving(cluster, False)
    elif cluster in reconciler.informers.connections:
        await reconciler.informers.disconnect(cluster)
    return LeaveResult(cluster)


async def force_leave(
    reconciler: Reconciler, cluster: ClusterId, last_known: Iterable[ClusterObjectRef] = ()
) -> LeaveResult:
    """Let go of a cluster that is dead or lost, and say what stays behind in it as far as known.

    `last_known` is what was ours there when we saw it last: of what nobody leads we see less.
    """
    abandoned = tuple(sorted({*owned_refs(reconciler, cluster), *last_known}))
    await reconciler.informers.disconnect(cluster)
    reconciler.informers.put_fact(ClusterAbandoned(cluster, reconciler.snapshot().now, abandoned))
    log.warning("cluster abandoned", extra={"cluster": cluster, "objects": len(abandoned)})
    return LeaveResult(cluster, abandoned)


def owned_refs(reconciler: Reconciler, cluster: ClusterId) -> Iterator[ClusterObjectRef]:
    """Where in a cluster something of ours is, as far as we see it."""
    for where, obj in reconciler.owned.objects():
        if where == cluster:
            yield ClusterObjectRef(where, object_ref(obj))


async def _ours_in(reconciler: Reconciler, cluster: ClusterId) -> tuple[Object, ...] | None:
    """What a labelled list finds of ours; None while it cannot be asked or is without leader."""
    connection = reconciler.informers.connections.get(cluster)
    if connection is None:
        return ()  # somebody let go of it by force
    lead = reconciler.informers.facts.get(Leadership, cluster)
    if lead is not None and not lead.ours and not lead.holder:
        return None  # whoever is elected next withdraws, and that may be us
    found: list[Object] = []
    for scope in list(connection.informers):
        try:
            listed = await connection.api.list(
                scope.kind, namespace=scope.namespace, labels=OWNER, fields=scope.fields
            )
        except NotFound:
            continue  # a kind that is not served holds nothing
        except KubeError:
            return None
        found += [o for o in listed.objects if _is_ours(o, reconciler, cluster)]
    return tuple(found)


def _is_ours(obj: Object, reconciler: Reconciler, leaving: ClusterId) -> bool:
    """Whether it is ours to withdraw: as what our own cluster wrote, or as the cluster's leader."""
    owner = owner_of(obj)
    if owner is None:
        return False
    if not owner.led:
        return owner.serves == reconciler.informers.local != leaving
    lead = reconciler.informers.facts.get(Leadership, leaving)
    return owner.serves == leaving and lead is not None and lead.ours
