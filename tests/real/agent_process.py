"""Agents with the toy feature as processes, each with its own account.

`python -m tests.real.agent_process CLUSTER IDENTITY NAMESPACE KUBECONFIG` runs one until a signal,
or until the process that started it ends.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hanse import logs
from hanse.app import BROKER
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.kube.client_config import ClientConfig
from hanse.kube.credentials import find_credentials
from hanse.kube.http_transport import HttpTransport
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.local.real.fleet import RealFleet
from hanse.model.facts import Role
from hanse.model.objects import ClusterId
from hanse.model.rbac import RbacRule
from tests.scenarios.toy_offers import OffersScenario
from tests.support.agent_accounts import account_with, rules_of
from tests.support.scenario import Scenario
from tests.support.testbed_kubernetes import SHORT, KubernetesTestbed, kubernetes_testbed
from tests.support.toy import Toy

ROOT = Path(__file__).parents[2]

Rules = Callable[[RbacRule], RbacRule | None]
"""Changes or drops a generated rule before it is granted."""


def as_generated(rule: RbacRule) -> RbacRule:
    return rule


class AgentProcess:
    """A running agent process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def kill(self) -> None:
        """Kill it without a graceful stop."""
        if self.running:
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """Stop it with SIGTERM; returns its exit status."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()


class AgentProcesses:
    """Three real clusters and a broker, with an agent process for each cluster."""

    def __init__(self, scenario: Scenario, testbed: KubernetesTestbed, folder: Path) -> None:
        self.scenario = scenario
        self.toy_offers = OffersScenario(scenario)
        self.processes: dict[str, AgentProcess] = {}
        self.folder = folder
        self.access: dict[tuple[ClusterId, ClusterId], ClientConfig] = {}
        self._testbed = testbed
        self._started = 0

    def log_of(self, name: str) -> str:
        """The log of all processes of one name."""
        return (self.folder / f"{name}.log").read_text()

    async def create_accounts(self, cluster: ClusterId, at_home: Rules = as_generated) -> None:
        """Give a cluster's agent its accounts and write its kubeconfig."""
        contexts: list[Context] = []
        for target, role in ((cluster, Role.LOCAL), (BROKER, Role.BROKER)):
            rules = rules_of((Toy(),), cluster, role, self.scenario.system)
            if role is Role.LOCAL:
                rules = tuple(kept for rule in rules if (kept := at_home(rule)) is not None)
            account = account_with(rules, cluster, self.scenario.system)
            access = await self._testbed.access(account, target)
            self.access[cluster, target] = access
            contexts.append(Context(target, access, user=account.name))
        write_kubeconfig(self._kubeconfig(cluster), contexts)

    async def start(self, cluster: ClusterId, replica: str = "") -> AgentProcess:
        """Start an agent with a new identity, as a new pod would have."""
        self._started += 1
        name = f"{cluster}-{replica}" if replica else cluster
        with (self.folder / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.real.agent_process", cluster, f"{name}-{self._started}"),
                *(self.scenario.system, str(self._kubeconfig(cluster))),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        self.processes[name] = AgentProcess(process)
        return self.processes[name]

    async def start_all(self) -> None:
        """Start an agent for every cluster."""
        for cluster in self.scenario.names:
            if (cluster, BROKER) not in self.access:
                await self.create_accounts(cluster)
            await self.start(cluster)

    async def kill_all(self) -> None:
        await asyncio.gather(*(process.kill() for process in self.processes.values()))

    def _kubeconfig(self, cluster: ClusterId) -> Path:
        return self.folder / f"{cluster}.kubeconfig"


@asynccontextmanager
async def agent_processes(
    fleet: RealFleet, namespace: str, folder: Path
) -> AsyncIterator[AgentProcesses]:
    """Agent processes on a shared fleet; at the end they are killed and their objects deleted."""
    async with (
        kubernetes_testbed(fleet, folder) as testbed,
        Scenario(testbed, namespace, lambda: (Toy(),)) as scenario,
    ):
        processes = AgentProcesses(scenario, testbed, folder)
        await processes.toy_offers.open()
        try:
            yield processes
        finally:
            await processes.kill_all()
            await processes.toy_offers.clear()


async def run(cluster: ClusterId, identity: str, namespace: str, kubeconfig: Path) -> None:
    """Run an agent until a signal or the end of standard input."""
    agent = Agent(
        AgentSettings(cluster, identity, namespace=namespace, timings=SHORT),
        AgentParts(
            local=HttpTransport(find_credentials(kubeconfig, context=cluster)),
            broker=HttpTransport(find_credentials(kubeconfig, context=BROKER)),
            features=(Toy(),),
        ),
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), _on_input, stop)
    try:
        async with agent.running():
            await stop.wait()
    finally:
        await agent.close()


def _on_input(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 64):
        stop.set()


if __name__ == "__main__":
    logs.configure(level=logging.INFO)
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])))
