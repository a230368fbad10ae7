"""A local federation whose members join and leave by commands, and what is asked of it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.programs import CommandResult, RunningFederation, running

BOTH = ("--supervisor", "rome", "--supervisor", "paris")
ONE = BOTH[:2]


@contextmanager
def running_league(folder: Path) -> Iterator[RunningFederation]:
    """Three clusters with agents, of which two supervise a federation."""
    arguments = ("--clusters", "rome,paris,oslo", "--no-sample", "--no-federation")
    with running(folder, *arguments) as found:
        first = join(found, "rome", "--supervises")
        assert first.status == 0, first.err
        second = join(found, "paris", "--supervises", "--supervisor", "rome")
        assert second.status == 0, second.err
        yield found


def join(fleet: RunningFederation, cluster: str, *more: str) -> CommandResult:
    who = ("--cluster-id", cluster, "--context", cluster)
    return fleet.run_hanse("join", "--federation", "league", *who, *more)


def leave(fleet: RunningFederation, cluster: str, *more: str) -> CommandResult:
    who = ("--cluster-id", cluster, "--context", cluster)
    return fleet.run_hanse("leave", "--federation", "league", *who, *more)


def federation_of(fleet: RunningFederation, cluster: str) -> Any:
    get = ("--context", cluster, "get", "federation", "league", "-o", "json")
    return json.loads(fleet.kubectl(*get).out)


def reached(fleet: RunningFederation, cluster: str, *members: str) -> Callable[[], bool]:
    def check() -> bool:
        reported = federation_of(fleet, cluster).get("status", {}).get("members") or []
        return {m["clusterID"] for m in reported if m.get("reachable")} == set(members)

    return check
