"""Federated StatefulSets: how long shares, a scaling and a roll-out over all clusters take."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeAlias

from bench.agents import agents_of, real_fleet
from bench.bare_client import WORK, configmap, create, namespace, patch, write_all
from bench.figures import AtMost, Figure, percentile
from bench.object_waiter import ObjectWaiter, WaitName, WatchScope, object_waiters
from bench.row import Effort, Once, Row, unprepared
from bench.services_load import prepare
from hanse.features.statefulsets.planner import ReplicaPreference, distribute
from hanse.kube.transport import Transport
from hanse.local.real.fleet import BROKER, NAMES
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Object, Wire

REPLICAS, CLUSTERS = 10_000, 100
SAMPLES = 200
STORE, BARE = "store", "bare"
_ROLL_OUT = "roll-out"
"""The annotation of the pods that each roll-out changes."""
CALM = 0.3
"""Seconds between two scalings: until the pods of the one before are told of."""

_Watched: TypeAlias = tuple[Mapping[str, Transport], Mapping[str, ObjectWaiter]]
"""Transports to clusters, and what is seen in each."""


async def _shared_out(effort: Effort) -> Mapping[str, float]:
    """Shares of a new set, of one that grew by a tenth, and of one that shrank by half."""
    replicas = effort.of(REPLICAS, 1_000)
    names = [f"cluster-{number:03}" for number in range(CLUSTERS)]
    wishes = {
        c: ReplicaPreference(weight=1 + n % 7, min=n % 3, max=400) for n, c in enumerate(names)
    }
    took: dict[str, float] = {}
    shares: dict[str, int] = {}
    for step, wanted in (
        ("new", replicas),
        ("grown", replicas * 11 // 10),
        ("shrunk", replicas // 2),
    ):
        began = time.perf_counter()
        shares = distribute(wanted, shares, names, wishes).shares
        took[step] = 1000 * (time.perf_counter() - began)
        assert sum(shares.values()) == wanted
    return took


def _set(name: str, replicas: int) -> Wire:
    labels = {"app": name}
    pod = {"containers": [{"name": name, "image": name}], "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": WORK},
        "spec": {
            "replicas": replicas,
            "serviceName": "",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _mark(obj: Object) -> str | None:
    """A cluster's set by its generation, which each scaling raises by one."""
    if isinstance(obj, StatefulSet):
        return f"{obj.name} {obj.metadata.generation}"
    return obj.name


@asynccontextmanager
async def _watched(mark: WaitName) -> AsyncIterator[_Watched]:
    """Real clusters with their agents, and what is seen of StatefulSets by its mark."""
    async with real_fleet() as fleet:
        transports = {name: cluster.connect() for name, cluster in fleet.clusters.items()}
        try:
            await prepare(transports, [])
            await namespace(transports[BROKER], WORK)
            look = WatchScope((StatefulSet, ConfigMap), WORK, mark)
            async with (
                agents_of(fleet, NAMES),
                object_waiters(transports, dict.fromkeys(transports, look)) as seen,
            ):
                yield transports, seen
        finally:
            for way in transports.values():
                await way.close()


@asynccontextmanager
async def _scaling(effort: Effort) -> AsyncIterator[Once]:
    samples = effort.of(SAMPLES, 10)
    async with _watched(_mark) as (transports, seen):
        generations = count(2)
        bare = [create(cluster, _set(BARE, 1)) for cluster in NAMES]
        await write_all(transports, [create(BROKER, _set(STORE, 3)), *bare])
        await _everywhere(seen, 1)
        await asyncio.sleep(2)

        async def once() -> Mapping[str, float]:
            trips: dict[str, list[float]] = {"growth": [], "shrink": []}
            scaled: dict[str, list[float]] = {"growth": [], "shrink": []}
            for generation in (next(generations) for _ in range(samples)):
                which = "growth" if _size(generation) > _size(generation - 1) else "shrink"
                trips[which].append(await _trips(transports, seen, generation))
                scaled[which].append(await _scaled(transports, seen, generation))
            return {
                f"{which} {figure}": 1000 * percentile(several[which], share)
                for which in scaled
                for figure, several, share in (
                    ("p50", scaled, 0.5),
                    ("p99", scaled, 0.99),
                    ("trips p50", trips, 0.5),
                )
            }

        yield once


