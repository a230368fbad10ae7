"""Leaving a cluster: what we made there goes first, or is written down as left behind."""

import asyncio
import logging

from msgspec import Struct

from hanse.engine.engine import Engine
from hanse.engine.ownership import OWNER, owner_of
from hanse.kube.errors import KubeError, NotFound
from hanse.model.objects import ClusterId, Object, Place, ref_of

log = logging.getLogger(__name__)

LOOK_AGAIN = 0.5


class Left(Struct, frozen=True):
    """A cluster was left; what could not be withdrawn from it is named."""

    cluster: ClusterId
    abandoned: tuple[Place, ...] = ()


async def leave(engine: Engine, cluster: ClusterId) -> Left:
    """Withdraw everything of ours from a cluster, see for ourselves that it is gone, let go of it.

    This lasts until the cluster can be reached; cancelling it leaves the cluster in state Leaving.
    """
    engine.fleet.start_leaving(cluster)
    engine.reconsider(cluster)
    while await _ours_in(engine, cluster) != ():  # noqa: ASYNC110 - the cluster must be asked
        await asyncio.sleep(LOOK_AGAIN)
    if cluster in engine.fleet.connections:
        await engine.fleet.disconnect(cluster)
    return Left(cluster)


async def leave_by_force(engine: Engine, cluster: ClusterId) -> Left:
    """Let go of a cluster that is dead or lost, and say what stays behind in it as far as known."""
    abandoned = tuple(
        sorted(
            Place(where, ref_of(obj)) for where, obj in engine.owned.objects() if where == cluster
        )
    )
    await engine.fleet.disconnect(cluster)
    log.warning("cluster abandoned", extra={"cluster": cluster, "objects": len(abandoned)})
    return Left(cluster, abandoned)


async def _ours_in(engine: Engine, cluster: ClusterId) -> tuple[Object, ...] | None:
    """What a labelled list finds of ours; None while the cluster cannot be asked."""
    connection = engine.fleet.connections.get(cluster)
    if connection is None:
        return ()  # somebody let go of it by force
    found: list[Object] = []
    for scope in list(connection.streams):
        try:
            listed = await connection.api.list(scope.kind, namespace=scope.namespace, labels=OWNER)
        except NotFound:
            continue  # a kind that is not served holds nothing
        except KubeError:
            return None
        found += [o for o in listed.objects if _is_ours(o, engine.fleet.local, cluster)]
    return tuple(found)


def _is_ours(obj: Object, local: ClusterId, leaving: ClusterId) -> bool:
    owner = owner_of(obj)
    return owner is not None and owner.serves == (leaving if owner.led else local)
