"""The controller loop: enqueueing, retries and errors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tinykube.apiserver import ApiServer
from tinykube.controllers.controller import (
    CONFIG_MAPS,
    DONE,
    Controller,
    Create,
    Key,
    Lister,
    Patch,
    Result,
)
from tinykube.controllers.controller_loop import ControllerLoop
from tinykube.controllers.objects import key_of
from tinykube.resources import Object
from tinykube.storage import Change
from tinykube.virtual_time import LoopClock

from .scenario import ClusterClient

pytestmark = pytest.mark.anyio

Reconcile = Callable[[Key, Lister], Result]


class Probe:
    """A controller of ConfigMaps with a given reconcile function; it records the times of calls."""

    watches = frozenset((CONFIG_MAPS,))

    def __init__(self, reconcile: Reconcile, name: str = "probe") -> None:
        self.name = name
        self.reconciled_at: list[float] = []
        self._reconcile = reconcile

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        yield key_of(CONFIG_MAPS, change.object)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        self.reconciled_at.append(asyncio.get_running_loop().time())
        return self._reconcile(key, lister)


@asynccontextmanager
async def running_loop(*controllers: Controller) -> AsyncIterator[ClusterClient]:
    api = ApiServer("lubeck", clock=LoopClock(), seed=1)
    loop = ControllerLoop(api, controllers)
    running = asyncio.create_task(loop.run())
    try:
        await loop.idle()
        yield ClusterClient(api)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def config(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def do_nothing(_key: Key, _lister: Lister) -> Result:
    return DONE


async def test_many_changes_of_one_object_are_reconciled_once() -> None:
    probe = Probe(do_nothing)
    async with running_loop(probe) as cluster:
        await cluster.create(config("a"))
        for number in range(50):
            await cluster.patch(CONFIG_MAPS, "a", {"data": {"n": str(number)}})
        await cluster.writes_during(1)

    assert len(probe.reconciled_at) == 1


async def test_a_controller_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_key: Key, _lister: Lister) -> Result:
        raise ArithmeticError("a bug")

    failing, healthy = Probe(fail, "failing"), Probe(do_nothing, "healthy")
    async with running_loop(failing, healthy) as cluster:
        await cluster.create(config("a"))
        await cluster.writes_during(10)

    assert len(healthy.reconciled_at) == 1
    assert 5 < len(failing.reconciled_at) < 15
    delays = [
        after - before
        for before, after in zip(failing.reconciled_at, failing.reconciled_at[1:], strict=False)
    ]
    assert delays == sorted(delays)
    assert "a controller failed" in caplog.messages


async def test_the_error_of_a_failed_write_is_passed_to_the_next_reconcile() -> None:
    errors: list[str] = []

    def write_invalid_object(key: Key, lister: Lister) -> Result:
        errors.append(lister.last_error("probe", key))
        bad = config("Not A Name")
        bad["metadata"]["namespace"] = "default"
        return Result((Create(CONFIG_MAPS, bad),))

    async with running_loop(Probe(write_invalid_object)) as cluster:
        await cluster.create(config("a"))
        await cluster.writes_during(1)

    assert errors[0] == ""
    assert "metadata.name: Invalid value" in errors[1]


async def test_a_patch_with_a_conflict_is_retried_at_once() -> None:
    stale: list[Object] = []

    def label(key: Key, lister: Lister) -> Result:
        found = lister.get(key.store, key.namespace, key.name)
        assert found is not None
        if found["data"].get("done") or found["data"].get("n") != "2":
            stale.append(found)
            return DONE
        target = stale[0] if len(probe.reconciled_at) == 2 else found
        return Result((Patch(CONFIG_MAPS, target, {"data": {"done": "yes"}}),))

    probe = Probe(label)
    async with running_loop(probe) as cluster:
        await cluster.create(config("a", n="1"))
        await cluster.writes_during(1)
        await cluster.patch(CONFIG_MAPS, "a", {"data": {"n": "2"}})
        await cluster.writes_during(1)

        assert cluster.require(CONFIG_MAPS, "a")["data"]["done"] == "yes"
    assert probe.reconciled_at[2] - probe.reconciled_at[1] < 0.1


async def test_two_patches_of_one_object_do_not_conflict() -> None:
    def twice(key: Key, lister: Lister) -> Result:
        found = lister.get(key.store, key.namespace, key.name)
        assert found is not None
        if "b" in found["data"]:
            return DONE
        bodies: Sequence[Object] = ({"data": {"a": "1"}}, {"data": {"b": "2"}})
        return Result(tuple(Patch(CONFIG_MAPS, found, body) for body in bodies))

    probe = Probe(twice)
    async with running_loop(probe) as cluster:
        await cluster.create(config("x", n="1"))
        await cluster.wait_until(lambda: "b" in cluster.require(CONFIG_MAPS, "x")["data"])
        await cluster.writes_during(1)

    assert len(probe.reconciled_at) == 2


async def test_a_key_can_be_requeued_after_a_delay() -> None:
    def requeue_once(_key: Key, _lister: Lister) -> Result:
        return Result(requeue_after=timedelta(minutes=5)) if len(probe.reconciled_at) == 1 else DONE

    probe = Probe(requeue_once)
    async with running_loop(probe) as cluster:
        await cluster.create(config("a"))
        await cluster.writes_during(3600)

    assert probe.reconciled_at[1] - probe.reconciled_at[0] == pytest.approx(300)


async def test_after_a_restore_every_object_is_reconciled_again() -> None:
    observed: list[str] = []

    def note(key: Key, lister: Lister) -> Result:
        observed.append(key.name)
        return DONE

    async with running_loop(Probe(note)) as cluster:
        await cluster.create(config("kept"))
        snapshot = cluster.api.storage.snapshot()
        await cluster.create(config("lost"))
        await cluster.writes_during(1)
        observed.clear()

        cluster.api.storage.restore(snapshot)
        await cluster.writes_during(1)

    assert observed == ["kept"]