async def _scaled(
    transports: Mapping[str, Transport], seen: Mapping[str, ObjectWaiter], generation: int
) -> float:
    """Seconds from a scaling at the door until every cluster's own set is seen to have it."""
    wanted = {"spec": {"replicas": len(NAMES) * _size(generation)}}
    began = time.perf_counter()
    await write_all(transports, [patch(BROKER, _set(STORE, 3), wanted)])
    await _everywhere(seen, generation)
    seconds = time.perf_counter() - began
    await asyncio.sleep(CALM)
    return seconds


async def _everywhere(seen: Mapping[str, ObjectWaiter], generation: int) -> None:
    waiting = [seen[cluster].until({f"{STORE}-{cluster} {generation}"}) for cluster in NAMES]
    await asyncio.gather(*waiting)


def _size(generation: int) -> int:
    """Replicas of each cluster, from 1 to 8 and back to 1.

    Two sizes in turn would look like two who fight over the set.
    """
    return 1 + min((generation - 1) % 14, -(generation - 1) % 14)


async def _trips(
    transports: Mapping[str, Transport], seen: Mapping[str, ObjectWaiter], generation: int
) -> float:
    """Seconds of the same writes, each sent by us when those before are seen on a watch.

    Two at the door, for a smaller set the permits of all clusters at once, and then the same
    scaling of a set of each cluster's own, whose controllers begin with its pods as soon as they
    hear of it.
    """
    wanted = {"spec": {"replicas": _size(generation)}}
    steps: list[tuple[str, ...]] = [("door",), ("shares",)]
    if _size(generation) < _size(generation - 1):
        steps.append(tuple(f"permit-{cluster}" for cluster in NAMES))
    began = time.perf_counter()
    for step in steps:
        names = [f"{each}-{generation}" for each in step]
        stand_ins = [configmap(name, WORK, {}, {"text": "x" * 100}) for name in names]
        await write_all(transports, [create(BROKER, each) for each in stand_ins])
        await seen[BROKER].until({*names})
    await write_all(transports, [patch(cluster, _set(BARE, 1), wanted) for cluster in NAMES])
    await asyncio.gather(*(seen[c].until({f"{BARE} {generation}"}) for c in NAMES))
    seconds = time.perf_counter() - began
    await asyncio.sleep(CALM)
    return seconds


def _rolled_out(obj: Object) -> str | None:
    """A set by the roll-out that its replicas have come through; a ConfigMap by its name."""
    if not isinstance(obj, StatefulSet):
        return obj.name
    status, pods = obj.status, obj.spec.template.get("metadata", {})
    is_current = status.observed_generation == obj.metadata.generation
    if not is_current or {status.ready_replicas, status.replicas} != {obj.spec.replicas}:
        return None
    number = pods.get("annotations", {}).get(_ROLL_OUT)
    return _released(obj.name, number, status.updated_replicas, obj.spec.replicas)


@asynccontextmanager
async def _rolling_out(effort: Effort) -> AsyncIterator[Once]:
    """A set of nine replicas in one cluster, and the same at the broker, over three clusters."""
    replicas = effort.of(9, 3)
    one, several = (_with_annotation(_set(name, replicas), "0") for name in (BARE, STORE))
    async with _watched(_rolled_out) as (transports, seen):
        roll_outs = count(1)
        await write_all(transports, [create(NAMES[0], one), create(BROKER, several)])
        await _all_rolled_out(seen, "0")

        async def once() -> Mapping[str, float]:
            number = str(next(roll_outs))
            trips = [await _trip(transports, seen, f"{number}-{n}") for n in range(20)]
            began = time.perf_counter()
            await write_all(transports, [patch(NAMES[0], one, _with_annotation({}, number))])
            await seen[NAMES[0]].until({f"{BARE} {number}"})
            alone = time.perf_counter() - began
            stepped = await _stepped(transports, seen, one, f"{number}-stepped")
            began = time.perf_counter()
            await write_all(transports, [patch(BROKER, several, _with_annotation({}, number))])
            await _all_rolled_out(seen, number)
            together = time.perf_counter() - began
            return {
                "whole": together,
                "one StatefulSet": alone,
                "one StatefulSet, released one by one": stepped,
                "added for each replica": 1000 * (together - stepped) / replicas,
                "trip": 1000 * percentile(trips, 0.5),
            }

        yield once


