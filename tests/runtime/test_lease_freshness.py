"""Whether a Lease is fresh: by renewals, and before the first by the clock of its API server."""

import asyncio
from datetime import datetime, timedelta
from typing import cast

import pytest

from hanse.model.facts import Fact, Facts, LeaseFreshness, ServerClock
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec, ManagedFieldsEntry
from hanse.model.snapshot import FactChange, ObjectChange
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.lease_freshness import LeaseFreshnessTracker
from tinykube.virtual_time import EPOCH, ON_VIRTUAL_TIME, LoopClock

DURATION = 15
CLOCK = ServerClock("oslo", timedelta(0))


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class FactStore:
    """The facts of an agent, without its informers."""

    def __init__(self) -> None:
        self.facts = Facts()

    def put_fact(self, fact: Fact) -> None:
        self.facts.put(fact)

    @property
    def fresh(self) -> bool | None:
        found = self.facts.get(LeaseFreshness, ("oslo", "sys", "leader"))
        return found.fresh if found is not None else None


def tracking() -> tuple[FactStore, LeaseFreshnessTracker]:
    store = FactStore()
    informers = cast(ClusterInformers, store)
    return store, LeaseFreshnessTracker(informers, frozenset({"leader"}), LoopClock())


def lease(written: datetime | None, number: int = 0) -> Lease:
    times = (ManagedFieldsEntry(time=written),) if written is not None else ()
    return Lease(
        metadata=LeaseMeta(name="leader", namespace="sys", managed_fields=times),
        spec=LeaseSpec(
            holder_identity="rome", lease_duration_seconds=DURATION, renew_time=str(number)
        ),
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("age", "seconds"),
    [(0, 15), (10, 5), (15, 0), (3600, 0), (-3600, 15)],
    ids=["new", "older", "too old", "long dead", "the server's clock was set back"],
)
@pytest.mark.parametrize("clock_first", [True, False])
async def test_a_lease_that_was_not_seen_to_be_renewed_is_as_old_as_its_server_says(
    age: float, seconds: float, clock_first: bool
) -> None:
    store, tracker = tracking()
    seen = ObjectChange("oslo", None, lease(EPOCH - timedelta(seconds=age)))
    known = FactChange(None, CLOCK)

    for change in (known, seen) if clock_first else (seen, known):
        if change is known:
            store.put_fact(CLOCK)
        tracker.on_change(change)

    assert store.fresh is (seconds > 0)
    await asyncio.sleep(seconds + 0.1)
    assert store.fresh is False


@pytest.mark.anyio
@pytest.mark.parametrize("clock", [None, CLOCK], ids=["no clock", "no time of writing"])
async def test_a_lease_whose_age_is_not_known_is_new_when_it_is_seen(
    clock: ServerClock | None,
) -> None:
    store, tracker = tracking()
    if clock is not None:
        store.put_fact(clock)

    tracker.on_change(ObjectChange("oslo", None, lease(None if clock is not None else EPOCH)))

    assert store.fresh is True
    await asyncio.sleep(DURATION)
    assert store.fresh is False


@pytest.mark.anyio
async def test_a_renewal_that_is_seen_counts_whatever_the_age_was() -> None:
    store, tracker = tracking()
    store.put_fact(CLOCK)
    old, renewed = lease(EPOCH - timedelta(hours=1)), lease(EPOCH - timedelta(hours=1), 1)
    tracker.on_change(ObjectChange("oslo", None, old))

    tracker.on_change(ObjectChange("oslo", old, renewed))
    tracker.on_change(FactChange(None, CLOCK))

    assert store.fresh is True
    tracker.on_change(ObjectChange("oslo", renewed, None))
    assert store.fresh is False


@pytest.mark.anyio
async def test_a_renewal_that_a_list_shows_counts_by_its_age() -> None:
    store, tracker = tracking()
    store.put_fact(CLOCK)
    first, last = lease(EPOCH), lease(EPOCH - timedelta(minutes=9), 1)
    tracker.on_change(ObjectChange("oslo", None, first))

    tracker.on_change(ObjectChange("oslo", first, last, live=False))

    assert store.fresh is False
