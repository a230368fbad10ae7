"""The load of the engine's own row: ConfigMaps that the toy feature shares."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.toy import HOME, OFFER, OFFERED

from bench.bare_client import (
    WORK,
    Collection,
    Write,
    configmap,
    create,
    namespace,
    patch,
    standing_in,
    warm,
)
from bench.object_waiter import ObjectWaiter, WatchScope
from hanse.kube.transport import Transport
from hanse.local.real.fleet import BROKER, NAMES
from hanse.model.kinds.core import ConfigMap, Event
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Object

NAMESPACES = {**dict.fromkeys(NAMES, WORK), BROKER: HOME}
LEFT = {
    cluster: (Collection(ConfigMap.kind, place), Collection(Event.kind, place))
    for cluster, place in NAMESPACES.items()
}


async def prepare(transports: Mapping[str, Transport]) -> None:
    """The namespaces of the load."""
    for cluster, way in transports.items():
        await namespace(way, NAMESPACES[cluster])
    await namespace(transports[BROKER], BROKER_NAMESPACE)
    await warm(transports)


def offers(cluster: str, names: Iterable[str]) -> list[Write]:
    """The load: each name offered by one cluster."""
    data = {"from": cluster, "text": "x" * 100}
    return [create(cluster, configmap(name, WORK, {OFFER: ""}, data)) for name in names]


def looks(sources: int) -> dict[str, WatchScope]:
    """Where all that comes of the load is seen."""

    def mark(obj: Object) -> str | None:
        assert isinstance(obj, ConfigMap), "nothing else is looked at"
        return obj.metadata.name if is_complete(obj, sources) else None

    return {cluster: WatchScope((ConfigMap,), place, mark) for cluster, place in NAMESPACES.items()}


def is_complete(seen: ConfigMap, sources: int) -> bool:
    """Whether an object of the toy feature tells of as many clusters as there are."""
    name, data = seen.metadata.name, seen.data
    if name.startswith("copy-of-"):
        return len(data) == sources
    if name.startswith("receipt-of-"):
        return data.get("from", "").count(",") == sources - 1
    if name.startswith("sum."):
        return data.get("clusters", "").count(",") == sources - 1
    return OFFER not in seen.metadata.labels or OFFERED in seen.metadata.annotations


async def everywhere(seen: Mapping[str, ObjectWaiter], names: Sequence[str]) -> None:
    """Wait until each cluster has each copy and receipt, and each record, sum and answer stands."""
    at_home = {f"{made}{name}" for made in ("", "copy-of-", "receipt-of-") for name in names}
    records = {f"{WORK}.{name}.{cluster}" for name in names for cluster in NAMES}
    sums = {f"sum.{WORK}.{name}" for name in names}
    await asyncio.gather(
        *(seen[name].until(at_home) for name in NAMES), seen[BROKER].until(records | sums)
    )


def is_by_people(write: Write) -> bool:
    """Whether a person, and not Hanse, makes this one."""
    return f'"{OFFER}"'.encode() in write.request.body


async def bare_writes(transports: Mapping[str, Transport]) -> list[Write]:
    """What a client would send that knew the end from the start: each object once, as it stands.

    Offers are created and then told that they are offered, as the feature has to.
    """
    return [
        write
        for cluster in transports
        for write in _in_order(cluster, await standing_in(transports[cluster], LEFT[cluster]))
    ]


def _in_order(cluster: str, standing: Iterable[dict[str, Any]]) -> list[Write]:
    creates: list[Write] = []
    patches: list[Write] = []
    for obj in standing:
        meta = obj["metadata"]
        if OFFER in meta.get("labels", {}):
            annotation_patch = {
                "metadata": {"annotations": {OFFERED: meta["annotations"][OFFERED]}}
            }
            patches.append(patch(cluster, obj, annotation_patch))
            meta = {k: v for k, v in meta.items() if k != "annotations"}
        creates.append(create(cluster, {**obj, "metadata": meta}))
    return [*creates, *patches]
