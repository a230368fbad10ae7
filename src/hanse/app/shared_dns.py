"""One DNS server for all flat networks of a cluster: a view for each, selected by the client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from typing import Protocol

from msgspec.structs import replace

from hanse.app.dns import ServerProcess, new_informers, open_health, open_reloads, open_server
from hanse.dns.compiler import Compiler
from hanse.dns.messages import Delta
from hanse.dns.server import DnsServer, ServedView
from hanse.dns.updater import BATCH_SIZE
from hanse.features.networks.guard.facts import pod_addresses
from hanse.features.networks.lookups import namespace_tenant, tenant_namespaces
from hanse.features.networks.names import NetworkName
from hanse.features.networks.shared_zone import (
    SHARED_WATCHES,
    SharedNetworkZone,
    asker_network,
    concerned_names,
    flat_networks,
    is_flat,
)
from hanse.features.services.zone import ServiceZone
from hanse.health import Readiness
from hanse.kube.clock import Clock, WallClock
from hanse.model.dns.records import ZoneNode
from hanse.model.dns.zones import View
from hanse.model.kinds.core import Pod
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, Snapshot
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.lease_tracker import LeaseTracker

NO_NETWORK = View("none")
"""The view of clients that are in no network: it has no zones, and every question is refused."""
MAX_ADDRESSES = 1000
"""Addresses looked up at a time, about ten milliseconds, so that other tasks can run."""
_NAMES, _SERVICES = 0, 1
"""The indexes of a view's sources: the network's own names, and multi-cluster services."""


SHARED_DNS_WATCHES = (*SHARED_WATCHES, *ServiceZone.watches)
"""All that the server reads in its cluster and at the broker; it writes nothing."""


class TenantServices:
    """The multi-cluster services in the namespaces of one tenant."""

    def __init__(self, tenant: str, services: ServiceZone) -> None:
        """The same zone as `services`, limited to the tenant."""
        self.name = services.name
        self.watches = services.watches
        self.zones = services.zones
        self._tenant = tenant
        self._services = services

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether all services are listed, not only the tenant's."""
        return self._services.synced(snapshot)

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """The keys of ServiceImports in the tenant's namespaces, and that of the schema version."""
        spaces = (n.metadata.name for n in tenant_namespaces(self._tenant, snapshot))
        return self._services.keys_in(spaces, snapshot)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of services that a change affects, of those in the tenant's namespaces.

        Also keys without a namespace, such as that of the schema version.
        """
        found = self._services.keys_for(change, snapshot)
        return [key for key in found if self._is_in_tenant(key, snapshot)]

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function that builds a key's nodes; none for a key in a namespace of others."""
        build = self._services.records_for(snapshot)
        return lambda key: build(key) if self._is_in_tenant(key, snapshot) else ()

    def _is_in_tenant(self, key: Key, snapshot: Snapshot) -> bool:
        """Whether a key is in a namespace of the tenant, or in none."""
        return not key.namespace or namespace_tenant(key.namespace, snapshot) == self._tenant


class ViewServer(Protocol):
    """A DNS server, as far as it has views that come and go, and clients by address."""

    def update(self, delta: Delta) -> None:
        """Send a change to every worker."""
        ...

    def add_view(self, compiler: Compiler) -> None:
        """Serve a view to clients whose address selects it."""
        ...

    def drop_view(self, view: str) -> None:
        """Serve a view that was added by `add_view` no longer."""
        ...

    def set_client_views(self, changes: Mapping[bytes, str | None]) -> None:
        """Let packed addresses of clients select other views; None: they have none."""
        ...


