"""What each cluster would answer to a question, from what is read of it now."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from hanse.cli.clusters import Way
from hanse.dns.explain import Explanation, asked, explain
from hanse.dns.names import wire_name
from hanse.dns.services import ServiceZone
from hanse.dns.zone import View
from hanse.features.services.names import SERVICE_NAME
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials, KubeError, NotFound
from hanse.kube.events import Listed
from hanse.kube.http import HttpTransport
from hanse.kube.store import Store
from hanse.model.facts import ClusterState, Facts, KindServed, Phase, Role
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId, K, Kind, Object
from hanse.model.snapshot import Readable, Snapshot

PATIENCE = 10.0
BROKER = "broker"


class Answers(Struct, frozen=True):
    """What one cluster would answer."""

    cluster: ClusterId
    explanation: Explanation


class NoAnswer(Struct, frozen=True):
    """A cluster that could not be asked, and why."""

    cluster: ClusterId
    why: str


class _Read(Struct, frozen=True):
    """What one cluster has to say about a name; None of a kind that it does not serve."""

    imports: Listed[ServiceImport] | None
    slices: Listed[EndpointSlice] | None
    sets: Listed[ClusterSet] | None


async def resolved(
    name: str, rtype: int, ways: Sequence[Way], view: View
) -> list[Answers | NoAnswer]:
    """Ask every cluster but the broker; one that is silent does not hide the others."""
    about = asked(wire_name(name), view)
    namespace = about.key.namespace if about is not None else ""
    found = await asyncio.gather(*[_read(way, namespace) for way in ways])
    sets = next((r.sets for r in found if isinstance(r, _Read) and r.sets and r.sets.objects), None)
    answers: list[Answers | NoAnswer] = []
    for way, read in zip(ways, found, strict=True):
        if isinstance(read, NoAnswer):
            answers.append(read)
        elif len(ways) == 1 or not (read.sets and read.sets.objects):
            seen = _seen(way.name, read, sets)
            own = View(way.name, way.name, view.zone, view.local_first, profile=view.profile)
            answers.append(Answers(way.name, explain(name, rtype, own, seen)))
    return answers


async def _read(way: Way, namespace: str) -> _Read | NoAnswer:
    transport = HttpTransport(way.credentials)
    client = Client(transport)
    try:
        async with asyncio.timeout(PATIENCE):
            return _Read(
                await _list(client, ServiceImport, namespace),
                await _list(client, EndpointSlice, namespace, SERVICE_NAME),
                await _list(client, ClusterSet),
            )
    except TimeoutError:
        return NoAnswer(way.name, f"no answer within {PATIENCE:.0f} s")
    except (BadCredentials, KubeError) as error:
        return NoAnswer(way.name, str(error))
    finally:
        await transport.close()


async def _list(
    client: Client, kind: type[K], namespace: str = "", labels: str = ""
) -> Listed[K] | None:
    try:
        return await client.list(kind, namespace=namespace, labels=labels)
    except NotFound:
        return None


def _seen(local: ClusterId, read: _Read, sets: Listed[ClusterSet] | None) -> Snapshot:
    """What was read, as an agent of the cluster would see it."""
    now, facts = datetime.now(UTC), Facts()
    for name, role in ((local, Role.LOCAL), (BROKER, Role.BROKER)):
        facts.put(ClusterState(name, frozenset({role}), Phase.SYNCED, now, listed=True))
    stores: dict[tuple[ClusterId, Kind], list[Readable[Any]]] = {}
    indexes = {watch.kind: watch.indexes for watch in ServiceZone(View(local)).watches}
    several: list[tuple[ClusterId, type[Object], Listed[Any] | None]] = [
        (local, ServiceImport, read.imports),
        (local, EndpointSlice, read.slices),
        (BROKER, ClusterSet, sets),
    ]
    for where, kind, listed in several:
        if listed is None:
            facts.put(KindServed(where, kind.kind, served=False))
            continue
        store: Store[Any] = Store(indexes[kind])
        store.take(listed)
        stores[(where, kind.kind)] = [store]
    return Snapshot(stores, facts, now, local)
