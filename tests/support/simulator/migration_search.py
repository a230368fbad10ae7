"""Searches for orders of upgrades from Lighthouse, and roll-backs, that break the law.

`python -m tests.support.simulator.migration_search --orders 0:5000` plays them; an order is a
function of its number.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random

from hanse.model.kinds.hanse import LighthouseVersion
from tests.support.simulator.exports import NAMES
from tests.support.simulator.forks import StartedProcess, in_fork
from tests.support.simulator.migration import (
    ACTIONS,
    LAGGING,
    Action,
    Migration,
    MigrationFailed,
    Order,
    Step,
    finish,
    opened,
    set_lag,
    upgraded_by,
)
from tests.support.simulator.runner import quiet_logs
from tests.support.simulator.schedule import CLUSTERS
from tests.support.testbed_embedded import embedded_testbed

BRANCHES = 6
TREE = 2**BRANCHES
"""Orders with common first steps, which are played once."""


def draw_order(number: int) -> Order:
    """The order of a number: upgrades and roll-backs and users' actions.

    The orders of a tree have their first steps in common, and then branch in two again and again.
    Every fourth goes on until all clusters are upgraded.
    """
    tree, path = divmod(number, TREE)
    random = Random(tree)
    version: LighthouseVersion = random.choice(("0.14", "0.15"))
    lags, steps = random.choice(LAGGING), list[Step]()
    for _ in range(random.randrange(1, 8)):
        steps.append(_draw_step(random, steps))
    branches = f"{path:0{BRANCHES}b}"
    for length in range(1, BRANCHES + 1):
        random = Random(f"{tree} {branches[: length - 1]}")
        first = step = _draw_step(random, steps)
        while branches[length - 1] == "1" and step == first:
            step = _draw_step(random, steps)
        steps.append(step)
    rest = [c for c in CLUSTERS if c not in upgraded_by(steps)] if number % 4 == 0 else []
    Random(number).shuffle(rest)
    return Order(version, (*steps, *(Step("upgrade", cluster) for cluster in rest)), lags)


def _draw_step(random: Random, before: Sequence[Step]) -> Step:
    """A step that is possible after others."""
    upgraded = upgraded_by(before)
    while True:
        cluster = random.choice(CLUSTERS)
        action = random.choice(("pods", "pods", "export", "unexport", "move", "move", "crash"))
        if action == "move":
            return Step("roll_back" if cluster in upgraded else "upgrade", cluster)
        if action != "crash":
            return Step(_action(action), cluster, random.choice(NAMES), random.choice((0, 1, 2)))
        if cluster in upgraded:
            return Step("crash", cluster)


def _action(text: str) -> Action:
    return next(action for action in ACTIONS if action == text)


@asynccontextmanager
async def _opened_embedded(version: LighthouseVersion) -> AsyncIterator[Migration]:
    async with embedded_testbed() as testbed, opened(testbed, version) as migration:
        yield migration


async def _play_tree(migration: Migration, orders: Sequence[Order]) -> dict[Order, str]:
    """Why the law does not hold, by order of a tree in which it does not."""
    set_lag(migration.fleet, orders[0].lags)
    await migration.begin()
    return await _play_branch(migration, orders, 0)


async def _play_branch(
    migration: Migration, orders: Sequence[Order], played: int
) -> dict[Order, str]:
    """Play orders whose first steps are played: what they have in common, then each in a fork."""
    failures: dict[Order, str] = {}
    branches = _branches(orders, played)
    try:
        while len(branches) == 1 and None not in branches:
            await migration.play(orders[0].steps[played])
            played += 1
            branches = _branches(orders, played)
        if None in branches:
            await finish(migration, orders[0])
            branches = {}
    except* MigrationFailed as failed:
        branches, failures = {}, dict.fromkeys(orders, str(failed.exceptions[0]))
    for some in branches.values():
        failures |= await in_fork(partial(_play_branch, migration, some, played))
    return failures


def _branches(orders: Sequence[Order], played: int) -> dict[Step | None, list[Order]]:
    """Orders by their next step; None for those that end."""
    found: dict[Step | None, list[Order]] = {}
    for order in orders:
        step = order.steps[played] if played < len(order.steps) else None
        found.setdefault(step, []).append(order)
    return found


class Trees:
    """Plays trees of orders in forks of clusters that have started with Lighthouse agents."""

    def __init__(self) -> None:
        self._started: dict[str, StartedProcess[Migration, Sequence[Order], dict[Order, str]]] = {}

    def failures_of(self, orders: Sequence[Order]) -> dict[Order, str]:
        """Why the law does not hold, by order of one tree in which it does not."""
        version = orders[0].version
        if version not in self._started:
            start = partial(_opened_embedded, version)
            self._started[version] = StartedProcess(start, _play_tree)
        return self._started[version].play(orders)

    def end(self) -> None:
        """End all processes."""
        while self._started:
            self._started.popitem()[1].end()


def main() -> int:
    """The exit status: 1 if the law did not hold in an order."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulator.migration_search")
    parser.add_argument("--orders", default=f"0:{TREE}", help="FIRST:END")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    options = parser.parse_args()
    quiet_logs()
    first, end = map(int, options.orders.split(":"))
    played, failed, trees = set[Order](), 0, Trees()
    while first < end and (options.keep_going or not failed):
        last = min(end, first - first % TREE + TREE)
        orders = {draw_order(number): number for number in range(first, last)}
        failures = trees.failures_of(list(orders))
        for order, failure in failures.items():
            print(f"order {orders[order]}: {order.version}\n{failure}", flush=True)  # noqa: T201
        played |= orders.keys()
        failed += len(failures)
        first = last
    trees.end()
    print(f"{len(played)} orders played, {failed} broke the law", flush=True)  # noqa: T201
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