class NetworkViews:
    """Keeps a view of each flat network up to date, and which client has which."""

    def __init__(self, view: View, services: ServiceZone, server: ViewServer, serial: int) -> None:
        """No network is served yet; each has the settings of `view` and its tenant's `services`."""
        self._view = view
        self._services = services
        self._server = server
        self._serial = serial
        self._compilers: dict[NetworkName, Compiler] = {}
        self._client_networks: dict[str, NetworkName] = {}
        self._dirty: dict[NetworkName, None] = {}
        """Networks with keys to compile."""
        self._networks: set[NetworkName] = set()
        """Networks that may be new or gone, or whose names may all change."""
        self._addresses: set[str] = set()
        """Addresses whose network may have changed."""

    def is_listed(self, snapshot: Snapshot) -> bool:
        """Whether all that names and clients depend on is listed, also of services."""
        kinds = {watch.kind for watch in SHARED_WATCHES}
        listed = all(snapshot.listed(snapshot.local, kind) for kind in kinds)
        return listed and self._services.synced(snapshot)

    def start(self, snapshot: Snapshot) -> None:
        """Mark all flat networks and all addresses of pods for `advance`."""
        self._networks |= flat_networks(snapshot)
        for pod in snapshot.all(snapshot.local, Pod):
            self._addresses |= pod_addresses(pod)

    def on_change(self, change: Change, snapshot: Snapshot) -> None:
        """Mark the networks, clients and names that a change concerns, for `advance` to update.

        A service's key concerns the networks of its namespace's tenant; one without a namespace
        all.
        """
        self._enqueue_network_changes(change, snapshot)
        for key in self._services.keys_for(change, snapshot):
            tenant = namespace_tenant(key.namespace, snapshot) if key.namespace else ""
            for name, compiler in self._compilers.items():
                if not key.namespace or name.tenant == tenant:
                    self._enqueue(name, compiler, _SERVICES, key)

    def _enqueue_network_changes(self, change: Change, snapshot: Snapshot) -> None:
        """Enqueue the keys of known networks that a change concerns.

        Also marks the networks and addresses whose view may be another.
        """
        concerned = concerned_names(change, snapshot)
        self._addresses |= concerned.addresses
        self._networks |= concerned.networks
        for name, key in concerned.keys:
            if (compiler := self._compilers.get(name)) is not None:
                self._enqueue(name, compiler, _NAMES, key)

    def _enqueue(self, name: NetworkName, compiler: Compiler, source: int, key: Key) -> None:
        """Enqueue a key of a source with a network's compiler, and mark the network as dirty."""
        compiler.enqueue(source, key)
        self._dirty[name] = None

    @property
    def due(self) -> bool:
        """Whether there is something to advance."""
        return bool(self._dirty or self._networks or self._addresses)

    def advance(self, snapshot: Snapshot) -> None:
        """Do a part of what is due: some clients' views, one network, a batch of a view's names.

        Each result is sent to the server; call again while `due`.
        """
        self._update_client_views(snapshot)
        self._update_network(snapshot)
        name = next(iter(self._dirty), None)
        if name is None:
            return
        compiler = self._compilers[name]
        self._server.update(compiler.compile(snapshot, BATCH_SIZE))
        if not compiler.due:
            del self._dirty[name]

    def _update_network(self, snapshot: Snapshot) -> None:
        """Take one pending network: add its view, if it has none, and enqueue all its names.

        If it is no flat network any more, drop its view. No effect if none is pending.
        """
        if not self._networks:
            return
        name = self._networks.pop()
        if is_flat(name, snapshot):
            compiler = self._compilers.get(name) or self._add(name)
            compiler.enqueue_all(snapshot)
            self._dirty[name] = None
        elif name in self._compilers:
            del self._compilers[name]
            self._dirty.pop(name, None)
            self._server.drop_view(str(name))

    def _add(self, name: NetworkName) -> Compiler:
        """Create the compiler of a network's view, and have that view served."""
        view = replace(self._view, name=str(name))
        sources = (SharedNetworkZone(view, name), TenantServices(name.tenant, self._services))
        compiler = self._compilers[name] = Compiler(view, sources, self._serial)
        self._server.add_view(compiler)
        return compiler

    def _update_client_views(self, snapshot: Snapshot) -> None:
        """Look up at most MAX_ADDRESSES pending addresses, and send the views of those changed.

        An address that is in no flat network any more has no view.
        """
        changes: dict[bytes, str | None] = {}
        for _ in range(min(MAX_ADDRESSES, len(self._addresses))):
            address = self._addresses.pop()
            name = asker_network(address, snapshot)
            if name == self._client_networks.get(address):
                continue
            changes[ip_address(address).packed] = str(name) if name is not None else None
            if name is None:
                del self._client_networks[address]
            else:
                self._client_networks[address] = name
        if changes:
            self._server.set_client_views(changes)


