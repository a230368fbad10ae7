"""Leader elections: over members among supervisors, and over the agent among its replicas."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import TypeAlias

from hanse.kube.client import Client
from hanse.kube.clock import Clock, loop_time
from hanse.kube.errors import ApiError, BadCredentials, KubeError
from hanse.kube.holder_preference import HolderPreference
from hanse.kube.leader_election import Leader, LeaderElector, LeaderState, Standby
from hanse.kube.lease import LeaseTimings
from hanse.model.agent_report import report_annotations
from hanse.model.facts import (
    AgentLeaseRefused,
    ClusterState,
    DeletionsHeld,
    ElectionFailure,
    HeartbeatState,
    Leadership,
    PausedObject,
    Role,
)
from hanse.model.held_deletions import hold_annotations
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import AGENT, holder_cluster
from hanse.model.objects import ClusterId
from hanse.model.paused_objects import pause_annotations
from hanse.model.refused_writes import failed_writes, refusal_annotations, refuser_in
from hanse.runtime.informers import ClusterInformers

DEFERENCE = 0.75
"""The part of a retry period for which a free Lease is left to each preferred supervisor."""

REQUEST_INTERVAL = timedelta(seconds=10)
"""How long after one Lease was requested of its holder the next one is."""

PreferredLeaders: TypeAlias = Callable[[], tuple[ClusterId, ...]]
"""Returns the clusters whose agents should lead a member rather than we."""


class _SupervisorOrder:
    """The order of one member's supervisors, as far as it comes before us."""

    def __init__(
        self,
        preferred: PreferredLeaders,
        timings: LeaseTimings,
        may_request: Callable[[], bool],
    ) -> None:
        """`preferred` gives the supervisors that come before us.

        `may_request` says whether we may request a Lease from its holder now.
        """
        self._preferred = preferred
        self._timings = timings
        self.may_request = may_request

    def acquire_delay(self) -> timedelta:
        """How long to wait before taking a free Lease: for each preferred supervisor a part.

        That is DEFERENCE of a retry period; nothing if there are none.
        """
        return self._timings.retry_period * (DEFERENCE * len(self._preferred()))

    def prefers(self, candidate: str) -> bool:
        """Whether a candidate's cluster is among the preferred leaders."""
        return holder_cluster(candidate) in self._preferred()


class _AnyoneElse:
    """The order of a supervisor that retires: everybody else comes before it."""

    def __init__(self, timings: LeaseTimings) -> None:
        self._timings = timings

    def acquire_delay(self) -> timedelta:
        """One retry period."""
        return self._timings.retry_period

    def prefers(self, candidate: str) -> bool:  # noqa: ARG002 - a `HolderPreference`
        """True for everybody."""
        return True

    def may_request(self) -> bool:
        """False: who retires requests no Lease."""
        return False


