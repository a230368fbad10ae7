"""Publishes the states of the holders of Leases that features watch."""

import asyncio
from datetime import datetime

from msgspec.structs import replace

from hanse.kube.clock import Clock, loop_time
from hanse.kube.lease_observer import LeaseObserver, Name
from hanse.model.facts import ClusterState, LeaseLiveness, LeasesRelisted, Phase, ServerClock
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.runtime.informers import ClusterInformers

RECHECK_INTERVAL = 0.25
"""Seconds between two checks of an expired Lease while its cluster has not answered since."""

LATE_ANSWER = 1.0
"""Seconds after which a late answer means that nobody could have renewed a Lease in time."""

VERY_LATE = 5.0
"""The same, for a Lease that was given its time anew after a late answer and not renewed since."""


class LeaseTracker:
    """Keeps a `LeaseLiveness` fact for each watched Lease, also for one that was deleted."""

    def __init__(self, informers: ClusterInformers, clock: Clock) -> None:
        """No Lease is observed yet; facts about their holders go to the informers."""
        self._informers = informers
        self._clock = clock
        self._observers: dict[ClusterId, LeaseObserver] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._late_answers: dict[ClusterId, float] = {}
        """When a late answer last gave a cluster's Leases their time anew."""
        self._last_answers: dict[ClusterId, float] = {}
        """When a cluster had last answered as a Lease of it expired."""

    def on_change(self, change: Change) -> None:
        """Judge Leases anew after a change of one, of a server's clock, or of a cluster's state.

        Also after a list of Leases that is not the first. Puts `LeaseLiveness` facts that differ,
        also for a deleted Lease; other changes are ignored.
        """
        match change:
            case ObjectChange(where, before, after) if isinstance(change.object, Lease):
                local = self._informers.local
                own = local if where != local else ""  # at home no Lease is compared with ours
                observer = self._observers.setdefault(where, LeaseObserver(own))
                if isinstance(after, Lease):
                    observer.observe(after, loop_time(), self._server_time(where))
                    self._publish_state(where, after)
                    if before is None and after.metadata.name == own:
                        self._publish_states(where, observer.names)  # others are compared with it
                elif isinstance(before, Lease):
                    observer.forget(before.metadata.namespace, before.metadata.name, loop_time())
                    self._publish_state(where, before)
            case FactChange(_, ServerClock(cluster)):
                self._judge_ages(cluster)
            case FactChange(_, LeasesRelisted(where)):
                self._doubt(where)
            case FactChange(_, after) if isinstance(change.fact, ClusterState):
                self._track_visibility(change.fact.cluster, after)
            case _:
                return
        self._set_timer()

    def _server_time(self, where: ClusterId) -> datetime | None:
        """The time of a cluster's API server; None while it is not known."""
        clock = self._informers.facts.get(ServerClock, where)
        return self._clock.now() + clock.ahead if clock is not None else None

    def _judge_ages(self, where: ClusterId) -> None:
        """Publish the states that change now that the server's clock tells each Lease's age."""
        observer, server_time = self._observers.get(where), self._server_time(where)
        if observer is not None and server_time is not None:
            self._publish_states(where, observer.judge_ages(loop_time(), server_time))

    def _doubt(self, where: ClusterId) -> None:
        """After a relist, mark a cluster's Leases as unconfirmed, and publish their states.

        Nothing for a cluster without known Leases.
        """
        observer = self._observers.get(where)
        if observer is not None:
            observer.mark_relisted()
            self._publish_states(where, observer.names)

    def _track_visibility(self, cluster: ClusterId, state: object) -> None:
        """Let Leases of a cluster expire in its phases Synced and Leaving, and in no other.

        But in Connecting, too, if it was listed before: a new leader does not list Leases again.
        After another phase each Lease has its full duration anew.
        """
        observer = self._observers.get(cluster)
        if observer is None:
            return
        if isinstance(state, ClusterState) and (
            state.phase in (Phase.SYNCED, Phase.LEAVING)
            or (state.phase is Phase.CONNECTING and state.listed)
        ):
            observer.mark_reachable(loop_time())
        else:
            observer.mark_unreachable()

    def _set_timer(self) -> None:
        """Set the timer of `_publish_expired` for the next expiry of a Lease.

        It is RECHECK_INTERVAL from now at the earliest. A timer that is set for earlier stays;
        nothing if no Lease can expire.
        """
        expiries = [observer.next_expiry for observer in self._observers.values()]
        due = min((expiry for expiry in expiries if expiry is not None), default=None)
        if due is None:
            return
        due = max(due, loop_time() + RECHECK_INTERVAL)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._publish_expired)

    def _publish_expired(self) -> None:
        """Publish the state of every Lease that has expired, then set the timer for the next.

        Nothing once the informers have stopped.
        """
        self._timer = None
        if not self._informers.is_running:
            return
        for where, observer in self._observers.items():
            self._publish_states(where, self._expired(where, observer))
        self._set_timer()

    def _publish_states(self, where: ClusterId, names: tuple[Name, ...]) -> None:
        """Publish the states of those of these Leases, by namespace and name, that are stored."""
        for namespace, name in names:
            for store in self._informers.stores_of(where, Lease.kind):
                lease = store.get(namespace, name)
                if isinstance(lease, Lease):
                    self._publish_state(where, lease)

    def _expired(self, where: ClusterId, observer: LeaseObserver) -> tuple[Name, ...]:
        """Mark and return the Leases that expired before their cluster last answered; probes it.

        Empty if none is due, or while it has not answered since. After an answer later than
        LATE_ANSWER due Leases get their full duration anew. One that got it by the late answer
        before, and was not renewed since, expires instead, unless this answer is later than
        VERY_LATE, or there was none in the second half of that duration: then nobody could have
        renewed a Lease.
        """
        due = observer.next_expiry
        if due is None or due > loop_time():
            return ()
        answered_at = self._informers.probe_soon(where)
        if answered_at < due:
            self._last_answers[where] = answered_at
            return ()  # wait for the answer
        late = answered_at - due
        if late <= LATE_ANSWER:
            return observer.expire(answered_at)
        known = self._late_answers.get(where)
        last = self._last_answers.pop(where, due)
        is_slow = known is not None and late <= VERY_LATE and 2 * last >= known + due
        expired = observer.expire(answered_at, unchanged_since=known) if is_slow else ()
        others = observer.next_expiry
        if others is not None and others <= answered_at:
            observer.mark_unreachable()
            observer.mark_reachable(answered_at)
            self._late_answers[where] = answered_at
        return expired

    def _publish_state(self, where: ClusterId, lease: Lease) -> None:
        """Put the `LeaseLiveness` of a Lease if anything but its time differs from the known one.

        Its `outdated` stays as it was if the Lease was deleted.
        """
        namespace, name = lease.metadata.namespace, lease.metadata.name
        observer, now = self._observers[where], self._clock.now()
        known = self._informers.facts.get(LeaseLiveness, (where, namespace, name))
        was_outdated = known is not None and known.outdated
        state = observer.state(namespace, name)
        found = observer.is_outdated(namespace, name)
        outdated = was_outdated if found is None else found  # a deleted one stays as it was
        liveness = LeaseLiveness(
            where,
            namespace,
            name,
            lease.spec.holder_identity,
            state,
            now,
            outdated,
            observer.is_confirmed(namespace, name),
            observer.acquired_version(namespace, name),
        )
        if known is None or replace(known, since=now) != liveness:
            self._informers.put_fact(liveness)
