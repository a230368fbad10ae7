"""A cluster's agent, composed of features, informers, providers and servers."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hanse.app import BROKER, Options
from hanse.features.admission.configuration import NAME as WEBHOOKS
from hanse.features.admission.feature import PROVIDER as CERTIFICATE_PROVIDER
from hanse.features.gslb.avi import (
    CONTROLLER,
    AviAccess,
    configured_controller,
    configured_refresh_interval,
)
from hanse.features.gslb.configuration import InvalidConfiguration
from hanse.features.gslb.leadership import local_amko_cluster
from hanse.features.gslb.names import LEADER_LEASE
from hanse.features.networks.address_pools import PoolSlot
from hanse.features.networks.feature import Networks
from hanse.features.networks.service_addresses import AssignedSlot
from hanse.kube.client_config import Credentials
from hanse.kube.clock import Clock, WallClock
from hanse.kube.lease import LeaseTimings
from hanse.kube.transport import Transport
from hanse.model.admission import AdmissionHook
from hanse.model.clusterset import clusterset_spec
from hanse.model.connections import ConnectionSource
from hanse.model.facts import AgentFeatures, HeartbeatState, Role
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.naming import SLOT_LEASES, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature
from hanse.model.probes import ProbeSource
from hanse.model.questions import PROVIDER as LOOKUP
from hanse.model.snapshot import Change, ObjectChange, Watch
from hanse.model.tokens import PROVIDER as TOKEN_PROVIDER
from hanse.providers.avi import AviController, NoController
from hanse.providers.network_ipam import network_providers
from hanse.providers.probe_sockets import OpenSocket, SocketProbe
from hanse.providers.probes import ProbeFunction, Prober
from hanse.providers.resolver import HostResolver
from hanse.providers.tokens import TokenIssuer
from hanse.runtime.api import ClusterClient
from hanse.runtime.background_task import running_task
from hanse.runtime.broker_membership import BrokerClient, BrokerMembership
from hanse.runtime.connection_reconciler import ConnectionReconciler
from hanse.runtime.external import POLL_INTERVAL, ExternalApi, ExternalSystem
from hanse.runtime.heartbeat_lease import HeartbeatLease
from hanse.runtime.leader_election import LeaderElections
from hanse.runtime.lease_freshness import LeaseFreshnessTracker
from hanse.runtime.managed_connection import TransportFactory, http_transport
from hanse.runtime.pause import brokers_to_read
from hanse.runtime.questions import Provider
from hanse.runtime.readiness import serving
from hanse.runtime.reconciler import Reconciler
from hanse.runtime.replica_slots import ReplicaSlots
from hanse.web.webhooks.certificates import Certificates
from hanse.web.webhooks.server import WebhookServer

if TYPE_CHECKING:  # few agents serve names: the others do not import DNS
    from hanse.dns.compiler import Compiler
    from hanse.dns.updater import DeltaReceiver

log = logging.getLogger(__name__)


class AgentSettings(Struct, frozen=True):
    """The settings with which an agent starts."""

    cluster: ClusterId
    identity: str
    """The name of this replica among those of its cluster: a pod's name."""
    namespace: str = SYSTEM_NAMESPACE
    options: Options = Options()
    replicated: bool = True
    """Whether other replicas may run, so that a Lease decides which of them is active."""
    timings: LeaseTimings = LeaseTimings()


class AgentParts(Struct, frozen=True, kw_only=True):
    """What an agent is composed of: its connections, its features, and what tests replace."""

    local: Transport
    broker: Transport | None = None
    broker_credentials: Credentials | None = None
    """Those of the broker's transport: the token that is used is told to others."""
    external_systems: Mapping[ClusterId, ExternalSystem] = {}
    features: Sequence[Feature] = ()
    hooks: Sequence[AdmissionHook] = ()
    extra_watches: Sequence[Watch] = ()
    new_transport: TransportFactory = http_transport
    """Connects to the members of a Federation."""
    probe: ProbeFunction | None = None
    open_socket: OpenSocket = socket.socket
    resolver: Provider | None = None
    clock: Clock = WallClock()
    random: Random = field(default_factory=Random)
    """Spreads retries."""


