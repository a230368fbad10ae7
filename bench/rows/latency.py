"""One export on an idle fleet: how soon all clusters have it, against the trips it has to take."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count, cycle

from bench.agents import agents_of, real_fleet
from bench.bare_client import (
    WORK,
    Collection,
    Write,
    clear,
    configmap,
    create,
    patch,
    write_all,
)
from bench.figures import AtMost, Figure, percentile
from bench.object_waiter import ObjectWaiter, object_waiters
from bench.row import Effort, Once, Row
from bench.services_load import LEFT, exports, exports_with_status, imported, looks, prepare
from hanse.kube.transport import Transport
from hanse.local.real.fleet import BROKER, NAMES
from hanse.model.kinds.core import ConfigMap
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Wire

SAMPLES = 200
CALM = 0.1
"""Seconds between two samples: long enough for what comes after an export, as events, to end."""

PLACES = {**dict.fromkeys(NAMES, WORK), BROKER: BROKER_NAMESPACE}
TRIPS = {cluster: (Collection(ConfigMap.kind, place),) for cluster, place in PLACES.items()}


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    samples = effort.of(SAMPLES, 20)
    async with real_fleet() as fleet:
        transports = {name: cluster.connect() for name, cluster in fleet.clusters.items()}
        numbers, homes = count(), cycle(NAMES)
        try:
            names = [f"service-{number}" for number in range(samples * effort.repeats)]
            await prepare(transports, names)
            async with agents_of(fleet, NAMES), object_waiters(transports, looks(1)) as seen:

                async def once() -> Mapping[str, float]:
                    trips: list[float] = []
                    shared: list[float] = []
                    for _ in range(samples):
                        number, home = next(numbers), next(homes)
                        trips.append(await _trips(transports, seen, home, f"trip-{number}"))
                        shared.append(await _shared(transports, seen, home, f"service-{number}"))
                    return _milliseconds(trips, shared)

                yield once
            await clear(transports, LEFT)
            await clear(transports, TRIPS)
        finally:
            for way in transports.values():
                await way.close()


async def _shared(
    transports: Mapping[str, Transport], seen: Mapping[str, ObjectWaiter], home: str, name: str
) -> float:
    """Seconds from the sending of an export until import and slice are seen in each cluster."""
    began = time.perf_counter()
    await write_all(transports, exports(home, [name]))
    all_of_it = imported([name], [home])
    await asyncio.gather(*(seen[cluster].until(all_of_it) for cluster in NAMES))
    seconds = time.perf_counter() - began
    await asyncio.gather(
        seen[home].until(exports_with_status([name])), seen[BROKER].until(all_of_it)
    )
    await asyncio.sleep(CALM)
    return seconds


async def _trips(
    transports: Mapping[str, Transport], seen: Mapping[str, ObjectWaiter], home: str, name: str
) -> float:
    """Seconds of the same writes, sent by us, each when all before it are seen on a watch.

    An export; its slice at the broker; in each cluster an import and a slice; and the import's
    status, which no create takes.
    """
    record, imported, slice_ = (f"{name}-{part}" for part in ("record", "import", "slice"))
    status = {"data": {"status": "set"}}
    began = time.perf_counter()
    await _written(transports, seen, [create(home, _stand_in(home, name))], {name})
    await _written(transports, seen, [create(BROKER, _stand_in(BROKER, record))], {record})
    everywhere = [create(c, _stand_in(c, part)) for c in NAMES for part in (imported, slice_)]
    await _written(transports, seen, everywhere, {imported, slice_})
    statuses = [patch(c, _stand_in(c, imported), status) for c in NAMES]
    await _written(transports, seen, statuses, {f"{imported} with status"})
    seconds = time.perf_counter() - began
    await asyncio.sleep(CALM)
    return seconds


async def _written(
    transports: Mapping[str, Transport],
    seen: Mapping[str, ObjectWaiter],
    writes: list[Write],
    marks: set[str],
) -> None:
    """Send writes, and wait until what comes of them is seen in each cluster that they go to."""
    await write_all(transports, writes)
    await asyncio.gather(*(seen[cluster].until(marks) for cluster in {w.cluster for w in writes}))


def _stand_in(cluster: str, name: str) -> Wire:
    """An object that is about as large as a small Service's, and nobody's."""
    return configmap(name, PLACES[cluster], {}, {"text": "x" * 100})


def _milliseconds(trips: list[float], shared: list[float]) -> dict[str, float]:
    return {
        "p50": 1000 * percentile(shared, 0.5),
        "p99": 1000 * percentile(shared, 0.99),
        "trips p50": 1000 * percentile(trips, 0.5),
        "trips p99": 1000 * percentile(trips, 0.99),
    }


LATENCY = Row(
    name="latency",
    about="one export on an idle fleet of real clusters until each has its import, 200 times",
    against="its four unavoidable writes one after another, each seen on a watch before the next",
    figures=(
        Figure("p50", "ms", against="trips p50"),
        Figure("p99", "ms", AtMost(2.0), against="trips p50"),
        Figure("trips p99", "ms"),
    ),
    prepare=_prepared,
)
