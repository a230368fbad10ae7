"""Who is alive, as facts: told by the Leases that features watch, judged by our own observation."""

import asyncio

from hanse.kube.clock import Clock
from hanse.kube.lease_observer import HolderLiveness, LeaseObserver, Name
from hanse.model.facts import ClusterState, LeaseLiveness, Phase
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.runtime.informers import ClusterInformers

LOOK_AGAIN = 0.25
"""Seconds between two looks at a Lease that ran out, while its cluster has not answered since."""

TARDY = 1.0
"""Seconds that an answer may take before nobody could have renewed a Lease in time."""


class LeaseTracker:
    """Keeps a `LeaseLiveness` fact per watched Lease whose holder is known to be alive or not."""

    def __init__(self, informers: ClusterInformers, clock: Clock) -> None:
        self._informers = informers
        self._clock = clock
        self._beats: dict[ClusterId, LeaseObserver] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def on_change(self, change: Change) -> None:
        """Follow Leases, and whether the clusters that hold them can be seen."""
        match change:
            case ObjectChange(where, before, after) if isinstance(change.object, Lease):
                beats = self._beats.setdefault(where, LeaseObserver())
                if isinstance(after, Lease):
                    beats.see(after, _now())
                    self._tell(where, after)
                elif isinstance(before, Lease):
                    meta = before.metadata
                    beats.forget(meta.namespace, meta.name)
                    self._informers.drop_fact(LeaseLiveness, (where, meta.namespace, meta.name))
            case FactChange(_, after) if isinstance(change.fact, ClusterState):
                self._look(change.fact.cluster, after)
            case _:
                return
        self._set_alarm()

    def _look(self, cluster: ClusterId, state: object) -> None:
        beats = self._beats.get(cluster)
        if beats is None:
            return
        if isinstance(state, ClusterState) and state.phase in (Phase.SYNCED, Phase.LEAVING):
            beats.mark_reachable(_now())
        else:
            beats.mark_unreachable()

    def _set_alarm(self) -> None:
        """See to it that somebody looks in time; an alarm that comes too early does no harm."""
        lapses = [b.next_expiry for b in self._beats.values()]
        due = min((t for t in lapses if t is not None), default=None)
        if due is None:
            return
        due = max(due, _now() + LOOK_AGAIN)
        if self._alarm is not None:
            if self._alarm.when() <= due:
                return
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(due, self._lapse)

    def _lapse(self) -> None:
        self._alarm = None
        for where, beats in self._beats.items():
            for namespace, name in self._lapsed(where, beats):
                for store in self._informers.stores_of(where, Lease.kind):
                    lease = store.get(namespace, name)
                    if isinstance(lease, Lease):
                        self._tell(where, lease)
        self._set_alarm()

    def _lapsed(self, where: ClusterId, beats: LeaseObserver) -> tuple[Name, ...]:
        """What has lapsed before a cluster that answered since; after a delay all begin anew."""
        due = beats.next_expiry
        if due is None or due > _now():
            return ()
        heard = self._informers.heard_at(where)
        if heard - due > TARDY:
            beats.mark_unreachable()
            beats.mark_reachable(heard)
        return beats.lapse(heard)

    def _tell(self, where: ClusterId, lease: Lease) -> None:
        namespace, name = lease.metadata.namespace, lease.metadata.name
        pulse = self._beats[where].liveness(namespace, name)
        if pulse is HolderLiveness.UNKNOWN:
            return
        alive = pulse is HolderLiveness.ALIVE
        holder = lease.spec.holder_identity
        known = self._informers.facts.get(LeaseLiveness, (where, namespace, name))
        if known is None or (known.alive, known.holder) != (alive, holder):
            now = self._clock.now()
            self._informers.put_fact(LeaseLiveness(where, namespace, name, holder, alive, now))


def _now() -> float:
    return asyncio.get_running_loop().time()
