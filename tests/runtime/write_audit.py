"""One who sees every write of a toy federation as it happens, and says which was not right.

Laws about the end of a schedule cannot see what went and came back. These hold at each write: a
copy goes only if the broker had no record of it meanwhile, a record only if its offer was gone,
and a receipt comes only after the copy that it is for.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.toy import FROM, HOME, OFFER, RECORD
from tests.support.world import BROKER, World
from tinykube.storage import Change, Restored, StorageEvent

Complaint = Callable[[str], None]
STORE = "configmaps"
UNDER_WAY = 5.0
"""Seconds that a write may take from its decision to its arrival."""


class WriteAudit:
    """Follows the storages themselves, which no fault can hide."""

    def __init__(self, world: World, space: str, complain: Complaint) -> None:
        self._world = world
        self._space = space
        self._complain = complain
        self._born: dict[tuple[str, str], float] = {}
        self._lacking: dict[tuple[str, str], float] = {}
        """When an offer, or the records of a name, were last seen to be absent."""
        self._by_hand: set[str] = set()
        self._touched: dict[tuple[str, str], float] = {}
        for name, cluster in world.clusters.items():
            cluster.storage.subscribe(self._listener(name), STORE)

    @contextmanager
    def by_hand(self, cluster: str) -> Iterator[None]:
        """What happens in a cluster meanwhile is a person's doing."""
        self._by_hand.add(cluster)
        try:
            yield
        finally:
            self._by_hand.discard(cluster)

    def _listener(self, where: str) -> Callable[[StorageEvent], None]:
        def note(notice: StorageEvent) -> None:
            match notice:
                case Restored():
                    self._note_restore(where)
                case Change():
                    self._note(where, notice)

        return note

    def _note(self, where: str, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.type == "ADDED":
            self._born[where, name] = _now()
        if where in self._by_hand:
            self._touched[where, name] = _now()
        if where == BROKER:
            self._note_record(change, name)
        elif change.object["metadata"]["namespace"] == self._space:
            self._note_local(where, change, name)

    def _note_record(self, change: Change, name: str) -> None:
        labels = change.object["metadata"].get("labels", {})
        if change.type != "DELETED" or RECORD not in labels:
            return
        _, _, offer = labels[RECORD].partition(".")
        if not self._records(labels[RECORD]):
            self._lacking[BROKER, offer] = _now()
        source = labels[FROM]
        if self._offer_stands(source, offer) and not self._lacked((source, offer), (BROKER, name)):
            self._complain(f"the record of {offer} went, although {source} offers it")

    def _note_local(self, where: str, change: Change, name: str) -> None:
        if change.type == "DELETED":
            if OFFER in change.object["metadata"].get("labels", {}):
                self._lacking[where, name] = _now()
            elif name.startswith("copy-of-") and where not in self._by_hand:
                self._judge_loss(where, name)
        elif change.type == "ADDED" and name.startswith("receipt-of-"):
            self._judge_receipt(where, name.replace("receipt-of-", "copy-of-"))

    def _judge_loss(self, where: str, copy: str) -> None:
        offer = copy.removeprefix("copy-of-")
        if self._records(f"{self._space}.{offer}") and not self._lacked(
            (BROKER, offer), (where, copy)
        ):
            self._complain(f"{copy} of {where} went, although the broker has records of it")

    def _judge_receipt(self, where: str, copy: str) -> None:
        stands = self._world.clusters[where].storage.get(STORE, self._space, copy)
        touched = self._touched.get((where, copy), float("-inf"))
        owned = stands is not None and "hanse.dev/owner" in stands["metadata"].get("labels", {})
        if not owned and _now() - touched > 30:
            self._complain(f"{where} has a receipt without the {copy} that it is for")

    def _note_restore(self, where: str) -> None:
        """Anything may have been absent, or new, in what was restored."""
        if where != BROKER:
            return
        for key in [key for key in self._born if key[0] == BROKER]:
            self._born[key] = float("-inf")
        for offer in {offer for _, offer in self._lacking} | {n for _, n in self._born}:
            self._lacking[BROKER, offer.removeprefix("copy-of-")] = _now()

    def _lacked(self, what: tuple[str, str], resting: tuple[str, str]) -> bool:
        """Whether something was absent for a moment since what rests on it came to be.

        A write that was decided on before may arrive later: shortly before counts too.
        """
        born = self._born.get(resting, float("-inf"))
        return self._lacking.get(what, float("-inf")) >= born - UNDER_WAY

    def _records(self, offer: str) -> list[dict[str, Any]]:
        find_configmap = self._world.clusters[BROKER].storage.objects(STORE, HOME)
        return [o for o in find_configmap if o["metadata"].get("labels", {}).get(RECORD) == offer]

    def _offer_stands(self, where: str, name: str) -> bool:
        return self._world.clusters[where].storage.get(STORE, self._space, name) is not None


def _now() -> float:
    return asyncio.get_running_loop().time()
