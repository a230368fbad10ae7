"""An agent with all features beside its embedded cluster, in one process, on a real broker.

    python -m bench.embedded_agent CLUSTER KUBECONFIG NUMBER:SERVICE...

The cluster exports these headless Services, each with one endpoint, whose address is made of the
number. Like `bench.agent` it prints `synced` and `settled`, and answers the line `tell` with its
counters; `seen` with the moment at which it first had each number in an imported slice; a line
`NUMBER:SERVICE` is a change: the endpoint gets another address.
"""

import sys
import time
from pathlib import Path

import msgspec

from bench.agent import counters_of, lines_of_input, say, settled, synced
from bench.bare_client import WORK, namespace
from bench.counting_transport import CountingTransport
from hanse.app import BROKER, features
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.cli.process import run_async
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.http_transport import HttpTransport
from hanse.local.in_process import InProcessTransport
from hanse.local.up.bootstrap import crd_objects, install_crds
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, Endpoint, EndpointPort, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Meta
from tinykube.apiserver import ApiServer
from tinykube.clock import WallClock
from tinykube.storage import Change, StorageEvent

_SLICES = "endpointslices.discovery.k8s.io"
_PORT = 80


def address_of(number: int) -> str:
    """The address of an endpoint."""
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


class Imports:
    """The moments at which imported slices first had an address."""

    def __init__(self, server: ApiServer) -> None:
        self.seen: dict[str, float] = {}
        server.storage.subscribe(self._take, _SLICES)

    def _take(self, event: StorageEvent) -> None:
        if not isinstance(event, Change) or event.type == "DELETED":
            return
        if SOURCE_CLUSTER in event.object["metadata"].get("labels", {}):
            for endpoint in event.object["endpoints"]:
                self.seen.setdefault(endpoint["addresses"][0], time.monotonic())


async def main(cluster: str, kubeconfig: Path, exported: list[str]) -> None:
    """Work until standard input ends."""
    server = ApiServer(cluster, clock=WallClock())
    imports = Imports(server)
    home = CountingTransport(InProcessTransport(server))
    broker = CountingTransport(
        HttpTransport(credentials.find_credentials(kubeconfig, context=BROKER))
    )
    await install_crds(home, crd_objects())
    await namespace(home, WORK)
    users = Client(InProcessTransport(server))
    settings = AgentSettings(cluster=cluster, identity="bench", replicated=False)
    agent = Agent(settings, AgentParts(local=home, broker=broker, features=features()))
    async with agent.running():
        await synced(agent)
        say("synced")
        for one in exported:
            await _export(users, *_parsed(one))
        await settled(agent)
        say("settled")
        lines = await lines_of_input()
        while line := (await lines.readline()).decode().strip():
            match line:
                case "tell":
                    say(msgspec.json.encode(counters_of(agent, home, broker)).decode())
                case "seen":
                    say(msgspec.json.encode(imports.seen).decode())
                case _:
                    await _change(users, *_parsed(line))
    await agent.close()


def _parsed(text: str) -> tuple[int, str]:
    number, _, service = text.partition(":")
    return int(number), service


async def _export(users: Client, number: int, service: str) -> None:
    """A headless Service, so that its endpoints are pods: what changes most often."""
    meta = Meta(name=service, namespace=WORK)
    ports = (ServicePort(port=_PORT, name="http"),)
    await users.create(Service(metadata=meta, spec=ServiceSpec(ports=ports, cluster_ip="None")))
    pods = EndpointSlice(
        metadata=Meta(name=service, namespace=WORK, labels={KUBE_SERVICE: service}),
        address_type="IPv4",
        endpoints=(Endpoint(addresses=(address_of(number),)),),
        ports=(EndpointPort(port=_PORT, name="http"),),
    )
    await users.create(pods)
    await users.create(ServiceExport(metadata=meta))


async def _change(users: Client, number: int, service: str) -> None:
    endpoints = [{"addresses": [address_of(number)], "conditions": {"ready": True}}]
    await users.patch(EndpointSlice, service, WORK, {"endpoints": endpoints})


if __name__ == "__main__":
    run_async(lambda: main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]), long_running=True)
