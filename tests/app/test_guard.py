"""The guard of a node: closed at the start, static, and back after somebody removed its rules."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from hanse.app import guard as guard_module
from hanse.app.guard import Guard, GuardSettings
from hanse.features.networks.guard.ruleset import TABLE
from hanse.features.networks.guard.transaction import REMOVAL, ElementChange, render_changes
from hanse.model.facts import Facts
from hanse.model.objects import Object
from hanse.model.snapshot import ObjectChange, Snapshot
from hanse.providers.nftables import NftablesError
from tests.features.networks.builders import HERE, network, pod
from tests.features.networks.test_guard import guarded
from tinykube.virtual_time import EPOCH

SETTINGS = GuardSettings("node-1", ("10.4.0.0/24",))


class Kernel:
    """Takes commands as nftables does, and remembers them."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.in_place = False
        self.refuses = False
        self.written, self.refused = asyncio.Event(), asyncio.Event()

    def run(self, commands: str) -> str:
        if commands.startswith("list chain"):
            if not self.in_place:
                raise NftablesError("No such file or directory")
            return "jump decide"
        if self.refuses:
            self.refused.set()
            raise NftablesError("Device or resource busy")
        self.applied.append(commands)
        self.in_place = commands != REMOVAL
        self.written.set()
        return ""

    def change(self, table: str, changes: Sequence[ElementChange]) -> None:
        assert table == TABLE
        self.run(render_changes(changes))


EMPTY = Snapshot({}, Facts(), EPOCH, HERE)
"""A cluster that has not been listed."""


@asynccontextmanager
async def running(kernel: Kernel, observe: Callable[[], Snapshot]) -> AsyncIterator[Guard]:
    found = Guard(SETTINGS, kernel, observe, bypass=str)
    task = asyncio.create_task(found.run())
    await settle()
    try:
        yield found
    finally:
        task.cancel()


async def settle() -> None:
    """Let the guard do what it can without waiting."""
    for _ in range(5):
        await asyncio.sleep(0)


def appeared(obj: Object) -> ObjectChange:
    return ObjectChange(HERE, None, obj)


async def test_pods_are_closed_until_the_cluster_is_listed() -> None:
    kernel = Kernel()
    async with running(kernel, lambda: EMPTY) as guard:
        guard.on_change(appeared(network("acme.default")))
        await settle()

        assert len(kernel.applied) == 1
        assert "local-pods4 { 10.4.0.0/24 }" in kernel.applied[0]
        assert not guard.readiness.ready


async def test_rules_of_an_earlier_guard_stay_until_the_cluster_is_listed() -> None:
    kernel, observed = Kernel(), EMPTY
    kernel.in_place = True
    async with running(kernel, lambda: observed) as guard:
        assert kernel.applied == []
        observed = guarded(pod("a", "acme-web", "10.4.0.1"))
        guard.on_change(appeared(pod("a", "acme-web", "10.4.0.1")))
        await settle()

        assert len(kernel.applied) == 1
        assert "clients4 { 10.4.0.1 : goto from-acme.default }" in kernel.applied[0]
        assert guard.readiness.ready


async def test_a_pod_costs_a_few_elements_and_what_changes_nothing_costs_nothing() -> None:
    kernel, observed = Kernel(), guarded()
    async with running(kernel, lambda: observed) as guard:
        guard.on_change(appeared(network("acme.default")))
        await settle()
        start = len(kernel.applied)
        new = pod("a", "acme-web", "10.4.0.1")
        observed = guarded(new)
        guard.on_change(appeared(new))
        await settle()
        guard.on_change(appeared(new))
        await settle()

        assert len(kernel.applied) == start + 1
        assert len(kernel.applied[start].splitlines()) == 3


async def test_rules_that_were_refused_or_removed_are_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hanse.app.guard_removal.installed_folders", lambda: None)
    monkeypatch.setattr(guard_module, "CHECK_SECONDS", 0.001)
    monkeypatch.setattr(guard_module, "RETRY_SECONDS", 0.0)
    kernel, new = Kernel(), pod("b", "acme-web", "10.4.0.2")
    observed = guarded(pod("a", "acme-web", "10.4.0.1"))
    async with running(kernel, lambda: observed) as guard:
        kernel.refuses, observed = True, guarded(pod("a", "acme-web", "10.4.0.1"), new)
        guard.on_change(appeared(new))
        await kernel.refused.wait()
        kernel.refuses = False
        kernel.written.clear()
        await kernel.written.wait()
        assert guard.readiness.ready
        kernel.in_place = False  # nft flush ruleset
        kernel.written.clear()
        while not kernel.written.is_set():  # also while pods of the cluster change all the time
            guard.on_change(appeared(pod("waiting", "acme-web", "")))
            await asyncio.sleep(0)

        assert "goto from-acme.default" in kernel.applied[-1]
        await guard.remove()
        assert kernel.applied[-1] == REMOVAL
