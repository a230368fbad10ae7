"""What an agent judges to be wrong, followed as it changes: for its metrics, and as Events."""

import asyncio
from collections.abc import Iterable

from hanse.app.domain_metrics import DomainMetrics
from hanse.app.views import views
from hanse.model.findings import Finding, Ref, Severity
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.judgement import Judgement
from hanse.model.kinds.core import Namespace
from hanse.model.objects import ClusterObjectRef, ObjectRef
from hanse.model.plan import EventRequest
from hanse.runtime.reconciler import Reconciler

INTERVAL = 2.0
"""Seconds between two judgements; what changes in between is judged once."""
REPEATED = 2
"""Judgements in a row that have a finding before it is an Event: most end by themselves."""


class FindingReporter:
    """Judges an agent's own snapshot, and records an Event for each finding that begins or ends."""

    def __init__(self, reconciler: Reconciler, namespace: str) -> None:
        """Nothing is judged or reported yet; Events on foreign objects are about `namespace`."""
        self._reconciler = reconciler
        self._namespace = namespace
        self.totals = DomainMetrics(self._snapshot)
        self.judgement = Judgement(views(), self._snapshot, self.totals.on_item)
        self._seen: dict[tuple[str, Ref], int] = {}
        """How many judgements in a row have had a finding, by code and subject."""
        self._reported: dict[tuple[str, Ref], Finding] = {}

    async def run(self) -> None:
        """Follow the reconciler's changes, and judge every INTERVAL seconds; never returns."""
        self._reconciler.event_handlers.append(self.judgement.on_change)
        try:
            while True:
                await self.judge()
                await asyncio.sleep(INTERVAL)
        finally:
            self._reconciler.event_handlers.remove(self.judgement.on_change)

    async def judge(self) -> None:
        """Refresh the judgement until it is not stale, yielding in between, and record Events.

        These are of what began or ended. An inactive replica records none; what stands when it
        becomes active is reported then.
        """
        while self.judgement.stale:
            self.judgement.refresh()
            await asyncio.sleep(0)
        if self._reconciler.active:
            for request in self._events(self.judgement.findings):
                await self._reconciler.record_event(request)

    def _events(self, findings: Iterable[Finding]) -> Iterable[EventRequest]:
        """An Event for each finding of at least RISK that has lasted, and one when it has ended.

        A finding has lasted after REPEATED calls in a row, and is reported once: Warning with its
        code as reason. The end of a reported one is Normal, with the reason `CODEResolved`.
        """
        current = {
            (one.code, one.subject): one for one in findings if one.severity.at_least(Severity.RISK)
        }
        self._seen = {key: self._seen.get(key, 0) + 1 for key in current}
        for key, one in current.items():
            if self._seen[key] >= REPEATED and key not in self._reported:
                self._reported[key] = one
                message = f"{one.summary}. Mend it: {one.remedy}"
                yield EventRequest(self._target(one), one.code, message, "Warning")
        for key in [key for key in self._reported if key not in current]:
            one = self._reported.pop(key)
            yield EventRequest(self._target(one), f"{one.code}Resolved", one.summary, "Normal")

    def _target(self, one: Finding) -> ClusterObjectRef:
        """What a finding's Event is about: its subject, if that is in the own cluster's snapshot.

        Else the agent's namespace.
        """
        local = self._reconciler.informers.local
        subject = one.subject
        if subject.cluster in ("", local):
            found = self._reconciler.snapshot().find_named(
                local, subject.kind, subject.name, subject.namespace
            )
            if found is not None:
                return ClusterObjectRef(local, found)
        return ClusterObjectRef(local, ObjectRef(Namespace.kind, self._namespace))

    def _snapshot(self) -> MultiClusterSnapshot:
        """The agent's own snapshot, taken now, as that of a fleet."""
        return MultiClusterSnapshot({self._reconciler.informers.local: self._reconciler.snapshot()})
