"""DNS servers over informers: the process of `hanse dns`, and the DNS of a local federation."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from hanse import health
from hanse.app import BROKER, zone_sources
from hanse.app.name_server import Judgement, NameServer, server_addresses
from hanse.app.outside_view import OutsideView
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import Listeners
from hanse.dns.server import DnsServer, ServedView, serving
from hanse.dns.settings import ServerSettings
from hanse.features.networks.names import NetworkName, parse_network_name
from hanse.features.networks.zone import NetworkZone, watches
from hanse.features.publishing.zone import DnsEndpointZone
from hanse.features.services.cluster_zone import ClusterZone
from hanse.kube.client_config import Credentials
from hanse.kube.clock import Clock, WallClock
from hanse.kube.http_transport import HttpTransport
from hanse.model.dns.names import split_labels
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.facts import Facts, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, ObjectChange, Watch
from hanse.providers.probe_sockets import SocketProbe
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers

if TYPE_CHECKING:  # `hanse dns` runs no agent
    from hanse.app.agent import Agent

log = logging.getLogger(__name__)

UNNAMED_CLUSTER: ClusterId = "here"
"""The name of a cluster whose id is not given: then no cluster is local."""

CLUSTERLESS_VIEW = "all"
"""The view for clients outside all clusters, such as `dig` in a terminal."""

CLUSTER_DOMAIN = "cluster.local"
MAX_NETWORKS = 50
"""Networks of one cluster that get a view; each has sockets of its own."""

BindView = Callable[[str], tuple[Listeners, ...]]
"""Binds the sockets of a view, by the view's name; the first have the address that is shown."""


class DnsCredentials(Struct, frozen=True):
    """Credentials for the cluster whose names are served, and for its broker."""

    local: Credentials
    broker: Credentials | None
    broker_namespace: str


def network_zone(
    view: View, network: NetworkName, namespaces: Sequence[str] = (), *, follow: bool = False
) -> ZoneSource:
    """The zone source of one tenant network's names, which watches the namespaces.

    Without any, it watches all; `follow` those that the agent names in a ConfigMap beside the
    network's DNS.
    """
    return NetworkZone(view, network, tuple(namespaces), follow=follow)


class ServerProcess(Struct, frozen=True):
    """What a process serves names with."""

    access: DnsCredentials
    view: View
    listeners: tuple[Listeners, ...]
    settings: ServerSettings
    metrics_listener: socket.socket | None = None
    reload: asyncio.Event | None = None
    """The workers are replaced each time that it is set."""
    cache: Path | None = None
    """The folder that keeps what is known of global hosts."""


@asynccontextmanager
async def serving_zones(
    process: ServerProcess, sources: Sequence[ZoneSource]
) -> AsyncIterator[None]:
    """Serve a view of one cluster from its sources until the block ends; then closes the listeners.

    Also serves health, replaces the workers on `process.reload`, and probes the members of global
    hosts. The block starts before all is listed.
    """
    clock, probe, access = WallClock(), SocketProbe(), process.access
    known = [each for each in (access.local, access.broker) if each is not None]
    urls = [(await each.config()).endpoint.url for each in known]
    jitter = Random().random  # noqa: S311 - spreads probes, guards nothing
    judgement = Judgement(probe, process.cache, forbidden=server_addresses(urls), jitter=jitter)
    watches = [watch for source in sources for watch in source.watches]
    informers = new_informers(access, process.view, watches, clock)
    # Secondaries expect serials that grow, also over restarts.
    compiler = Compiler(process.view, sources, serial=int(clock.now().timestamp()))
    try:
        async with AsyncExitStack() as stack:
            server = await open_server(stack, ServedView(compiler, process.listeners), process)
            stack.push_async_callback(probe.close)
            names = NameServer(compiler, server, informers, clock, judgement)
            await open_health(stack, server, process, lambda: names.updater.readiness)
            await stack.enter_async_context(names.running())
            await open_reloads(stack, server, process)
            yield
    finally:
        await informers.close()


async def open_server(
    stack: AsyncExitStack, served: ServedView, process: ServerProcess
) -> DnsServer:
    """Start the workers of a process, and wait until they answer.

    Closing the stack ends them, then closes the listeners.
    """
    # Questions are refused once no worker answers: whoever asks then asks another server.
    for each in process.listeners:
        stack.callback(each.close)
    return await stack.enter_async_context(serving([served], process.settings))


