"""The outcomes that are correct for a policy after users' actions, and an auditor of all writes."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from hanse.features.policies.content import FEDERATED
from tests.features.policies.fleet import PolicyFleet
from tinykube.storage import Change, StorageEvent

ABSENT = "absent"
ORPHANED = "orphaned"


class ExpectedOutcomes:
    """The outcomes that are correct for one policy.

    Since the members agreed last, the last action in each member counts: the outcome is that of one
    of these actions.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self.members = tuple(members)
        self.base: object = ABSENT
        self.last: dict[str, object] = {}
        self.ever: set[object] = set()
        self.plain: dict[str, str] = {}
        self.uncertain = False
        self.behind: set[str] = set()
        """Members whose ledgers have lost records, by a restore or corruption."""
        self.outside_outcomes: set[object] = set()
        self.released = False
        self.deleted = False
        """Whether a user ever deleted it."""

    def record_action(self, where: str, outcome: object) -> None:
        outcome = outcome if outcome in (ABSENT, ORPHANED) else str(outcome)
        self.last[where] = outcome
        self.ever.add(outcome)
        if outcome == ABSENT:
            self.deleted = True
        if where in self.behind:
            self.uncertain = True  # the action was applied to an outdated version

    def record_annotation(self, where: str, outcome: str) -> None:
        """A plain policy was annotated: its content or the agreed one may win."""
        self.record_action(where, outcome)
        self.uncertain = True

    def record_creation_outside(self, outcome: object) -> None:
        """A policy created in a cluster that is no member may be replicated once it joins."""
        self.ever.add(str(outcome))
        self.uncertain = True

    def record_restore(self, where: str) -> None:
        """Actions in a restored member may or may not have been replicated before."""
        if self.last:
            self.uncertain = True
        self.behind.add(where)

    def record_action_outside(self, outcome: object) -> None:
        """An action in a cluster that is no member, which does not count."""
        self.outside_outcomes.add(outcome if outcome in (ABSENT, ORPHANED) else str(outcome))

    def record_unnoticed_stay(self) -> None:
        """No ledger has recorded that the cluster left: its actions count as those of a member."""
        self.ever |= self.outside_outcomes
        self.uncertain = True
        self.deleted = self.deleted or ABSENT in self.outside_outcomes

    def record_leave(self, where: str) -> None:
        """Actions just before a member leaves may or may not be replicated."""
        if where in self.last:
            self.uncertain = True

    def record_namespace_deletion(self, where: str) -> None:
        """Actions in a deleted namespace may be lost before they are observed."""
        self.plain.pop(where, None)
        if where in self.last:
            self.uncertain = self.deleted = (
                True  # it may have been made in either of two namespaces
            )

    def record_corruption(self, where: str) -> None:
        """Actions that only a corrupted record had are lost with it."""
        if where in self.last:
            self.uncertain = True
        self.behind.add(where)

    def allows(self, outcome: object) -> bool:
        """Whether an outcome is correct."""
        if self.uncertain or self.released:
            return outcome == self.base or outcome in self.ever or outcome == ABSENT
        if not self.last:
            return outcome == self.base
        if outcome not in self.last.values():
            return False
        return outcome == ORPHANED or ORPHANED not in self.last.values()

    def settle_on(self, outcome: object) -> None:
        """Start again from an outcome that all members agree on."""
        self.base, self.last, self.uncertain, self.released = outcome, {}, False, False
        self.ever = {outcome}
        self.behind, self.outside_outcomes = set(), set()

    def __repr__(self) -> str:
        sure = " (unsure)" if self.uncertain or self.released else ""
        return f"{self.last} after {self.base}{sure}"


class WriteAuditor:
    """Subscribes to the storages, past all injected faults, and reports forbidden deletions."""

    def __init__(
        self,
        fleet: PolicyFleet,
        expected: dict[str, ExpectedOutcomes],
        report_violation: Callable[[str], None],
    ) -> None:
        self.expected = expected
        self._report_violation = report_violation
        self._by_hand: set[str] = set()
        for name, cluster in fleet.clusters.items():
            for store in ("clusternetworkpolicies.crd.antrea.io", "networkpolicies.crd.antrea.io"):
                cluster.storage.subscribe(self._listener(name), store)

    @contextmanager
    def by_hand(self, cluster: str) -> Iterator[None]:
        """Changes in a cluster in this context are a user's."""
        self._by_hand.add(cluster)
        try:
            yield
        finally:
            self._by_hand.discard(cluster)

    def _listener(self, where: str) -> Callable[[StorageEvent], None]:
        def note(notice: StorageEvent) -> None:
            if isinstance(notice, Change) and where not in self._by_hand:
                self._check_change(where, notice)

        return note

    def _check_change(self, where: str, change: Change) -> None:
        obj: dict[str, Any] = change.object
        name = obj["metadata"]["name"]
        expected = self.expected.get(name)
        if expected is None:
            return
        when = asyncio.get_running_loop().time()
        if change.type == "DELETED":
            if not (expected.deleted or expected.released):
                self._report_violation(
                    f"{where}: {name} was deleted at {when:.2f} and nobody asked for it"
                )
            if obj["metadata"].get("annotations", {}).get(FEDERATED) != "true":
                self._report_violation(f"{where}: a plain {name} was deleted at {when:.2f}")
