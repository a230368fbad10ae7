"""What people may believe about a policy after all that they did, and one who sees every write."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from hanse.features.policies.content import FEDERATED
from tests.features.policies.fleet import Realm
from tinykube.storage import Change, StorageEvent

ABSENT = "absent"
ORPHANED = "orphaned"


class Believed:
    """The outcomes that are right for one policy.

    Since all agreed last, the last deed in each member counts: what comes out was done by somebody,
    and nobody's deletion comes out if all only edited, nobody's edit if all only deleted.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self.members = tuple(members)
        self.base: object = ABSENT
        self.last: dict[str, object] = {}
        self.ever: set[object] = set()
        self.plain: dict[str, str] = {}
        self.unsure = False
        self.behind: set[str] = set()
        """Members whose ledgers know less than they once did."""
        self.outside: set[object] = set()
        self.let_go = False
        self.deleted = False
        """Whether anybody ever deleted it, or let it go."""

    def acted(self, where: str, what: object) -> None:
        told = what if what in (ABSENT, ORPHANED) else str(what)
        self.last[where] = told
        self.ever.add(told)
        if what == ABSENT:
            self.deleted = True
        if where in self.behind:
            self.unsure = True  # it was done to something that others knew to be of the past

    def entered(self, where: str, what: str) -> None:
        """A plain policy was annotated: it counts, or what all agreed on goes on to count."""
        self.acted(where, what)
        self.unsure = True

    def made_outside(self, what: object) -> None:
        """What a cluster makes while it is no member may join with it, if nobody else has it."""
        self.ever.add(str(what))
        self.unsure = True

    def restored(self, where: str) -> None:
        """What was done there may or may not have been heard of before it was undone."""
        if self.last:
            self.unsure = True
        self.behind.add(where)

    def acted_outside(self, what: object) -> None:
        """Done in a cluster while it is no member, which does not count."""
        self.outside.add(what if what in (ABSENT, ORPHANED) else str(what))

    def stayed(self) -> None:
        """No ledger could be told that a cluster was away: what it did was a member's doing."""
        self.ever |= self.outside
        self.unsure = True
        self.deleted = self.deleted or ABSENT in self.outside

    def left(self, where: str) -> None:
        """What was done there just before may have been heard of, or not."""
        if where in self.last:
            self.unsure = True

    def razed(self, where: str) -> None:
        """What was done there may have gone with the namespace before anybody heard of it."""
        self.plain.pop(where, None)
        if where in self.last:
            self.unsure = self.deleted = True  # and nobody saw in which of two it was made

    def spoilt(self, where: str) -> None:
        """A deed that only the record told of is forgotten with it."""
        if where in self.last:
            self.unsure = True
        self.behind.add(where)

    def allows(self, outcome: object) -> bool:
        """Whether this may come out."""
        if self.unsure or self.let_go:
            return outcome == self.base or outcome in self.ever or outcome == ABSENT
        if not self.last:
            return outcome == self.base
        if outcome not in self.last.values():
            return False
        return outcome == ORPHANED or ORPHANED not in self.last.values()

    def settled(self, outcome: object) -> None:
        """All agree on this now."""
        self.base, self.last, self.unsure, self.let_go = outcome, {}, False, False
        self.ever = {outcome}
        self.behind, self.outside = set(), set()

    def __repr__(self) -> str:
        sure = " (unsure)" if self.unsure or self.let_go else ""
        return f"{self.last} after {self.base}{sure}"


class Witness:
    """Follows the storages themselves, which no fault can hide, and complains of what is wrong."""

    def __init__(
        self, realm: Realm, believed: dict[str, Believed], complain: Callable[[str], None]
    ) -> None:
        self.believed = believed
        self._complain = complain
        self._by_hand: set[str] = set()
        for name, cluster in realm.clusters.items():
            for store in ("clusternetworkpolicies.crd.antrea.io", "networkpolicies.crd.antrea.io"):
                cluster.storage.subscribe(self._listener(name), store)

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
            if isinstance(notice, Change) and where not in self._by_hand:
                self._judge(where, notice)

        return note

    def _judge(self, where: str, change: Change) -> None:
        obj: dict[str, Any] = change.object
        name = obj["metadata"]["name"]
        believed = self.believed.get(name)
        if believed is None:
            return
        when = asyncio.get_running_loop().time()
        if change.type == "DELETED":
            if not (believed.deleted or believed.let_go):
                self._complain(f"{where}: {name} was deleted at {when:.2f} and nobody asked for it")
            if obj["metadata"].get("annotations", {}).get(FEDERATED) != "true":
                self._complain(f"{where}: a plain {name} was deleted at {when:.2f}")
