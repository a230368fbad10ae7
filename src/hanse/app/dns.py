"""The DNS of a local federation: a view per cluster and per network, and a clusterless one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from hanse import app
from hanse.app.agent import Agent
from hanse.cli.errors import InputError
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import Listeners, bind_listeners
from hanse.dns.server import DnsServer, ServedView, serving
from hanse.features.networks.names import NetworkName, parse_network_name
from hanse.features.networks.zone import NetworkZone, watches
from hanse.features.publishing.zone import DnsEndpointZone
from hanse.features.services.cluster_zone import ClusterZone
from hanse.local.up.sample import EXTERNAL_ZONE, GLOBAL_ZONE
from hanse.local.up.topology import LocalMember
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.kinds.networks import Network
from hanse.model.snapshot import Change, ObjectChange, Watch

CLUSTERLESS_VIEW = "all"
"""The view for clients outside all clusters, such as `dig` in a terminal."""

LOOPBACK = "127.0.0.1"
CLUSTER_DOMAIN = "cluster.local"
MAX_NETWORKS = 50
"""Networks of one cluster that get a view; each has sockets of its own."""


class LocalDns:
    """One DNS server whose views the agents feed."""

    def __init__(
        self, members: Sequence[LocalMember], port: int, networks: Sequence[NetworkName] = ()
    ) -> None:
        clusters = [member.name for member in members if member.runs_workloads]
        zones = (GLOBAL_ZONE,)
        views = [
            View(CLUSTERLESS_VIEW, global_zones=zones),
            *(View(name, local=name, global_zones=zones) for name in clusters),
        ]
        network_views = {
            View(f"{cluster}/{network}", zone=CLUSTER_DOMAIN): network
            for cluster in clusters
            for network in networks
        }
        self._first = clusters[0]
        self._sources: dict[str, tuple[ZoneSource, ...]] = {v.name: _sources(v) for v in views}
        self._sources |= {v.name: (NetworkZone(v, network_views[v]),) for v in network_views}
        views += network_views
        self._compilers = {v.name: Compiler(v, self._sources[v.name]) for v in views}
        self._listeners = {v.name: _bind(port if v.name == CLUSTERLESS_VIEW else 0) for v in views}
        self.addresses = {name: _address_text(one) for name, one in self._listeners.items()}
        """The address of each view, as ADDRESS:PORT; views of new networks are added."""
        self._server: DnsServer | None = None

    def watches_for(self, cluster: str) -> tuple[Watch, ...]:
        """The watches that an agent needs for the views that it feeds, also later ones."""
        sources = [source for view in self._views_of(cluster) for source in self._sources[view]]
        return (*(watch for source in sources for watch in source.watches), *watches())

    @asynccontextmanager
    async def feeding_from(self, agent: Agent) -> AsyncIterator[None]:
        """Let an agent feed its cluster's views; the first agent also feeds the clusterless one."""
        assert self._server is not None, "views are fed while the server runs"
        async with AsyncExitStack() as stack:
            for view in self._views_of(agent.settings.cluster):
                serving_names = agent.serving_names(self._compilers[view], self._server)
                await stack.enter_async_context(serving_names)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            cluster = agent.settings.cluster
            later = group.create_task(self._follow_networks(agent), name=f"networks of {cluster}")
            stack.callback(later.cancel)
            yield

    async def _follow_networks(self, agent: Agent) -> None:
        """Add views for networks that are created while this runs, until it is cancelled."""
        changed = asyncio.Event()
        changed.set()

        def on_change(change: Change) -> None:
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

    async def _add_network_views(self, agent: Agent) -> list[Compiler]:
        """Add a view for each network of a cluster that has none; returns their compilers."""
        assert self._server is not None, "views are fed while the server runs"
        cluster, snapshot = agent.settings.cluster, agent.reconciler.snapshot()
        names = [parse_network_name(n.metadata.name) for n in snapshot.all(cluster, Network)]
        wanted = {f"{cluster}/{name}": name for name in sorted(names)}
        new = {view: name for view, name in wanted.items() if view not in self._sources}
        room = max(0, MAX_NETWORKS - len(self._views_of(cluster)))
        added: list[ServedView] = []
        for view_name, name in list(new.items())[:room]:
            view = View(view_name, zone=CLUSTER_DOMAIN)
            self._sources[view_name] = (NetworkZone(view, name),)
            self._compilers[view_name] = Compiler(view, self._sources[view_name])
            self._listeners[view_name] = _bind(0)
            self.addresses[view_name] = _address_text(self._listeners[view_name])
            added.append(ServedView(self._compilers[view_name], (self._listeners[view_name],)))
        if added:
            await self._server.add(added)
        return [one.compiler for one in added]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends, with SERVFAIL until an agent feeds a view."""
        served = [ServedView(self._compilers[n], (s,)) for n, s in self._listeners.items()]
        try:
            async with serving(served) as self._server:
                yield
        finally:
            for listeners in self._listeners.values():
                listeners.close()

    def _views_of(self, cluster: str) -> tuple[str, ...]:
        networks = tuple(name for name in self._sources if name.startswith(f"{cluster}/"))
        own = (cluster, *networks)
        return (*own, CLUSTERLESS_VIEW) if cluster == self._first else own


def _sources(view: View) -> tuple[ZoneSource, ...]:
    """The zones of a view: beside the common ones, a cluster's own Services, or for clients
    outside what is published for ExternalDNS, which does not run here."""
    own = ClusterZone(view) if view.local else DnsEndpointZone(view, EXTERNAL_ZONE)
    return (*app.zone_sources(view), own)


def _address_text(listeners: Listeners) -> str:
    return "{}:{}".format(*listeners.address)


def _bind(port: int) -> Listeners:
    try:
        return bind_listeners(LOOPBACK, port, workers=1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--dns-port: cannot listen on {LOOPBACK}:{port} ({reason}); choose another"
        ) from None
