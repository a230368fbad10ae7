"""When a shared object's turn comes: the first in the order soon, the others when he is not."""

from datetime import timedelta
from random import Random
from typing import Literal

import pytest
from msgspec.structs import replace

from hanse.model.kinds.core import ConfigMap
from hanse.model.plan import Key
from hanse.runtime import backoff
from hanse.runtime.actions import Action, Create, Update
from hanse.runtime.apply import WriteReport
from hanse.runtime.backoff import CONTEST_WINDOW, OTHERS_ACTIVE, SHARED_DELAY, BackoffTracker
from hanse.runtime.workqueue import Item
from tests.support.builders import configmap

ITEM: Item = ("toy", Key("sum", "bread", "shop"))


class Waiting:
    """A patience whose time we set, and what it asks to come back for."""

    def __init__(self, load: float = 0.0) -> None:
        self.now = 0.0
        self.patience = BackoffTracker(lambda: self.now, Random(0), lambda: load)
        self.asked: list[float] = []

    def ripe_at(self, now: float, action: Action) -> bool:
        self.now = now
        return bool(self.patience.take_due(ITEM, [action], self._later))

    def others_write_at(self, now: float) -> None:
        self.now = now
        self.patience.record_others_write()

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
    assert waiting.asked == [pytest.approx(SHARED_DELAY + rank)]
    assert waiting.ripe_at(SHARED_DELAY + rank, create(rank))


def test_while_somebody_writes_the_next_in_the_order_stays_back() -> None:
    waiting = Waiting()
    waiting.ripe_at(0, update("1", rank=1))

    assert not waiting.ripe_at(1 + SHARED_DELAY, update("2", rank=1))
    assert waiting.ripe_at(2 * (1 + SHARED_DELAY), update("2", rank=1))


def test_the_first_in_the_order_is_not_held_up_by_what_others_write() -> None:
    waiting = Waiting()
    waiting.ripe_at(0, update("1", rank=0))

    assert waiting.ripe_at(SHARED_DELAY, update("2", rank=0))


def test_in_a_crowd_others_get_more_time() -> None:
    crowded = Waiting(load=1.0)
    crowded.ripe_at(0, create(1))

    assert not crowded.ripe_at(5, create(1))
    assert crowded.ripe_at(12, create(1))


def test_in_a_crowd_the_first_waits_a_little_longer_for_what_is_about_to_change() -> None:
    crowded = Waiting(load=1.0)
    crowded.ripe_at(0, create(0))

    assert not crowded.ripe_at(3 * SHARED_DELAY, create(0))
    assert crowded.ripe_at(5 * SHARED_DELAY, create(0))


def test_while_others_work_through_their_backlog_nobody_steps_in_for_them() -> None:
    waiting = Waiting()
    waiting.ripe_at(0, create(1))

    for second in range(10):
        waiting.others_write_at(second)

    assert not waiting.ripe_at(9.5, create(1))
    assert waiting.ripe_at(9 + SHARED_DELAY + 1, create(1))


def test_somebody_steps_in_at_last_for_one_who_never_writes_though_others_do() -> None:
    waiting = Waiting()
    waiting.ripe_at(0, create(1))

    waiting.others_write_at(2 * OTHERS_ACTIVE)

    assert waiting.ripe_at(2 * OTHERS_ACTIVE, create(1))


def test_what_others_wait_for_does_not_wait_for_those_who_write_something_else() -> None:
    waiting = Waiting()
    awaited = replace(create(1), awaited=True)
    waiting.ripe_at(0, awaited)

    waiting.others_write_at(0.9)

    assert waiting.ripe_at(1, awaited)


def test_what_others_wait_for_is_written_at_once_by_the_first_in_the_order() -> None:
    assert Waiting().ripe_at(0, replace(create(0), awaited=True))
    assert not Waiting().ripe_at(0, replace(create(1), awaited=True))


class Writing(Waiting):
    """Writes of one object whose versions we count: by us, and by others."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 1
        self.generation = 1

    def writes(self, value: str, subresource: Literal["", "status"] = "") -> float:
        """Write when its time has come; gives how long that took."""
        meta = configmap("sum").metadata
        observed_meta = replace(
            meta, resource_version=str(self.version), generation=self.generation
        )
        base = replace(configmap("sum"), metadata=observed_meta)
        action = Update("broker", base, {"data": {"a": value}}, subresource, 0)
        began = self.now
        while not self.ripe_at(self.now, action):
            self.now += self.asked[-1]
        self.version += 1
        self.patience.record(
            ITEM, [WriteReport(action, "Done", resource_version=str(self.version))]
        )
        return self.now - began

    def somebody_writes(self, spec: bool = False) -> None:
        self.version += 1
        self.generation += spec


def test_what_somebody_undoes_again_and_again_is_written_ever_more_slowly() -> None:
    writing = Writing()
    waits = []
    for _ in range(10):
        waits.append(writing.writes("ours"))
        writing.somebody_writes()

    assert waits[:6] == [0] * 6
    assert min(waits[6:]) > 0.5
    assert waits[9] > waits[6]


def test_what_we_decide_anew_is_written_at_once_however_often() -> None:
    writing = Writing()

    assert [writing.writes(f"{n % 2}") for n in range(40)] == [0] * 40


def test_a_status_is_written_at_once_however_often_a_user_changes_the_spec() -> None:
    writing = Writing()
    waits = []
    for n in range(20):
        waits.append(writing.writes(f"{n % 2}", "status"))
        writing.somebody_writes(spec=True)

    assert waits == [0] * 20


def test_writes_of_a_status_that_another_writer_also_writes_back_off() -> None:
    writing = Writing()
    waits = []
    for _ in range(10):
        waits.append(writing.writes("ours", "status"))
        writing.somebody_writes()

    assert waits[9] > 0.5


def test_a_plan_that_oscillates_backs_off() -> None:
    writing = Writing()

    assert sum(writing.writes(f"{n % 2}") for n in range(100)) > 60


def test_what_was_written_is_remembered_for_as_long_as_a_repetition_would_count() -> None:
    waiting = Waiting()
    for number in range(3):
        waiting.now = number * CONTEST_WINDOW * 0.6
        action = Create("broker", configmap(f"sum-{number}"), 0)
        waiting.patience.record(ITEM, [WriteReport(action, "Done", resource_version="1")])

    remembered = {place.ref.name for place in waiting.patience._repeats}
    assert remembered == {"sum-1", "sum-2"}


def test_refusals_of_what_nobody_wants_any_more_do_not_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backoff, "MAX_TRACKED", 3)
    waiting = Waiting()
    for name in ("a", "b", "a", "c", "d"):
        action = Create("broker", configmap(name), 0)
        waiting.patience.record(ITEM, [WriteReport(action, "Refused")])

    assert [place.ref.name for place in waiting.patience._refusals] == ["a", "c", "d"]
