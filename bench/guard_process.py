"""A guard as it stands in a large cluster: it imports what `hanse guard` does, and no more.

    python -m bench.guard_process < OBJECTS

Each line of the input is the name of a kind and an object, as its API server sends it. It prints
the memory of the process in MiB, as JSON: with its imports alone, with what it watches, with the
rules.
"""

import gc
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvloop  # noqa: F401 - as the command runs

from hanse.app.guard import Guard, GuardSettings
from hanse.features.networks.guard.watches import GUARD_WATCHES
from hanse.kube.http_transport import HttpTransport  # noqa: F401 - as the command runs
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.facts import ClusterState, Facts, Phase, Role
from hanse.model.objects import Kind
from hanse.model.snapshot import Snapshot
from hanse.providers.nftables import Nftables
from hanse.runtime.connection import wanted_scopes

HERE = "here"


def private() -> float:
    """The memory of this process in MiB, shared pages in parts."""
    text = Path("/proc/self/smaps_rollup").read_text()
    (line,) = (one for one in text.splitlines() if one.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Read the objects, write the rules and print what that weighs."""
    rules = Nftables()
    weights = {"imports": private()}
    state = ClusterState(
        HERE, frozenset({Role.LOCAL}), Phase.SYNCED, datetime.now(UTC), listed=True
    )
    scopes = wanted_scopes(GUARD_WATCHES, state.roles).scopes
    kinds = {scope.kind.kind.name: scope.kind for scope in scopes}
    read: dict[str, list[Any]] = {}
    for line in sys.stdin.buffer:
        name, _, body = line.partition(b" ")
        kind = kinds[name.decode()]
        read.setdefault(name.decode(), []).append(msgspec.json.decode(body, type=kind))
    stores: dict[tuple[str, Kind], list[Store[Any]]] = {}
    for scope, indexes in scopes.items():
        store: Store[Any] = Store(indexes)
        store.apply_event(Listed(tuple(read.pop(scope.kind.kind.name, ())), "9"))
        stores.setdefault((HERE, scope.kind.kind), []).append(store)
    facts = Facts()
    facts.put(state)
    gc.collect()
    weights["what it watches"] = private()
    snapshot = Snapshot(stores, facts, datetime.now(UTC), HERE)
    guard = Guard(GuardSettings("node-1"), rules, lambda: snapshot)
    guard.update()
    gc.collect()
    weights["memory"] = private()
    assert guard.readiness.ready
    sys.stdout.write(json.dumps(weights))


if __name__ == "__main__":
    main()
