"""The process of `hanse dns` in a scenario: its own informers and probes, but no sockets."""

import asyncio
from random import Random

import dns.message
import dns.rcode
from msgspec import Struct

from hanse.app.name_server import Judgement, NameServer
from hanse.dns.compiler import Compiler
from hanse.dns.messages import Delta
from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.features.gslb.zone import GlobalZone
from hanse.kube.clock import Clock
from hanse.kube.transport import Transport
from hanse.model.dns.zones import View
from hanse.model.facts import Facts, Role
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers


class NameAnswer(Struct, frozen=True):
    """The answer to one query."""

    code: str
    addresses: list[str]


class AnswerTable:
    """A DNS server without sockets: it takes changes of one view, and answers packets."""

    def __init__(self, compiler: Compiler) -> None:
        self._table = Table(compiler.view.name, Random(1))
        self._table.apply(compiler.full_delta())

    def update(self, delta: Delta) -> None:
        """Take up a change, as a worker does."""
        self._table.apply(delta)

    async def wait_applied(self) -> None:
        """Return: changes are applied at once."""

    def ask(self, host: str, client: str) -> NameAnswer:
        """The answer to one packet."""
        query = dns.message.make_query(host, "A").to_wire()
        packet = respond(query, self._table, stream=False, client=client)
        assert packet is not None, "there is no answer"
        message = dns.message.from_wire(packet)
        addresses = [rd.address for rrset in message.answer for rd in rrset]
        return NameAnswer(dns.rcode.to_text(message.rcode()), addresses)


class ScenarioNameServer(AnswerTable):
    """A name server for global hosts that runs from its creation until `stop`."""

    def __init__(
        self, view: View, transport: Transport, clock: Clock, judgement: Judgement
    ) -> None:
        compiler = Compiler(view, [GlobalZone(view)])
        super().__init__(compiler)
        self._informers = ClusterInformers(GlobalZone.watches, Facts(), clock, view.local)
        self._informers.join(view.local, {Role.LOCAL}, ClusterClient(transport, Random(1)))
        self._names = NameServer(compiler, self, self._informers, clock, judgement)
        self._task = asyncio.create_task(self._run(), name=f"names of {view.name}")

    async def stop(self) -> None:
        """End it as a killed process ends."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            async with self._names.running():
                await asyncio.get_running_loop().create_future()
        finally:
            await self._informers.close()
