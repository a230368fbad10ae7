"""Publishes which parties are alive, by the Leases that features watch and our own clock."""

import asyncio

from hanse.kube.clock import Clock
from hanse.kube.lease_observer import HolderLiveness, LeaseObserver, Name
from hanse.model.facts import ClusterState, LeaseLiveness, Phase
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.runtime.informers import ClusterInformers

RECHECK_INTERVAL = 0.25
"""Seconds between two checks of an expired Lease while its cluster has not answered since."""

LATE_ANSWER = 1.0
"""Seconds after which a late answer means that nobody could have renewed a Lease in time."""


class LeaseTracker:
    """Keeps a `LeaseLiveness` fact for each watched Lease whose holder is known alive or dead."""

    def __init__(self, informers: ClusterInformers, clock: Clock) -> None:
        self._informers = informers
        self._clock = clock
        self._observers: dict[ClusterId, LeaseObserver] = {}
        self._timer: asyncio.TimerHandle | None = None

    def on_change(self, change: Change) -> None:
        """Track changes of Leases, and of the state of the clusters that hold them."""
        match change:
            case ObjectChange(where, before, after) if isinstance(change.object, Lease):
                observer = self._observers.setdefault(where, LeaseObserver())
                if isinstance(after, Lease):
                    observer.observe(after, _now())
                    self._publish_liveness(where, after)
                elif isinstance(before, Lease):
                    meta = before.metadata
                    observer.forget(meta.namespace, meta.name)
                    self._informers.drop_fact(LeaseLiveness, (where, meta.namespace, meta.name))
            case FactChange(_, after) if isinstance(change.fact, ClusterState):
                self._track_visibility(change.fact.cluster, after)
            case _:
                return
        self._set_timer()

    def _track_visibility(self, cluster: ClusterId, state: object) -> None:
        """Let Leases expire only while their cluster is synced or being left."""
        observer = self._observers.get(cluster)
        if observer is None:
            return
        if isinstance(state, ClusterState) and state.phase in (Phase.SYNCED, Phase.LEAVING):
            observer.mark_reachable(_now())
        else:
            observer.mark_unreachable()

    def _set_timer(self) -> None:
        """Check again when the next Lease may expire; a timer that fires early does no harm."""
        expiries = [observer.next_expiry for observer in self._observers.values()]
        due = min((expiry for expiry in expiries if expiry is not None), default=None)
        if due is None:
            return
        due = max(due, _now() + RECHECK_INTERVAL)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._publish_expired)

    def _publish_expired(self) -> None:
        """Publish the liveness of every Lease that has expired, then set the timer for the next."""
        self._timer = None
        for where, observer in self._observers.items():
            for namespace, name in self._expired(where, observer):
                for store in self._informers.stores_of(where, Lease.kind):
                    lease = store.get(namespace, name)
                    if isinstance(lease, Lease):
                        self._publish_liveness(where, lease)
        self._set_timer()

    def _expired(self, where: ClusterId, observer: LeaseObserver) -> tuple[Name, ...]:
        """The Leases that expired before their cluster last answered.

        After a late answer every Lease has its full duration again.
        """
        due = observer.next_expiry
        if due is None or due > _now():
            return ()
        answered_at = self._informers.suspect(where)
        if answered_at - due > LATE_ANSWER:
            observer.mark_unreachable()
            observer.mark_reachable(answered_at)
        return observer.expire(answered_at)

    def _publish_liveness(self, where: ClusterId, lease: Lease) -> None:
        """Put a Lease's liveness as a fact if holder or liveness differ.

        An unknown one is not put.
        """
        namespace, name = lease.metadata.namespace, lease.metadata.name
        liveness = self._observers[where].liveness(namespace, name)
        if liveness is HolderLiveness.UNKNOWN:
            return
        alive = liveness is HolderLiveness.ALIVE
        holder = lease.spec.holder_identity
        known = self._informers.facts.get(LeaseLiveness, (where, namespace, name))
        if known is None or (known.alive, known.holder) != (alive, holder):
            now = self._clock.now()
            self._informers.put_fact(LeaseLiveness(where, namespace, name, holder, alive, now))


def _now() -> float:
    return asyncio.get_running_loop().time()