class SharedNameServer:
    """Keeps the views of all networks up to date from informers of its own."""

    def __init__(self, views: NetworkViews, informers: ClusterInformers, clock: Clock) -> None:
        """Become the change handler of the informers, to keep `views` up to date once it runs.

        It is no server itself: `running` is given the one that serves the views.
        """
        self._views = views
        self._informers = informers
        self._leases = LeaseTracker(informers, clock)
        self._pending = asyncio.Event()
        self._started = False
        self._served = False
        informers.change_handler = self

    @property
    def readiness(self) -> Readiness:
        """Ready once workers answer all networks: before that every question is refused."""
        if self._served:
            return Readiness(ready=True, text="ready")
        return Readiness(ready=False, text="not ready: the cluster was not read in full yet")

    def on_change(self, change: Change, *, listed: bool = False) -> None:  # noqa: ARG002 - the informers' signature
        """Mark what a change concerns, and wake the sender; nothing is sent until all is listed."""
        self._leases.on_change(change)
        if self._started:
            self._views.on_change(change, self._informers.snapshot())
        self._pending.set()

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Ignored: names and clients stay until a deletion is observed."""

    @asynccontextmanager
    async def running(self, server: DnsServer) -> AsyncIterator[None]:
        """Run the informers, and send changes of views to the server, until the block ends.

        The block starts before all is listed.
        """
        async with self._informers.running(), asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_changes(server), name="dns of networks")
            try:
                yield
            finally:
                sending.cancel()

    async def _send_changes(self, server: DnsServer) -> None:
        """Once all is listed, send what is due in batches at every change; never returns.

        It yields to other tasks after each batch. The server is ready when workers answer from the
        first ones.
        """
        while True:
            await self._pending.wait()
            self._pending.clear()
            if not self._started:
                snapshot = self._informers.snapshot()
                if not self._views.is_listed(snapshot):
                    continue
                self._started = True
                self._views.start(snapshot)
            while self._views.due:
                self._views.advance(self._informers.snapshot())
                await asyncio.sleep(0)
            if not self._served:
                await server.wait_applied()
                self._served = True


@asynccontextmanager
async def serving_networks(process: ServerProcess, domain: str) -> AsyncIterator[None]:
    """Serve all flat networks of a cluster until the block ends, and close the listeners then.

    The client's address selects the view; `domain` is the cluster's, and the view of the process
    that of multi-cluster services. Also serves health, and replaces the workers on
    `process.reload`.
    """
    clock, services = WallClock(), ServiceZone(process.view)
    informers = new_informers(process.access, process.view, SHARED_DNS_WATCHES, clock)
    serial = int(clock.now().timestamp())
    nobody = ServedView(Compiler(NO_NETWORK, ()), process.listeners, by_client=True)
    try:
        async with AsyncExitStack() as stack:
            server = await open_server(stack, nobody, process)
            view = replace(process.view, zone=domain, secondaries=())
            views = NetworkViews(view, services, server, serial)
            names = SharedNameServer(views, informers, clock)
            await open_health(stack, server, process, lambda: names.readiness)
            await stack.enter_async_context(names.running(server))
            await open_reloads(stack, server, process)
            yield
    finally:
        await informers.close()