async def open_health(
    stack: AsyncExitStack,
    server: DnsServer,
    process: ServerProcess,
    readiness: Callable[[], health.Readiness],
) -> None:
    """Serve health and metrics of a server until the stack is closed.

    No effect if the process has no listener for them.
    """
    if process.metrics_listener is not None:
        registry = server.metrics.registry
        await stack.enter_async_context(
            health.serving(process.metrics_listener, registry, readiness)
        )


async def open_reloads(stack: AsyncExitStack, server: DnsServer, process: ServerProcess) -> None:
    """Replace the workers each time `process.reload` is set, until the stack is closed.

    No effect if the process has no such event.
    """
    if process.reload is not None:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        reloads = _reload_workers(server, process.settings, process.reload)
        stack.callback(group.create_task(reloads, name="dns reload").cancel)


def new_informers(
    access: DnsCredentials, view: View, watched: Sequence[Watch], clock: Clock
) -> ClusterInformers:
    """Informers, not running, of the served cluster and, if any, its broker.

    Beside what is `watched` they watch the broker's Leases and ClusterMembers. A cluster without an
    id is named `UNNAMED_CLUSTER`.
    """
    random = Random()  # noqa: S311 - spreads retries, guards nothing
    members = (
        Watch(Role.BROKER, Lease, namespace=access.broker_namespace),
        Watch(Role.BROKER, ClusterMember, namespace=access.broker_namespace),
    )
    informers = ClusterInformers(
        [*watched, *members], Facts(), clock, view.local or UNNAMED_CLUSTER
    )
    local = ClusterClient(HttpTransport(access.local), random)
    informers.join(informers.local, {Role.LOCAL}, local)
    if access.broker is not None:
        broker = ClusterClient(HttpTransport(access.broker), random)
        informers.join(BROKER, {Role.BROKER}, broker)
    return informers


async def _reload_workers(
    server: DnsServer, settings: ServerSettings, requested: asyncio.Event
) -> None:
    """Replace the workers each time the event is set, which is cleared; never returns.

    Each replacement is logged.
    """
    while True:
        await requested.wait()
        requested.clear()
        await server.reload(settings)
        log.info("dns reloaded", extra={"workers": len(server.pids)})


class LocalZones(Struct, frozen=True):
    """The zones of a local federation beside the one of multi-cluster services."""

    global_hosts: tuple[str, ...]
    external: str
    """The zone of the DNSEndpoints that ExternalDNS would publish."""


