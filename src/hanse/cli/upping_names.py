"""The DNS of a local federation: a view for each cluster and network, and one that is nobody's."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from hanse import app
from hanse.cli.oops import Oops
from hanse.dns.cluster import ClusterZone
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import Listeners, bound
from hanse.dns.networks import NetworkZone
from hanse.dns.outside import OutsideZone
from hanse.dns.server import DnsServer, Served, serving
from hanse.dns.zone import View, ZoneSource
from hanse.features.networks.names import NetworkName
from hanse.local.up.composition import Member
from hanse.local.up.global_sample import GLOBAL_ZONE
from hanse.local.up.outside import ZONE

NOBODY = "all"
"""The view of those who ask from no cluster, such as a person with `dig`."""

LOOPBACK = "127.0.0.1"
CLUSTER_DOMAIN = "cluster.local"


class Names:
    """One server whose views are told by the agents. Made by `naming`."""

    def __init__(
        self, members: Sequence[Member], port: int, networks: Sequence[NetworkName] = ()
    ) -> None:
        clusters = [member.name for member in members if member.runs_workloads]
        zones = (GLOBAL_ZONE,)
        views = [
            View(NOBODY, global_zones=zones),
            *(View(name, local=name, global_zones=zones) for name in clusters),
        ]
        inside = {
            View(f"{cluster}/{network}", zone=CLUSTER_DOMAIN): network
            for cluster in clusters
            for network in networks
        }
        self._first = clusters[0]
        self._sources: dict[str, tuple[ZoneSource, ...]] = {v.name: _sources(v) for v in views}
        self._sources |= {v.name: (NetworkZone(v, inside[v]),) for v in inside}
        views += inside
        self._compilers = {v.name: Compiler(v, self._sources[v.name]) for v in views}
        self._listeners = {v.name: _bound(port if v.name == NOBODY else 0) for v in views}
        self._server: DnsServer | None = None

    @property
    def addresses(self) -> dict[str, str]:
        """Where each view answers, as ADDRESS:PORT."""
        return {
            name: "{}:{}".format(*listeners.address) for name, listeners in self._listeners.items()
        }

    def zones_of(self, cluster: str) -> tuple[ZoneSource, ...]:
        """What an agent has to watch for the views that it tells."""
        return tuple(source for view in self._views_of(cluster) for source in self._sources[view])

    @asynccontextmanager
    async def told_by(self, agent: app.Agent) -> AsyncIterator[None]:
        """Let an agent tell the views of its cluster; the first one's tells nobody's too."""
        assert self._server is not None, "views are told while the server runs"
        async with AsyncExitStack() as stack:
            for view in self._views_of(agent.settings.cluster):
                feeding = agent.feeding(self._compilers[view], self._server)
                await stack.enter_async_context(feeding)
            yield

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer until the block ends, with SERVFAIL until an agent has told."""
        served = [Served(self._compilers[n], (s,)) for n, s in self._listeners.items()]
        try:
            async with serving(served) as self._server:
                yield
        finally:
            for listeners in self._listeners.values():
                listeners.close()

    def _views_of(self, cluster: str) -> tuple[str, ...]:
        networks = tuple(name for name in self._sources if name.startswith(f"{cluster}/"))
        own = (cluster, *networks)
        return (*own, NOBODY) if cluster == self._first else own


def _sources(view: View) -> tuple[ZoneSource, ...]:
    """What everybody answers; a cluster's own clients also find its Services, others what is
    written for ExternalDNS, which does not run here."""
    own = ClusterZone(view) if view.local else OutsideZone(view, ZONE)
    return (*app.sources(view), own)


def _bound(port: int) -> Listeners:
    try:
        return bound(LOOPBACK, port, workers=1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Oops(
            f"--dns-port: cannot listen on {LOOPBACK}:{port} ({reason}); choose another"
        ) from None
