"""Audits every write of a toy federation as it happens, and reports wrong ones.

Laws about the end of a schedule cannot see an object that was deleted and created again. These hold
at each write: a copy is deleted only if the broker had no record of it meanwhile, a record only if
its offer was gone, and a receipt is created only after its copy.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.toy import FROM, HOME, OFFER, RECORD
from tests.support.world import BROKER, World
from tinykube.storage import Change, Restored, StorageEvent

Report = Callable[[str], None]
STORE = "configmaps"
IN_FLIGHT = 5.0
"""Seconds that a write may take from its plan to its arrival."""


class WriteAudit:
    """Subscribes to the storage of each cluster, where no fault hides anything."""

    def __init__(self, world: World, space: str, report: Report) -> None:
        self._world = world
        self._space = space
        self._report = report
        self._created_at: dict[tuple[str, str], float] = {}
        self._absent_at: dict[tuple[str, str], float] = {}
        """When an offer, or the records of a name, were last absent."""
        self._by_hand: set[str] = set()
        self._edited_at: dict[tuple[str, str], float] = {}
        for name, cluster in world.clusters.items():
            cluster.storage.subscribe(self._listener(name), STORE)

    @contextmanager
    def by_hand(self, cluster: str) -> Iterator[None]:
        """Count the changes in a cluster meanwhile as a user's."""
        self._by_hand.add(cluster)
        try:
            yield
        finally:
            self._by_hand.discard(cluster)

    def _listener(self, where: str) -> Callable[[StorageEvent], None]:
        def on_notice(notice: StorageEvent) -> None:
            match notice:
                case Restored():
                    self._observe_restore(where)
                case Change():
                    self._observe(where, notice)

        return on_notice

    def _observe(self, where: str, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.type == "ADDED":
            self._created_at[where, name] = _now()
        if where in self._by_hand:
            self._edited_at[where, name] = _now()
        if where == BROKER:
            self._observe_record(change, name)
        elif change.object["metadata"]["namespace"] == self._space:
            self._observe_local(where, change, name)

    def _observe_record(self, change: Change, name: str) -> None:
        labels = change.object["metadata"].get("labels", {})
        if change.type != "DELETED" or RECORD not in labels:
            return
        _, _, offer = labels[RECORD].partition(".")
        if not self._records(labels[RECORD]):
            self._absent_at[BROKER, offer] = _now()
        source = labels[FROM]
        if self._offer_exists(source, offer) and not self._was_absent(
            (source, offer), (BROKER, name)
        ):
            self._report(f"the record of {offer} went, although {source} offers it")

    def _observe_local(self, where: str, change: Change, name: str) -> None:
        if change.type == "DELETED":
            if OFFER in change.object["metadata"].get("labels", {}):
                self._absent_at[where, name] = _now()
            elif name.startswith("copy-of-") and where not in self._by_hand:
                self._check_deletion(where, name)
        elif change.type == "ADDED" and name.startswith("receipt-of-"):
            self._check_receipt(where, name.replace("receipt-of-", "copy-of-"))

    def _check_deletion(self, where: str, copy: str) -> None:
        offer = copy.removeprefix("copy-of-")
        if self._records(f"{self._space}.{offer}") and not self._was_absent(
            (BROKER, offer), (where, copy)
        ):
            self._report(f"{copy} of {where} went, although the broker has records of it")

    def _check_receipt(self, where: str, copy: str) -> None:
        copy_object = self._world.clusters[where].storage.get(STORE, self._space, copy)
        edited_at = self._edited_at.get((where, copy), float("-inf"))
        owned = copy_object is not None and "hanse.dev/owner" in copy_object["metadata"].get(
            "labels", {}
        )
        if not owned and _now() - edited_at > 30:
            self._report(f"{where} has a receipt without the {copy} that it is for")

    def _observe_restore(self, where: str) -> None:
        """Any object may have been absent or new in the restored state."""
        if where != BROKER:
            return
        for key in [key for key in self._created_at if key[0] == BROKER]:
            self._created_at[key] = float("-inf")
        for offer in {offer for _, offer in self._absent_at} | {n for _, n in self._created_at}:
            self._absent_at[BROKER, offer.removeprefix("copy-of-")] = _now()

    def _was_absent(self, source: tuple[str, str], dependent: tuple[str, str]) -> bool:
        """Whether a source was absent since its dependent was created, or shortly before.

        A write that was planned while the source was absent may arrive later.
        """
        created_at = self._created_at.get(dependent, float("-inf"))
        return self._absent_at.get(source, float("-inf")) >= created_at - IN_FLIGHT

    def _records(self, offer: str) -> list[dict[str, Any]]:
        find_configmap = self._world.clusters[BROKER].storage.objects(STORE, HOME)
        return [o for o in find_configmap if o["metadata"].get("labels", {}).get(RECORD) == offer]

    def _offer_exists(self, where: str, name: str) -> bool:
        return self._world.clusters[where].storage.get(STORE, self._space, name) is not None


def _now() -> float:
    return asyncio.get_running_loop().time()