async def _stepped(
    transports: Mapping[str, Transport], seen: Mapping[str, ObjectWaiter], one: Wire, number: str
) -> float:
    """Seconds of a roll-out of one set that we release one by one, as its status counts the last.

    Who decides before each replica whether it may go cannot do without that write, and its
    controller's turn.
    """
    replicas, began = one["spec"]["replicas"], time.perf_counter()
    for released in range(1, replicas + 1):
        rolling = {"rollingUpdate": {"partition": replicas - released}}
        change = _with_annotation({"spec": {"updateStrategy": rolling}}, number)
        await write_all(transports, [patch(NAMES[0], one, change)])
        await seen[NAMES[0]].until({_released(BARE, number, released, replicas)})
    return time.perf_counter() - began


def _released(name: str, number: str, released: int, replicas: int) -> str:
    """The mark of a set with so many replicas of a roll-out; of all, that of its end."""
    return f"{name} {number}" if released == replicas else f"{name} {number} {released}"


def _with_annotation(obj: Wire, number: str) -> Wire:
    """A set, or the merge patch of one, whose pods are of a roll-out, one after the other."""
    pods = obj.get("spec", {}).get("template", {})
    pods = {**pods, "metadata": {**pods.get("metadata", {}), "annotations": {_ROLL_OUT: number}}}
    return {**obj, "spec": {**obj.get("spec", {}), "template": pods}}


async def _all_rolled_out(seen: Mapping[str, ObjectWaiter], number: str) -> None:
    await asyncio.gather(*(seen[c].until({f"{STORE}-{c} {number}"}) for c in NAMES))


async def _trip(
    transports: Mapping[str, Transport], seen: Mapping[str, ObjectWaiter], name: str
) -> float:
    """Seconds from a write at the broker until it is seen on a watch."""
    began = time.perf_counter()
    await write_all(transports, [create(BROKER, configmap(name, WORK, {}, {"text": "x" * 100}))])
    await seen[BROKER].until({name})
    return time.perf_counter() - began


SHARES = Row(
    name="shares",
    about="10,000 replicas over 100 clusters with weights, minima and maxima: new, grown, shrunk",
    against="what a plan may take",
    figures=(
        Figure("new", "ms", AtMost(50.0)),
        Figure("grown", "ms", AtMost(50.0)),
        Figure("shrunk", "ms", AtMost(50.0)),
    ),
    prepare=unprepared(_shared_out),
)

SCALING = Row(
    name="scaling",
    about="a set scaled at the door of an idle fleet of real clusters until each has its share",
    against="its unavoidable writes one after another, each seen on a watch before the next: "
    "three, and for a smaller set the permits of all clusters at once",
    figures=(
        Figure("growth p50", "ms", against="growth trips p50"),
        Figure("growth p99", "ms", AtMost(2.0), against="growth trips p50"),
        Figure("shrink p50", "ms", against="shrink trips p50"),
        Figure("shrink p99", "ms", AtMost(2.0), against="shrink trips p50"),
    ),
    prepare=_scaling,
)

ROLL_OUT = Row(
    name="roll-out",
    about="a new template for nine replicas, one after the other over three real clusters",
    against="the same template for one StatefulSet of nine replicas in one cluster; for each "
    "replica the same one by one, by a client that lowers the partition when the status counts "
    "the last, and one trip: a write at the broker until it is seen on a watch",
    figures=(
        Figure("whole", "s", against="one StatefulSet"),
        Figure("one StatefulSet, released one by one", "s", against="one StatefulSet"),
        Figure("added for each replica", "ms", AtMost(1.0), against="trip"),
    ),
    prepare=_rolling_out,
)
