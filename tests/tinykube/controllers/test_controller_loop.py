"""The work loop: what is woken, how often, and what happens when something fails."""

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

Decision = Callable[[Key, Lister], Result]


class Probe:
    """A controller of ConfigMaps whose decisions a test gives; it notes when it was asked."""

    watches = frozenset((CONFIG_MAPS,))

    def __init__(self, decide: Decision, name: str = "probe") -> None:
        self.name = name
        self.asked: list[float] = []
        self._decide = decide

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        yield key_of(CONFIG_MAPS, change.object)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        self.asked.append(asyncio.get_running_loop().time())
        return self._decide(key, lister)


@asynccontextmanager
async def looping(*controllers: Controller) -> AsyncIterator[ClusterClient]:
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


def settle(_key: Key, _view: Lister) -> Result:
    return DONE


async def test_many_changes_of_one_object_are_looked_at_together() -> None:
    probe = Probe(settle)
    async with looping(probe) as cluster:
        await cluster.create(config("a"))
        for number in range(50):
            await cluster.patch(CONFIG_MAPS, "a", {"data": {"n": str(number)}})
        await cluster.writes_during(1)

    assert len(probe.asked) == 1


async def test_a_controller_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_key: Key, _view: Lister) -> Result:
        raise ArithmeticError("a bug")

    broken, sound = Probe(fail, "broken"), Probe(settle, "sound")
    async with looping(broken, sound) as cluster:
        await cluster.create(config("a"))
        await cluster.writes_during(10)

    assert len(sound.asked) == 1
    assert 5 < len(broken.asked) < 15
    pauses = [after - before for before, after in zip(broken.asked, broken.asked[1:], strict=False)]
    assert pauses == sorted(pauses)
    assert "a controller failed" in caplog.messages


async def test_a_refused_write_is_known_to_the_next_attempt() -> None:
    told: list[str] = []

    def refused(key: Key, lister: Lister) -> Result:
        told.append(lister.last_error("probe", key))
        bad = config("Not A Name")
        bad["metadata"]["namespace"] = "default"
        return Result((Create(CONFIG_MAPS, bad),))

    async with looping(Probe(refused)) as cluster:
        await cluster.create(config("a"))
        await cluster.writes_during(1)

    assert told[0] == ""
    assert "metadata.name: Invalid value" in told[1]


async def test_an_overtaken_patch_is_tried_again_at_once() -> None:
    stale: list[Object] = []

    def label(key: Key, lister: Lister) -> Result:
        found = lister.get(key.store, key.namespace, key.name)
        assert found is not None
        if found["data"].get("done") or found["data"].get("n") != "2":
            stale.append(found)
            return DONE
        target = stale[0] if len(probe.asked) == 2 else found
        return Result((Patch(CONFIG_MAPS, target, {"data": {"done": "yes"}}),))

    probe = Probe(label)
    async with looping(probe) as cluster:
        await cluster.create(config("a", n="1"))
        await cluster.writes_during(1)
        await cluster.patch(CONFIG_MAPS, "a", {"data": {"n": "2"}})
        await cluster.writes_during(1)

        assert cluster.require(CONFIG_MAPS, "a")["data"]["done"] == "yes"
    assert probe.asked[2] - probe.asked[1] < 0.1


async def test_two_patches_of_one_object_rest_on_each_other() -> None:
    def twice(key: Key, lister: Lister) -> Result:
        found = lister.get(key.store, key.namespace, key.name)
        assert found is not None
        if "b" in found["data"]:
            return DONE
        bodies: Sequence[Object] = ({"data": {"a": "1"}}, {"data": {"b": "2"}})
        return Result(tuple(Patch(CONFIG_MAPS, found, body) for body in bodies))

    probe = Probe(twice)
    async with looping(probe) as cluster:
        await cluster.create(config("x", n="1"))
        await cluster.wait_until(lambda: "b" in cluster.require(CONFIG_MAPS, "x")["data"])
        await cluster.writes_during(1)

    assert len(probe.asked) == 2


async def test_a_key_can_ask_to_be_looked_at_later() -> None:
    def once_more(_key: Key, _view: Lister) -> Result:
        return Result(requeue_after=timedelta(minutes=5)) if len(probe.asked) == 1 else DONE

    probe = Probe(once_more)
    async with looping(probe) as cluster:
        await cluster.create(config("a"))
        await cluster.writes_during(3600)

    assert probe.asked[1] - probe.asked[0] == pytest.approx(300)


async def test_after_a_restore_everything_is_looked_at_again() -> None:
    require: list[str] = []

    def note(key: Key, lister: Lister) -> Result:
        seen.append(key.name)
        return DONE

    async with looping(Probe(note)) as cluster:
        await cluster.create(config("kept"))
        snapshot = cluster.api.storage.snapshot()
        await cluster.create(config("lost"))
        await cluster.writes_during(1)
        seen.clear()

        cluster.api.storage.restore(snapshot)
        await cluster.writes_during(1)

    assert seen == ["kept"]