class LeaderElections:
    """Contends for the Leases of members, and for that of the agent among its replicas.

    It is the writer's fence. An agent that does not contend among replicas counts as the only one.
    """

    def __init__(
        self,
        informers: ClusterInformers,
        identity: str,
        *,
        clock: Clock,
        random: Random,
        timings: LeaseTimings = LeaseTimings(),  # noqa: B008 - a frozen value
    ) -> None:
        """No election is taken part in yet; `identity` is written as the holder of Leases.

        Facts are put into the informers.
        """
        self._informers = informers
        self._identity = identity
        self._clock = clock
        self._random = random
        self._timings = timings
        self._electors: dict[ClusterId, LeaderElector] = {}
        self._tasks: dict[ClusterId, asyncio.Task[None]] = {}
        self._replica_elector: LeaderElector | None = None
        self._next_request_at = 0.0
        self._group: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run elections until the block ends; then every Lease that we hold is released."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for task in self._tasks.values():
                    task.cancel()

    def may_write(self, member: ClusterId | None) -> bool:
        """Whether we may send a write now, as a member's leader, or with None as the agent.

        We must hold the Lease of our replicas, if we contend for it, and that of the member.
        """
        if self._replica_elector is not None and not self._replica_elector.may_write():
            return False
        if member is None:
            return True
        elector = self._electors.get(member)
        return elector is not None and elector.may_write()

    def contend(
        self,
        member: ClusterId,
        client: Client,
        preferred: PreferredLeaders | None = None,
        *,
        prefers_anyone: bool = False,
    ) -> None:
        """Contend for the leadership of a connected member, unless we do already.

        A free Lease is left to `preferred` supervisors for a moment, and released when one of them
        requests it; with None whoever leads keeps the Lease, or with `prefers_anyone` yields it to
        any that requests it. Puts a `Leadership` without a holder if there is none; states follow
        as facts.
        """
        assert self._group is not None, "elections run while the agent does"
        if member in self._electors:
            return
        order: HolderPreference | None = None
        if preferred is not None:
            order = _SupervisorOrder(preferred, self._timings, self._take_request)
        elif prefers_anyone:
            order = _AnyoneElse(self._timings)
        elector = self._new_elector(
            client,
            SYSTEM,
            member,
            order,
            lambda error: self._publish_error(member, error),
            lambda: self._informers.begin_recovery(member),
        )
        self._electors[member] = elector
        if self._informers.facts.get(Leadership, member) is None:
            self._informers.put_fact(Leadership(member, "", 0, ours=False))

        def on_state(state: LeaderState) -> None:
            """Publish the state, unless another elector has replaced this one."""
            if self._electors.get(member) is elector:
                self._publish(member, state)

        self._tasks[member] = self._group.create_task(
            elector.run(on_state), name=f"contend for {member}"
        )

    @property
    def members(self) -> frozenset[ClusterId]:
        """The members for whose leadership we contend."""
        return frozenset(self._electors)

    async def resign(self, member: ClusterId) -> None:
        """Stop contending for a member, release its Lease if it is ours, and drop its facts.

        These are `Leadership` and `ElectionFailure`; nothing else happens if we did not contend.
        """
        task = self._tasks.pop(member, None)
        try:
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        finally:  # also when cancelled: the next `contend` begins anew
            self._electors.pop(member, None)
            self._informers.drop_fact(Leadership, member)
            self._informers.drop_fact(ElectionFailure, member)

    def contend_among_replicas(
        self, client: Client, namespace: str, set_active: Callable[[bool], None]
    ) -> None:
        """Contend among the agent's replicas: `set_active` is called with whether we lead.

        Every cluster is listed again when we begin to lead, unless nobody else led since we did.
        From now on `may_write` is False while we do not lead.
        """
        assert self._group is not None, "elections run while the agent does"
        self._replica_elector = self._new_elector(
            client,
            namespace,
            AGENT,
            on_error=lambda error: self._publish_refusal(namespace, error),
            annotations=self._report,
        )

        led_epoch = 0

        def on_state(state: LeaderState) -> None:
            """Call `set_active` with whether this replica leads.

            If it leads with another epoch than before, every cluster is listed again first.
            """
            nonlocal led_epoch
            if isinstance(state, Leader) and state.epoch != led_epoch:
                led_epoch = state.epoch
                for cluster, connection in self._informers.connections.items():
                    self._informers.relist_for_leader(cluster, connection.roles)
            set_active(isinstance(state, Leader))

        self._tasks[f"{self._informers.local} (replicas)"] = self._group.create_task(
            self._replica_elector.run(on_state), name="contend among replicas"
        )

    def _report(self) -> dict[str, str]:
        """The annotations of our replicas' Lease: broker lost, refused writes, pauses, holds.

        Each value is empty, which removes the annotation, while there is nothing to report.
        """
        facts = self._informers.facts
        broker = next((one for one in facts.all(ClusterState) if Role.BROKER in one.roles), None)
        renewal = facts.get(HeartbeatState, broker.cluster) if broker is not None else None
        refusals = refusal_annotations(failed_writes(facts.all, self._informers.local))
        pauses = pause_annotations(facts.all(PausedObject))
        holds = hold_annotations(facts.all(DeletionsHeld))
        return {**report_annotations(broker, renewal), **refusals, **pauses, **holds}

    def _publish_refusal(self, namespace: str, error: KubeError | None) -> None:
        """Put `AgentLeaseRefused` if the error of our replicas' Lease names who refuses it.

        That is a webhook, a policy, a quota, or an account without rights. Else, also without an
        error, drop it.
        """
        local, message = self._informers.local, str(error)
        if refuser_in(message, local) is not None:
            self._informers.put_fact(
                AgentLeaseRefused(local, namespace, message, self._clock.now())
            )
        else:
            self._informers.drop_fact(AgentLeaseRefused, local)

    def _take_request(self) -> bool:
        """Whether we may request a Lease of its holder; if so, not again for REQUEST_INTERVAL."""
        now = loop_time()
        if now < self._next_request_at:
            return False
        self._next_request_at = now + REQUEST_INTERVAL.total_seconds()
        return True

    def _publish_error(self, member: ClusterId, error: KubeError | None) -> None:
        """Put `ElectionFailure` for an `ApiError`, drop it for None; a 401 only probes the member.

        Other errors, as of a member that does not answer, and all of a member that is not
        connected, are ignored.
        """
        if member not in self._informers.connections:
            return
        if error is None:
            self._informers.drop_fact(ElectionFailure, member)
        elif isinstance(error, BadCredentials):
            self._informers.probe_soon(member)
        elif isinstance(error, ApiError):
            self._informers.put_fact(ElectionFailure(member, str(error), self._clock.now()))

    def _new_elector(
        self,
        client: Client,
        namespace: str,
        name: str,
        order: HolderPreference | None = None,
        on_error: Callable[[KubeError | None], None] = lambda _: None,
        on_restored: Callable[[], None] = lambda: None,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> LeaderElector:
        """An elector for a Lease, under our identity and timings; it does not run yet."""
        return LeaderElector(
            client,
            namespace,
            name,
            self._identity,
            clock=self._clock,
            random=self._random,
            timings=self._timings,
            order=order,
            on_error=on_error,
            on_restored=on_restored,
            annotations=annotations,
        )

    def _publish(self, member: ClusterId, state: LeaderState) -> None:
        """Put the `Leadership` fact of a state; give or take the role LED of a connected member.

        A member that we begin to lead is listed again first, unless we know the same epoch already:
        nobody led it since we did. While another leads, the fact keeps the last known epoch, else
        0.
        """
        known = self._informers.facts.get(Leadership, member)
        match state:
            case Leader(epoch):
                if known is None or known.epoch != epoch:
                    self._informers.relist_for_leader(member, (Role.MEMBER, Role.LED))
                self._informers.put_fact(Leadership(member, self._identity, epoch, ours=True))
            case Standby(holder):
                epoch = known.epoch if known is not None else 0
                self._informers.put_fact(Leadership(member, holder, epoch, ours=False))
        connection = self._informers.connections.get(member)
        if connection is not None:
            led = {Role.LED} if isinstance(state, Leader) else set()
            self._informers.set_roles(member, (connection.roles - {Role.LED}) | led)
