"""The part of a name server that judges: informers, zone data, probes, and what it last knew."""

import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from hanse.app.zone_cache import CachedHosts, HostCache, load_hosts
from hanse.dns.compiler import Compiler
from hanse.dns.updater import DeltaReceiver, ViewUpdater
from hanse.features.gslb.names import LEADER_LEASE
from hanse.features.gslb.zone import GlobalZone
from hanse.features.networks.zone import NetworkZone
from hanse.kube.clock import Clock
from hanse.model.facts import Role
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId, Object
from hanse.model.probes import TargetHealth
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.providers.probes import ProbeFunction, Prober
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.lease_freshness import LeaseFreshnessTracker
from hanse.runtime.lease_tracker import LeaseTracker


class Judgement(Struct, frozen=True):
    """How a name server judges global hosts by itself."""

    probe: ProbeFunction
    cache: Path | None = None
    """The folder that keeps what is known over a restart."""
    loopback: bool = False
    forbidden: frozenset[str] = frozenset()
    """Addresses that are not probed: those of its own API servers."""
    jitter: Callable[[], float] = lambda: 0.0
    """A random number from 0 to 1, by which intervals of probes differ."""


class NameServer:
    """Keeps a view up to date from informers of its own, without an agent."""

    def __init__(
        self,
        compiler: Compiler,
        server: DeltaReceiver,
        informers: ClusterInformers,
        clock: Clock,
        judgement: Judgement,
    ) -> None:
        """Become the change handler of the informers; nothing runs until `running`.

        Known hosts and their health are loaded from the cache folder, if there is one.
        """
        self._informers = informers
        self._compiler = compiler
        self._zones = [s for s in compiler.sources if isinstance(s, GlobalZone)]
        self._networks = [s for s in compiler.sources if isinstance(s, NetworkZone)]
        known = load_hosts(judgement.cache) if judgement.cache is not None else CachedHosts()
        for zone in self._zones:
            zone.known.update(known.services)
            zone.forbidden_addresses = judgement.forbidden
        self.updater = ViewUpdater(compiler, server, informers.snapshot)
        self.prober = Prober(
            informers,
            self._zones,
            judgement.probe,
            clock=clock,
            loopback=judgement.loopback,
            known=known.health,
            jitter=judgement.jitter,
        )
        self._leases = LeaseTracker(informers, clock)
        self._freshness = LeaseFreshnessTracker(informers, frozenset({LEADER_LEASE}), clock)
        self._cache: HostCache | None = None
        self._known_changes = 0
        if judgement.cache is not None and self._zones:
            self._cache = HostCache(
                judgement.cache, self._zones, lambda: informers.facts.all(TargetHealth)
            )
        informers.change_handler = self

    def on_change(self, change: Change, *, listed: bool = False) -> None:  # noqa: ARG002 - the informers' signature
        """Pass a change on to updater, prober, Lease trackers and the cache of hosts.

        Before that, a changed ConfigMap may change which namespaces are watched; until all is
        listed, this is checked at every change.
        """
        if self._networks and (not self._compiler.synced or _is_config(change)):
            self._follow_namespaces()
        self._leases.on_change(change)
        self._freshness.on_change(change)
        self.updater.on_change(change)
        self.prober.on_change(change)
        if self._cache is not None and self._concerns_hosts(change):
            self._cache.note_change()

    def _concerns_hosts(self, change: Change) -> bool:
        """Whether known hosts changed since the last call, or this change sets a target's health.

        The counter of changes is remembered for the next call; a health that is dropped does not
        count.
        """
        before, self._known_changes = self._known_changes, sum(z.known.changes for z in self._zones)
        if before != self._known_changes:
            return True
        is_health = isinstance(change, FactChange) and isinstance(change.fact, TargetHealth)
        return is_health and change.after is not None

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Treat an object that is no longer watched as deleted, if networks are served.

        Else no effect: names stay until the object's deletion is observed.
        """
        if self._networks:
            self.updater.on_change(ObjectChange(where, obj, None))

    def _follow_namespaces(self) -> None:
        """Set the watches to the namespaces that networks have now, if they follow a ConfigMap.

        While that does not name any, the watches stay as they are.
        """
        snapshot = self._informers.snapshot()
        watches = [w for zone in self._networks for w in zone.followed_watches(snapshot)]
        if watches:
            self._informers.set_watches(Role.LOCAL, watches)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run informers, updates, probes, and the cache if there is one, until the block ends."""
        async with AsyncExitStack() as stack:
            if self._cache is not None:
                await stack.enter_async_context(self._cache.running())
            await stack.enter_async_context(self._informers.running())
            await stack.enter_async_context(self.updater.running())
            await stack.enter_async_context(self.prober.running())
            yield


def _is_config(change: Change) -> bool:
    """Whether a change is one of a ConfigMap, which names the namespaces of a network."""
    return isinstance(change, ObjectChange) and isinstance(change.object, ConfigMap)


def server_addresses(urls: Iterable[str]) -> frozenset[str]:
    """The IP addresses of the hosts in these URLs, resolved now, which blocks.

    Loopback addresses, and hosts that cannot be resolved, are left out.
    """
    found: set[str] = set()
    for url in urls:
        host = urlsplit(url).hostname or ""
        try:
            found |= {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
        except OSError:
            continue
    return frozenset(a for a in found if not a.startswith("127.") and a != "::1")