class Agent:
    """One cluster's agent: it watches, decides and writes."""

    def __init__(self, settings: AgentSettings, parts: AgentParts) -> None:
        """Build the agent's parts by the settings; nothing is sent or served until `running`."""
        clock, random, features = parts.clock, parts.random, parts.features
        self.settings = settings
        self._parts = parts
        self._local_client = ClusterClient(parts.local, random)
        self.reconciler = Reconciler(
            features,
            settings.cluster,
            clock=clock,
            random=random,
            system_namespace=settings.namespace,
            extra_watches=parts.extra_watches,
            providers={
                LOOKUP: parts.resolver or HostResolver(),
                CERTIFICATE_PROVIDER: Certificates(clock),
                TOKEN_PROVIDER: (token_issuer := TokenIssuer(parts.new_transport)),
                **network_providers(settings.options.networks.providers),
            },
        )
        informers = token_issuer.informers = self.reconciler.informers
        self.webhook_server = WebhookServer(
            parts.hooks,
            self.reconciler.snapshot,
            self.reconciler.answer,
            namespace=settings.options.admission.namespace,
            secret=WEBHOOKS,
        )
        self.reconciler.event_handlers.append(self.webhook_server.on_change)
        self.ended = asyncio.Event()  # set when this agent has to end; `end_reason` says why
        self.end_reason = ""
        self.reconciler.on_refused = self._request_end
        identity = f"{settings.cluster}_{settings.identity}"
        self.elections = LeaderElections(
            informers, identity, clock=clock, random=random, timings=settings.timings
        )
        self.reconciler.set_fence(self.elections)
        self._allocates = any(isinstance(feature, Networks) for feature in features)
        self._replica_slots = ReplicaSlots(
            self._local_client,
            settings.namespace,
            identity,
            SLOT_LEASES,
            clock=clock,
            random=random,
            timings=settings.timings,
        )
        informers.join(settings.cluster, {Role.LOCAL}, self._local_client)
        connection_sources = [
            feature for feature in features if isinstance(feature, ConnectionSource)
        ]
        self.connections = ConnectionReconciler(
            self.reconciler,
            self.elections,
            self._local_client,
            connection_sources,
            new_transport=parts.new_transport,
            random=random,
        )
        self._socket_probe = SocketProbe(parts.open_socket)
        self._prober = Prober(
            informers,
            [feature for feature in features if isinstance(feature, ProbeSource)],
            parts.probe or self._socket_probe,
            clock=clock,
            loopback=settings.options.gslb.loopback,
            active=lambda: self.reconciler.active,
        )
        self.reconciler.event_handlers += [
            LeaseFreshnessTracker(informers, frozenset({LEADER_LEASE}), clock).on_change,
            self._prober.on_change,
        ]
        self._avi = AviController(self._avi_controller)
        self._join_external_systems(parts.external_systems)
        self._heartbeat: HeartbeatLease | None = None
        self._membership: BrokerMembership | None = None
        if parts.broker is not None:
            client = BrokerClient(parts.broker, random)
            self._heartbeat = self._join_broker(client, parts.broker_credentials)

    def _join_external_systems(self, systems: Mapping[ClusterId, ExternalSystem]) -> None:
        """Connect the given external systems, and the Avi controller if it is a GSLB provider.

        Each gets the role OUTSIDE; the Avi controller is not among `systems`, and is polled.
        """
        informers = self.reconciler.informers
        for name, system in systems.items():
            informers.join(name, {Role.OUTSIDE}, ExternalApi(system))
        if "avi" in self.settings.options.gslb.providers:
            avi = ExternalApi(self._avi, self._avi_poll_interval)
            informers.join(CONTROLLER, {Role.OUTSIDE}, avi)

    def _join_broker(self, client: BrokerClient, credentials: Credentials | None) -> HeartbeatLease:
        """Connect the broker, and create the membership there, which `running` runs.

        Returns the Lease, not written yet, that shows there that this cluster is alive.
        """
        self.reconciler.informers.join(BROKER, {Role.BROKER}, client)
        self.reconciler.event_handlers.append(self._on_change)
        self._membership = BrokerMembership(
            self.reconciler,
            client,
            BROKER,
            self.settings.options.broker_namespace,
            self._parts.clock,
        )
        self.reconciler.event_handlers.append(self._membership.on_change)
        return HeartbeatLease(
            client,
            BROKER,
            self.settings.options.broker_namespace,
            self.settings.cluster,
            self._parts.clock,
            self._lease_duration,
            self._publish_heartbeat,
            lambda restored: self.reconciler.repair(BROKER, relist=restored),
            self._may_renew,
            credentials,
        )

    @asynccontextmanager
    async def running(
        self,
        listener: socket.socket | None = None,
        webhooks: socket.socket | None = None,
    ) -> AsyncIterator[None]:
        """Run until the block ends; with replicas, active only while this one holds their Lease.

        Every replica serves admission reviews on `webhooks`, and health on `listener`, without
        which findings are not reported either. A part that fails ends the block, in an
        ExceptionGroup.
        """
        features = AgentFeatures(self.settings.cluster, self.settings.options.features)
        self.reconciler.informers.put_fact(features)
        async with AsyncExitStack() as stack:
            alone = not self.settings.replicated
            await stack.enter_async_context(self.reconciler.running(active=alone))
            await stack.enter_async_context(self.elections.running())
            await stack.enter_async_context(self.connections.running())
            stack.push_async_callback(self._socket_probe.close)
            await stack.enter_async_context(self._prober.running())
            if listener is not None:
                reporting = self._report_findings()
                await stack.enter_async_context(running_task(reporting, "findings"))
                await stack.enter_async_context(serving(self.reconciler, listener))
            if webhooks is not None:
                await stack.enter_async_context(self.webhook_server.running(webhooks))
            if self._heartbeat is not None:
                await stack.enter_async_context(
                    running_task(self._heartbeat.run(self._is_member), "heartbeat lease")
                )
            if self._membership is not None:
                membership = self._membership.run(lambda: self.reconciler.active)
                await stack.enter_async_context(running_task(membership, "broker membership"))
            if not alone and self._allocates:
                await stack.enter_async_context(
                    running_task(self._replica_slots.run(self._publish_slot), "slot")
                )
            if not alone:
                self.elections.contend_among_replicas(
                    self._local_client, self.settings.namespace, self._set_active
                )
            yield

    async def _report_findings(self) -> None:
        """Judge what is wrong, for metrics and Events, until cancelled; never returns.

        Registers the collectors of findings in the reconciler's metrics. The views are imported
        only here.
        """
        from hanse.app.finding_metrics import FindingsCollector
        from hanse.app.finding_reporter import FindingReporter

        reporter = FindingReporter(self.reconciler, self.settings.namespace)
        registry = self.reconciler.metrics.registry
        registry.register(FindingsCollector(lambda: reporter.judgement.findings))
        registry.register(reporter.totals)
        await reporter.run()

    @property
    def is_published(self) -> bool:
        """Whether the heartbeat Lease shows this cluster to others; True without a broker.

        False before the first renewal, and once the Lease was found deleted or changed; requests
        that fail do not count.
        """
        return self._heartbeat is None or self._heartbeat.is_published

    @asynccontextmanager
    async def serving_names(
        self, compiler: "Compiler", server: "DeltaReceiver"
    ) -> AsyncIterator[None]:
        """Keep a view of the DNS server up to date from the agent's informers until the block ends.

        Members of global hosts and other targets of the view's sources are probed meanwhile, too.
        """
        from hanse.dns.updater import ViewUpdater

        updater = ViewUpdater(compiler, server, self.reconciler.snapshot)
        self.reconciler.event_handlers.append(updater.on_change)
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(updater.running())
                for source in compiler.sources:
                    if isinstance(source, ProbeSource):
                        stack.enter_context(self._prober.probing_for(source))
                yield
        finally:
            self.reconciler.event_handlers.remove(updater.on_change)

    async def close(self) -> None:
        """Close the connections to all clusters, the broker and the Avi controller."""
        await self._avi.close()
        await self.reconciler.informers.close()
        if self._parts.broker is not None:
            await self._parts.broker.close()

    def _avi_controller(self) -> AviAccess | NoController:
        """How to reach the Avi controller, as configured now; `NoController`, with why, if invalid.

        `NoController`, too, unless this cluster's AMKOCluster says that it leads.
        """
        snapshot = self.reconciler.snapshot()
        own = local_amko_cluster(snapshot)
        if own is None or not own.spec.is_leader:
            return NoController("this cluster does not lead")
        configured = configured_controller(snapshot)
        if isinstance(configured, InvalidConfiguration):
            return NoController(configured.error)
        return configured

    def _avi_poll_interval(self) -> timedelta:
        """How often the Avi controller is polled: as the GSLBConfig says, else POLL_INTERVAL."""
        return configured_refresh_interval(self.reconciler.snapshot()) or POLL_INTERVAL

    def _request_end(self, reason: str) -> None:
        """Set `end_reason` and `ended`, for whoever runs this agent to end it; stops nothing."""
        self.end_reason = reason
        self.ended.set()

    def _is_member(self) -> bool:
        """Whether this replica is active, and its cluster has not left the broker."""
        has_left = self._membership is not None and self._membership.has_left
        return self.reconciler.active and not has_left

    def _may_renew(self) -> bool:
        """Whether the heartbeat Lease may be renewed: this replica is active, its cluster a member.

        Also the reconciler is not refused, and the broker's ClusterMembers are listed or not
        served; if they are not watched, `brokers_to_read` has to be empty.
        """
        if not self._is_member() or self.reconciler.refused:
            return False
        snapshot = self.reconciler.snapshot()
        if snapshot.watches(BROKER, ClusterMember):
            return snapshot.listed_or_unserved(BROKER, ClusterMember)
        return not brokers_to_read(snapshot)

    def _lease_duration(self) -> timedelta:
        """The lease duration of the broker's ClusterSet.

        Without one, that of the rules that ClusterMember records keep, else the default.
        """
        return clusterset_spec(self.reconciler.snapshot(), BROKER).lease_duration

    def _on_change(self, change: Change) -> None:
        """Have the heartbeat Lease renewed soon after any change of a ClusterSet; else no effect.

        The ClusterSet sets its duration, and is seen again after this cluster has joined anew.
        """
        is_cluster_set = isinstance(change, ObjectChange) and isinstance(change.object, ClusterSet)
        if is_cluster_set and self._heartbeat is not None:
            self._heartbeat.renew_soon()

    def _publish_heartbeat(self, state: HeartbeatState) -> None:
        """Put the fact of the last renewal; logs an error if the broker rejected the token."""
        if state.rejected:
            log.error(
                "the broker rejects our token: it ended, or this cluster was made to leave",
                extra={"mend": "hanse join --broker CONTEXT", "end": "hanse uninstall"},
            )
        self.reconciler.informers.put_fact(state)

    def _publish_slot(self, number: int | None) -> None:
        """Put the slot of Service addresses of this replica as a fact; None drops the fact."""
        informers = self.reconciler.informers
        if number is None:
            informers.drop_fact(AssignedSlot, informers.local)
        else:
            informers.put_fact(AssignedSlot(informers.local, PoolSlot(number, len(SLOT_LEASES))))

    def _set_active(self, active: bool) -> None:
        """Activate or deactivate the reconciler, unless it is so already.

        In any case connections and probes are reconciled, and the heartbeat Lease is renewed soon.
        """
        if active and not self.reconciler.active:
            self.reconciler.activate()
        elif not active and self.reconciler.active:
            self.reconciler.deactivate()
        self.connections.enqueue()
        self._prober.resync()
        if self._heartbeat is not None:
            self._heartbeat.renew_soon()
