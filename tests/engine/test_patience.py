"""When a shared object's turn comes: the first in the order soon, the others when he is not."""

from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from hanse.engine.actions import Action, Create, Update
from hanse.engine.patience import SETTLE, Patience
from hanse.engine.queue import Item
from hanse.model.keys import Key
from hanse.model.kinds.core import ConfigMap
from hanse.testing.builders import configmap

ITEM: Item = ("toy", Key("sum", "bread", "shop"))


class Waiting:
    """A patience whose time we set, and what it asks to come back for."""

    def __init__(self, crowd: float = 0.0) -> None:
        self.now = 0.0
        self.patience = Patience(lambda: self.now, Random(0), lambda: crowd)
        self.asked: list[float] = []

    def ripe_at(self, now: float, action: Action) -> bool:
        self.now = now
        return bool(self.patience.ripe(ITEM, [action], self._later))

    def _later(self, item: Item, delay: timedelta) -> None:
        self.asked.append(delay.total_seconds())


def create(rank: int) -> Create:
    return Create("broker", configmap("sum"), 0, rank=rank)


def update(version: str, rank: int) -> Update:
    sum_ = configmap("sum")
    base: ConfigMap = replace(sum_, metadata=replace(sum_.metadata, resource_version=version))
    return Update("broker", base, {"data": {"a": "b"}}, "", 0, rank=rank)


def test_what_is_ours_alone_is_written_at_once() -> None:
    assert Waiting().ripe_at(0, replace(create(0), rank=None))


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_what_is_shared_waits_a_moment_and_a_second_for_each_who_is_before_us(rank: int) -> None:
    waiting = Waiting()

    assert not waiting.ripe_at(0, create(rank))
    assert waiting.asked == [pytest.approx(SETTLE + rank)]
    assert waiting.ripe_at(SETTLE + rank, create(rank))


def test_while_somebody_writes_the_next_in_the_order_stays_back() -> None:
    waiting = Waiting()
    waiting.ripe_at(0, update("1", rank=1))

    assert not waiting.ripe_at(1 + SETTLE, update("2", rank=1))
    assert waiting.ripe_at(2 * (1 + SETTLE), update("2", rank=1))


def test_the_first_in_the_order_is_not_held_up_by_what_others_write() -> None:
    waiting = Waiting()
    waiting.ripe_at(0, update("1", rank=0))

    assert waiting.ripe_at(SETTLE, update("2", rank=0))


def test_in_a_crowd_others_get_more_time() -> None:
    crowded = Waiting(crowd=1.0)
    crowded.ripe_at(0, create(1))

    assert not crowded.ripe_at(5, create(1))
    assert crowded.ripe_at(11, create(1))


def test_what_others_wait_for_is_written_at_once_by_the_first_in_the_order() -> None:
    assert Waiting().ripe_at(0, replace(create(0), awaited=True))
    assert not Waiting().ripe_at(0, replace(create(1), awaited=True))
