"""A DNS server of one cluster of a scenario, queried with real packets."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import dns.asyncquery
import dns.message

from hanse.app import BROKER
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import bind_listeners
from hanse.dns.server import ServedView, serving
from hanse.dns.updater import ViewUpdater
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.facts import Facts, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change, Watch
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.lease_tracker import LeaseTracker
from tests.dns.builders import DnsAnswer, parse_answer
from tests.support.scenario import Check, Scenario

TIMEOUT = 20.0


class DnsClient:
    """Queries a DNS server."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    async def __call__(self, name: str, rtype: str = "A", *, tcp: bool = False) -> DnsAnswer:
        query = dns.message.make_query(name, rtype)
        ask = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        return parse_answer(await ask(query, self.host, port=self.port, timeout=TIMEOUT))

    def answers(
        self, name: str, rtype: str, *wanted: str, code: str = "NOERROR"
    ) -> Check[DnsAnswer]:
        """That the answer has exactly these records and this code."""

        async def check() -> DnsAnswer:
            answer = await self(name, rtype)
            found = (answer.code, answer.records)
            assert found == (code, tuple(sorted(wanted))), f"{name} {rtype}: {found}"
            return answer

        return check


class _ChangeForwarder:
    """Forwards changes to the lease tracker and the DNS feed."""

    def __init__(self, feed: ViewUpdater, leases: LeaseTracker) -> None:
        self._feed = feed
        self._leases = leases

    def on_change(self, change: Change, *, listed: bool = False) -> None:
        self._leases.on_change(change)
        self._feed.on_change(change)

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Names stay until they are known to be gone."""


@asynccontextmanager
async def serve_names(
    scenario: Scenario, cluster: ClusterId, view: View, source: ZoneSource | None = None
) -> AsyncIterator[DnsClient]:
    """Serve a view of a cluster until the block ends: names of services, or of another source."""
    zone: ZoneSource = source or ServiceZone(view)
    alive = Watch(Role.BROKER, Lease, namespace=BROKER_NAMESPACE)
    fleet = ClusterInformers([*zone.watches, alive], Facts(), scenario.testbed.clock, cluster)
    compiler, listeners = Compiler(view, [zone]), bind_listeners("127.0.0.1", 0, 1)
    async with AsyncExitStack() as stack:
        stack.callback(listeners.close)
        for where, role in ((cluster, Role.LOCAL), (BROKER, Role.BROKER)):
            transport = scenario.testbed.connect(where)
            stack.push_async_callback(transport.close)
            fleet.join(where, {role}, ClusterClient(transport, scenario.random))
        server = await stack.enter_async_context(serving([ServedView(compiler, (listeners,))]))
        feed = ViewUpdater(compiler, server, fleet.snapshot)
        fleet.change_handler = _ChangeForwarder(feed, LeaseTracker(fleet, scenario.testbed.clock))
        await stack.enter_async_context(fleet.running())
        await stack.enter_async_context(feed.running())
        yield DnsClient(*listeners.address)
