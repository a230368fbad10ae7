"""Enforces NetworkPolicies on real nodes between pods, as a network plugin would."""

import asyncio
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hanse.features.networks.reachability import is_allowed
from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networking import NetworkPolicy

TABLE = "test-policies"
INTERVAL = 0.2


@contextmanager
def enforced(kubeconfig: Path, context: str, nodes: Sequence[int], port: int) -> Iterator[None]:
    """Drop new connections to a port that policies deny, on nodes by their processes."""
    stop, first = threading.Event(), threading.Event()

    def follow() -> None:
        asyncio.run(_follow(kubeconfig, context, nodes, port, stop, first))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        assert first.wait(30)
        yield
        assert thread.is_alive(), "policies were not enforced to the end"
    finally:
        stop.set()
        thread.join()
        _write(nodes, f"table inet {TABLE}\ndelete table inet {TABLE}\n")


async def _follow(
    kubeconfig: Path,
    context: str,
    nodes: Sequence[int],
    port: int,
    stop: threading.Event,
    first: threading.Event,
) -> None:
    """Write what is denied whenever that changes."""
    client = Client(HttpTransport(credentials.find_credentials(kubeconfig, context=context)))
    written = None
    while not stop.is_set():
        denied = await _denied(client, port)
        if denied != written:
            _write(nodes, _rules(denied))
            written = denied
        first.set()
        await asyncio.sleep(INTERVAL)
    await client.close()


async def _denied(client: Client, port: int) -> set[tuple[str, str]]:
    """The pairs of pod addresses between which policies deny connections to a port."""
    spaces = {n.metadata.name: n.metadata.labels for n in (await client.list(Namespace)).objects}
    policies = (await client.list(NetworkPolicy)).objects
    ends = [
        TrafficEndpoint(
            pod.metadata.name,
            pod.metadata.namespace,
            pod.metadata.labels,
            spaces.get(pod.metadata.namespace, {}),
            (pod.status.pod_ip,),
        )
        for pod in (await client.list(Pod)).objects
        if pod.status.pod_ip and not pod.spec.host_network
    ]
    return {
        (one.addresses[0], other.addresses[0])
        for one in ends
        for other in ends
        if one is not other and not is_allowed(one, other, TrafficPort(port), policies)
    }


def _rules(denied: set[tuple[str, str]]) -> str:
    """The table anew, in one transaction."""
    pairs = ", ".join(sorted(f"{one} . {other}" for one, other in denied))
    elements = f"elements = {{ {pairs} }}" if pairs else ""
    hook = "type filter hook forward priority filter + 10; policy accept;"
    return f"""table inet {TABLE}
delete table inet {TABLE}
table inet {TABLE} {{
  set denied {{ type ipv4_addr . ipv4_addr; {elements} }}
  chain forward {{ {hook} ct state new ip saddr . ip daddr @denied drop; }}
}}
"""


def _write(nodes: Sequence[int], rules: str) -> None:
    for pid in nodes:
        command = ["nsenter", "--net", "--target", str(pid), "nft", "-f", "-"]
        subprocess.run(command, input=rules, text=True, check=True)
