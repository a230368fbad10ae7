"""Networks that are made while a local federation runs have their names answered."""

import asyncio
from typing import Any

import dns.asyncquery
import dns.message
import msgspec
import pytest

from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.app.dns import LocalDns, LocalZones
from hanse.dns.listeners import bind_listeners
from hanse.features.networks.feature import Networks
from hanse.features.networks.names import NETWORK, TENANT
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.transport import Request
from hanse.local.in_process import InProcessTransport
from hanse.model.crds import crd_of
from hanse.model.kinds.core import Service
from hanse.model.kinds.networks import Network, NetworkPeering, NetworkPort, Tenant
from hanse.model.objects import Object
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HERE = "lubeck"
COMMAND_TIMEOUT = 120


async def test_a_network_that_is_made_later_is_answered_its_own_names_too() -> None:
    server = ApiServer(HERE, clock=WallClock())
    admin = Client(InProcessTransport(server))
    for kind in (Tenant, Network, NetworkPeering, NetworkPort):
        await admin.send(Request("POST", CRDS, body=msgspec.json.encode(crd_of(kind))))
    zones = LocalZones(("global.test",), "external.test")
    names = LocalDns([HERE], zones, lambda _: (bind_listeners("127.0.0.1", 0, workers=1),))
    agent = Agent(
        AgentSettings(HERE, "only", replicated=False),
        AgentParts(
            local=InProcessTransport(server),
            features=(Networks(),),
            extra_watches=names.watches_for(HERE),
        ),
    )
    marks = {TENANT: "acme", NETWORK: "lab"}

    async with asyncio.timeout(COMMAND_TIMEOUT), names.running():
        async with agent.running(), names.feeding_from(agent):
            await admin.create(made(Network, "acme.lab", spec={"type": "flat", "tenant": "acme"}))
            web = made(Service, "web", "default", marks, spec={"ports": [{"port": 80}]})
            address = (await admin.create(web)).spec.cluster_ip
            while f"{HERE}/acme.lab" not in names.addresses:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)

            await answered(names.addresses[f"{HERE}/acme.lab"], address)
        await agent.close()


def made(
    kind: type[Object],
    name: str,
    space: str = "",
    labels: dict[str, str] | None = None,
    **fields: Any,
) -> Any:
    metadata = {"name": name, "namespace": space, "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, **fields}, kind)


async def answered(server: str, address: str) -> None:
    """Ask until the name is known; who waits for ever is told so by the test's patience."""
    host, _, port = server.partition(":")
    query = dns.message.make_query("web.default.svc.cluster.local", "A")
    records: list[str] = []
    while records != [address]:
        answer = await dns.asyncquery.udp(query, host, port=int(port), timeout=COMMAND_TIMEOUT)
        records = [record.to_text() for rrset in answer.answer for record in rrset]
        await asyncio.sleep(0.05)