class LocalDns:
    """One DNS server whose views the agents feed."""

    def __init__(
        self,
        clusters: Sequence[ClusterId],
        zones: LocalZones,
        bind: BindView,
        networks: Sequence[NetworkName] = (),
    ) -> None:
        """Bind the sockets of all views: one per cluster, one outside of clusters, and of networks.

        Nothing is answered until `running`; `bind` gives the sockets of a view by its name.
        """
        global_zones = zones.global_hosts
        views = [
            View(CLUSTERLESS_VIEW, global_zones=global_zones),
            *(View(name, local=name, global_zones=global_zones) for name in clusters),
        ]
        network_views = {
            View(f"{cluster}/{network}", zone=CLUSTER_DOMAIN): network
            for cluster in clusters
            for network in networks
        }
        self._bind = bind
        self._sources: dict[str, tuple[ZoneSource, ...]] = {
            v.name: _local_sources(v, zones.external) for v in views
        }
        self._sources |= {v.name: (NetworkZone(v, network_views[v]),) for v in network_views}
        views += network_views
        self._compilers = {v.name: Compiler(v, self._sources[v.name]) for v in views}
        self._outside = OutsideView(self._compilers[CLUSTERLESS_VIEW], clusters)
        self._listeners = {v.name: bind(v.name) for v in views}
        self.addresses = {name: _address_text(one) for name, one in self._listeners.items()}
        """The address of each view, as ADDRESS:PORT; views of new networks are added."""
        self._server: DnsServer | None = None

    def stub_zones(self, cluster: str) -> tuple[str, ...]:
        """The zones of a cluster's view, but for cluster.local, that its own DNS forwards here.

        Each once, as text without a final dot.
        """
        zones = [zone for source in self._sources[cluster] for zone in source.zones]
        names = [b".".join(split_labels(zone)).decode() for zone in zones]
        return tuple(name for name in dict.fromkeys(names) if name != CLUSTER_DOMAIN)

    def watches_for(self, cluster: str) -> tuple[Watch, ...]:
        """The watches that a cluster's agent needs for its cluster's views and the clusterless one.

        Also those for views of later Networks.
        """
        views = (*self._views_of(cluster), CLUSTERLESS_VIEW)
        sources = [source for view in views for source in self._sources[view]]
        return (*(watch for source in sources for watch in source.watches), *watches())

    @asynccontextmanager
    async def feeding_from(self, agent: "Agent") -> AsyncIterator[None]:
        """Let an agent feed its cluster's views, and the clusterless one when that is its turn.

        Networks that are created meanwhile get views, too.
        """
        assert self._server is not None, "views are fed while the server runs"
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._outside.feeding_from(agent, self._server))
            for view in self._views_of(agent.settings.cluster):
                serving_names = agent.serving_names(self._compilers[view], self._server)
                await stack.enter_async_context(serving_names)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            cluster = agent.settings.cluster
            later = group.create_task(self._follow_networks(agent), name=f"networks of {cluster}")
            stack.callback(later.cancel)
            yield

    async def _follow_networks(self, agent: "Agent") -> None:
        """Add views for Networks without one, also later ones, and feed them from the agent.

        Never returns; when it is cancelled, the agent feeds them no longer, but they stay served.
        """
        changed = asyncio.Event()
        changed.set()

        def on_change(change: Change) -> None:
            """Wake `_follow_networks` if a Network is created or updated, not if deleted."""
            if isinstance(change, ObjectChange) and isinstance(change.after, Network):
                changed.set()

        agent.reconciler.event_handlers.append(on_change)
        try:
            async with AsyncExitStack() as stack:
                while True:
                    await changed.wait()
                    changed.clear()
                    for compiler in await self._add_network_views(agent):
                        assert self._server is not None, "views are fed while the server runs"
                        serving_names = agent.serving_names(compiler, self._server)
                        await stack.enter_async_context(serving_names)
        finally:
            agent.reconciler.event_handlers.remove(on_change)

    async def _add_network_views(self, agent: "Agent") -> list[Compiler]:
        """Serve a view for each Network of the agent's cluster that has none; returns compilers.

        Binds their sockets and adds their addresses, in the order of their names; once the cluster
        has MAX_NETWORKS such views, further Networks get none.
        """
        assert self._server is not None, "views are fed while the server runs"
        cluster, snapshot = agent.settings.cluster, agent.reconciler.snapshot()
        names = [parse_network_name(n.metadata.name) for n in snapshot.all(cluster, Network)]
        wanted = {f"{cluster}/{name}": name for name in sorted(names)}
        new = {view: name for view, name in wanted.items() if view not in self._sources}
        room = max(0, MAX_NETWORKS + 1 - len(self._views_of(cluster)))
        added: list[ServedView] = []
        for view_name, name in list(new.items())[:room]:
            view = View(view_name, zone=CLUSTER_DOMAIN)
            self._sources[view_name] = (NetworkZone(view, name),)
            self._compilers[view_name] = Compiler(view, self._sources[view_name])
            self._listeners[view_name] = self._bind(view_name)
            self.addresses[view_name] = _address_text(self._listeners[view_name])
            added.append(ServedView(self._compilers[view_name], self._listeners[view_name]))
        if added:
            await self._server.add(added)
        return [one.compiler for one in added]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends, and close the sockets; SERVFAIL until an agent feeds a view.

        The block starts while the workers do: `wait_applied` waits for them.
        """
        served = [ServedView(self._compilers[n], s) for n, s in self._listeners.items()]
        try:
            async with serving(served, wait=False) as self._server:
                yield
        finally:
            for listeners in chain(*self._listeners.values()):
                listeners.close()

    async def wait_applied(self) -> None:
        """Wait until every worker answers from all that was compiled so far."""
        assert self._server is not None, "views are fed while the server runs"
        await self._server.wait_applied()

    def _views_of(self, cluster: str) -> tuple[str, ...]:
        """The views of a cluster: its own, and its networks'."""
        return (cluster, *(name for name in self._sources if name.startswith(f"{cluster}/")))


def _local_sources(view: View, external_zone: str) -> tuple[ZoneSource, ...]:
    """The zone sources of a view: those of features, and a cluster's own Services.

    For clients outside of clusters, the DNSEndpoints for ExternalDNS instead of own Services.
    """
    own = ClusterZone(view) if view.local else DnsEndpointZone(view, external_zone)
    return (*zone_sources(view), own)


def _address_text(listeners: Sequence[Listeners]) -> str:
    """`address:port` of the first of the listeners."""
    return "{}:{}".format(*listeners[0].address)
