"""How many requests follow each other in a scaling and in a roll-out, by links that take time."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.scenarios.statefulsets import StatefulSetsScenario, template
from tests.scenarios.test_statefulsets_budget import counts, has_rolled_out, launched
from tests.support.testbed_embedded import EmbeddedTestbed
from tinykube.storage import Change, Restored

TRIP = timedelta(milliseconds=10)
pytestmark = pytest.mark.virtual


class Moments:
    """When each replica was created, taken and ready again, in trips since the beginning."""

    def __init__(self, sets: StatefulSetsScenario) -> None:
        self._began = self._now()
        self.created: dict[str, float] = {}
        self.taken: dict[str, float] = {}
        self.ready: dict[str, float] = {}
        testbed = sets.scenario.testbed
        assert isinstance(testbed, EmbeddedTestbed)
        for cluster in sets.scenario.names:
            testbed.servers[cluster].storage.subscribe(self._on_event, "pods")

    @property
    def gaps(self) -> list[tuple[str, float]]:
        """Each replica but the first, with the trips since the one before was ready."""
        order = sorted(self.taken, key=lambda name: self.taken[name])
        return [(b, self.taken[b] - self.ready[a]) for a, b in pairwise(order)]

    def _on_event(self, event: Change | Restored) -> None:
        if isinstance(event, Restored):
            return
        meta, status = event.object["metadata"], event.object.get("status", {})
        is_ready = any(
            c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
        )
        if event.type == "ADDED":
            self.created.setdefault(meta["name"], self._trips())
        elif "deletionTimestamp" in meta:
            self.taken.setdefault(meta["name"], self._trips())
        elif is_ready and meta["name"] in self.taken:
            self.ready.setdefault(meta["name"], self._trips())

    def _trips(self) -> float:
        return round((self._now() - self._began) / TRIP.total_seconds(), 1)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


async def begin(sets: StatefulSetsScenario) -> Moments:
    """From now on every request takes a trip."""
    await sets.scenario.settled()
    sets.scenario.network.latency = TRIP
    return Moments(sets)


async def test_all_clusters_take_permits_and_scale_down_at_once(
    sets: StatefulSetsScenario,
) -> None:
    async with launched(sets, 9) as watch:
        await sets.scale(6)  # from then on each cluster has an entry in the record
        await sets.scenario.eventually(counts(watch, 6))
        moments, start = await begin(sets), len(sets.scenario.network.sent)
        await sets.scale(3)
        await sets.scenario.eventually(counts(watch, 3))

    # the record of shares, the permits of all clusters, and their StatefulSets
    assert {round(at) for at in moments.taken.values()} == {3}
    assert {w.status for w in sets.scenario.writes_since(start)} == {200}


async def test_a_scale_up_takes_two_trips(sets: StatefulSetsScenario) -> None:
    async with launched(sets, 3) as watch:
        moments = await begin(sets)
        await sets.scale(9)
        await sets.scenario.eventually(counts(watch, 9))

    assert {name: round(at) for name, at in moments.created.items()} == {
        f"store-{cluster}-{n}": 2 for cluster in sets.scenario.names for n in (1, 2)
    }


async def test_a_roll_out_adds_few_trips_between_replicas(sets: StatefulSetsScenario) -> None:
    async with launched(sets, 9) as watch:
        moments, start = await begin(sets), len(sets.scenario.network.sent)
        await sets.edit({"spec": {"template": template("etcd:3.7")}})
        await sets.scenario.eventually(has_rolled_out(sets, 9))

    assert watch.least == 8
    for replica, trips in moments.gaps:
        # Within a cluster the partition, after the report that the replica was down: here it is
        # ready again within that trip. To the next cluster the permit that is handed on at the
        # broker, and the template.
        assert trips <= 2, (replica, moments.gaps)
    writes = sets.scenario.writes_since(start)
    own = [w for w in writes if "/statefulsets/store-" in w.request.path]
    assert [w.status for w in own] == [200] * 9, "the controller's status was not in the way"
