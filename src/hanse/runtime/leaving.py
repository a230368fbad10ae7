"""Leaving a cluster: our objects are deleted first, or recorded as abandoned."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from msgspec import Struct

from hanse.kube.errors import KubeError, NotFound
from hanse.model.facts import ClusterAbandoned, ClusterDeparted, Leadership, Role
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.ownership import OWNER
from hanse.runtime.connection import Connection
from hanse.runtime.handover import has_other_holder
from hanse.runtime.ownership import owner_of
from hanse.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.5


class LeaveResult(Struct, frozen=True):
    """A cluster that was left, and our objects that stay behind in it."""

    cluster: ClusterId
    abandoned: tuple[ClusterObjectRef, ...] = ()


async def _do_nothing() -> None:
    """Return at once."""
    return


async def leave(
    reconciler: Reconciler,
    cluster: ClusterId,
    before_disconnect: Callable[[], Awaitable[None]] = _do_nothing,
) -> LeaveResult:
    """Delete our objects from a cluster, verify by live lists that they are gone, disconnect.

    This waits until the cluster can be reached; when cancelled, the cluster stays in Leaving. The
    objects of a member that another supervisor leads are left to that one; one for whose leadership
    we contend at the start is not left while nobody leads it. `before_disconnect` is awaited once
    nothing is left. The local cluster stays connected, with role LOCAL alone. Puts
    `ClusterDeparted`.
    """
    informers = reconciler.informers
    elected = informers.facts.get(Leadership, cluster) is not None
    informers.set_leaving(cluster)
    reconciler.enqueuer.enqueue_all_owners()  # in it, and elsewhere derived from it
    while await _list_to_delete(reconciler, cluster, elected) != ():  # noqa: ASYNC110 - it must be read
        await asyncio.sleep(POLL_INTERVAL)
    await before_disconnect()
    if cluster == informers.local:
        informers.set_roles(cluster, {Role.LOCAL})
        informers.set_leaving(cluster, False)
        informers.put_fact(ClusterDeparted(cluster, reconciler.snapshot().now))
    elif cluster in informers.connections:
        await informers.disconnect(cluster)
    return LeaveResult(cluster)


async def force_leave(
    reconciler: Reconciler, cluster: ClusterId, last_known: Iterable[ClusterObjectRef] = ()
) -> LeaveResult:
    """Disconnect a cluster that is dead or lost, and record our objects in it as abandoned.

    Puts `ClusterDeparted` and `ClusterAbandoned`, and logs. `last_known` are objects that were ours
    when we last saw them: in a member that we no longer lead, informers do not see them.
    """
    abandoned = tuple(sorted({*owned_refs(reconciler, cluster), *last_known}))
    await reconciler.informers.disconnect(cluster)
    reconciler.informers.put_fact(ClusterAbandoned(cluster, reconciler.snapshot().now, abandoned))
    log.warning("cluster abandoned", extra={"cluster": cluster, "objects": len(abandoned)})
    return LeaveResult(cluster, abandoned)


def owned_refs(reconciler: Reconciler, cluster: ClusterId) -> Iterator[ClusterObjectRef]:
    """Our objects in a cluster, as far as informers see them."""
    for where, obj in reconciler.owned.objects():
        if where == cluster:
            yield ClusterObjectRef(where, object_ref(obj))


async def _list_to_delete(
    reconciler: Reconciler, cluster: ClusterId, elected: bool
) -> tuple[Object, ...] | None:
    """List the objects live that we have to delete; None while they are not known for good.

    So it is while the cluster cannot be read, a write that began before the leave may add one, or
    an `elected` leader is missing or changes. () also for a cluster that is no longer connected.
    """
    informers = reconciler.informers
    connection = informers.connections.get(cluster)
    if connection is None:
        return ()  # it was disconnected by force meanwhile
    if connection.claims_under_way:
        return None
    leadership = informers.facts.get(Leadership, cluster)
    if elected and not await _is_led(leadership, informers.local, connection):
        return None  # the next leader deletes, and that may be us
    found: list[Object] = []
    for scope in list(connection.informers):
        try:
            listed = await connection.api.list(
                scope.kind, namespace=scope.namespace, labels=OWNER, fields=scope.fields
            )
        except NotFound:
            continue  # the kind is not served
        except KubeError:
            return None
        found += [obj for obj in listed.objects if _must_delete(obj, reconciler, cluster)]
    if informers.facts.get(Leadership, cluster) != leadership:
        return None  # a leader has more informers than were listed
    return tuple(found)


async def _is_led(leadership: Leadership | None, local: ClusterId, connection: Connection) -> bool:
    """Whether a member has a leader: this agent by the fact, or another by its Lease, read live.

    True, too, if the Lease cannot be read; False without a fact with a holder. Nobody deletes our
    objects if each supervisor takes the other for the leader.
    """
    if leadership is None or not leadership.holder:
        return False
    return leadership.ours or await has_other_holder(local, connection.cluster, connection.api)


def _must_delete(obj: Object, reconciler: Reconciler, leaving: ClusterId) -> bool:
    """Whether this agent has to delete an object of the cluster that it leaves.

    True for an object that it owns for its own cluster, unless it leaves that one; and for a `led`
    object of the cluster that is left, if it leads that now. False for shared objects.
    """
    owner = owner_of(obj)
    if owner is None:
        return False
    if not owner.led:
        return owner.serves == reconciler.informers.local != leaving
    leadership = reconciler.informers.facts.get(Leadership, leaving)
    return owner.serves == leaving and leadership is not None and leadership.ours
