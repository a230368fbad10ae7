"""Guards come and go: the networks of tenants are isolated all the time, by them or by policies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from hanse.app import guard as guard_module
from hanse.app.guard import Guard, GuardSettings, guarding
from hanse.app.guard_lease import GuardLease
from hanse.features.networks.feature import Networks
from hanse.features.networks.lookups import ISOLATED
from hanse.features.networks.options import NetworksOptions
from hanse.kube.errors import AlreadyExists, BadCredentials
from hanse.model.conditions import find_condition
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Node
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network
from hanse.model.naming import GUARDS_NAMESPACE
from hanse.model.objects import Meta
from tests.app.test_guard import Kernel
from tests.scenarios.network_fixtures import agent_users
from tests.scenarios.networks import HERE, NetworksScenario, made
from tests.support.scenario import Check

pytestmark = pytest.mark.virtual

FIRST, SECOND = "node-1", "node-2"
LONG = timedelta(minutes=5)


class Nodes:
    """The machines of a cluster: their kernels, and the guards that run on them."""

    def __init__(self, tenancy: NetworksScenario) -> None:
        self.tenancy = tenancy
        self.kernels: dict[str, Kernel] = {}
        self.guards: dict[str, Guard] = {}
        self._running: dict[str, AsyncExitStack] = {}
        self.unguarded: list[str] = []
        """What was seen with neither policies nor rules."""

    async def add(self, name: str, ready: str = "True") -> None:
        """A node without a guard."""
        self.kernels[name] = Kernel()
        await self.tenancy.admin.create(made(Node, name))
        await self.report(name, "boot-1", ready)

    async def report(self, name: str, boot: str, ready: str = "True") -> None:
        """The status that a kubelet writes."""
        at = self.tenancy.scenario.testbed.clock.now()
        if ready == "False":
            found = await self.tenancy.admin.read(Node, name)
            at = found.metadata.creation_timestamp or at
        text = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": text}
        status = {"nodeInfo": {"bootID": boot}, "conditions": [condition]}
        await self.tenancy.admin.patch(Node, name, "", {"status": status}, subresource="status")

    async def start_guard(self, name: str, boot: str = "boot-1") -> None:
        scenario, stack = self.tenancy.scenario, AsyncExitStack()
        inner = scenario.testbed.connect(HERE)
        transport = scenario.network.transport(f"guard of {name}", HERE, inner)
        settings = GuardSettings(name, boot=boot)
        self.guards[name] = await stack.enter_async_context(
            guarding(transport, settings, self.kernels[name], scenario.testbed.clock)
        )
        self._running[name] = stack

    async def stop_guard(self, name: str) -> None:
        """Its rules stay in the kernel."""
        del self.guards[name]
        await self._running.pop(name).aclose()

    async def remove_guard(self, name: str) -> None:
        """The end of a guard whose DaemonSet is gone."""
        guard = self.guards[name]
        assert guard.lease is not None
        await guard.lease.end()
        await self.stop_guard(name)
        await guard.remove()

    async def close(self) -> None:
        for name in list(self._running):
            await self.stop_guard(name)

    async def watch_isolation(self, space: str) -> None:
        """Note each moment in which a node has no rules, and a namespace no policies."""
        while True:
            policies = (await self.tenancy.admin.list(NetworkPolicy, namespace=space)).objects
            bare = [name for name, kernel in self.kernels.items() if not is_guarded(kernel)]
            if bare and not {"hanse-deny"} <= {p.metadata.name for p in policies}:
                self.unguarded.append(f"{bare} at {self.tenancy.scenario.testbed.clock.now()}")
            await asyncio.sleep(0.1)


def is_guarded(kernel: Kernel) -> bool:
    """Whether a kernel has rules that know the networks of tenants."""
    return kernel.in_place and any("from-" in commands for commands in kernel.applied)


@pytest.fixture
async def nodes(tenancy: NetworksScenario, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nodes]:
    """Two nodes without guards, and an agent that leaves isolation to guards."""
    monkeypatch.setattr(guard_module, "bridge_bypass", str)
    monkeypatch.setattr("hanse.app.guard_removal.installed_folders", lambda: None)
    with suppress(AlreadyExists):
        await tenancy.admin.create(Namespace(metadata=Meta(name=GUARDS_NAMESPACE)))
    for node in (await tenancy.admin.list(Node)).objects:
        await tenancy.admin.delete(Node, node.metadata.name, "")
    found = Nodes(tenancy)
    for name in (FIRST, SECOND):
        await found.add(name)
    await restart_agent(tenancy, guard=True)
    yield found
    await found.close()


async def restart_agent(tenancy: NetworksScenario, *, guard: bool) -> None:
    scenario = tenancy.scenario
    options = NetworksOptions(agents=agent_users(scenario.namespace), guard=guard)
    scenario.features = lambda: (Networks(options),)
    await scenario.kill_agent(HERE)
    await scenario.start_agent(HERE)


def isolated(tenancy: NetworksScenario, space: str, reason: str) -> Check[None]:
    """That policies are there or not, and the network's condition says so."""

    async def check() -> None:
        found = (await tenancy.admin.list(NetworkPolicy, namespace=space)).objects
        network = await tenancy.admin.read(Network, f"{space.removesuffix('-web')}.default")
        told = find_condition(network.status.conditions, ISOLATED)
        assert told is not None
        assert (told.status, told.reason) == ("True", reason), told
        assert bool(found) is (reason != "Guards"), [p.metadata.name for p in found]

    return check


@asynccontextmanager
async def never_bare(nodes: Nodes, space: str) -> AsyncIterator[None]:
    """Require that isolation holds at every moment."""
    task = asyncio.create_task(nodes.watch_isolation(space))
    yield
    task.cancel()
    assert nodes.unguarded == []


async def tenant_space(tenancy: NetworksScenario) -> str:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.default", "Ready"))
    await tenancy.scenario.eventually(isolated(tenancy, space, "GuardsMissing"))
    return space


async def test_policies_go_when_all_nodes_have_a_guard_and_are_back_before_its_rules_go(
    tenancy: NetworksScenario, nodes: Nodes
) -> None:
    space, scenario = await tenant_space(tenancy), tenancy.scenario

    async with never_bare(nodes, space):
        await nodes.start_guard(FIRST)
        await scenario.always(isolated(tenancy, space, "GuardsMissing"), LONG)
        await nodes.start_guard(SECOND)
        await scenario.eventually(isolated(tenancy, space, "Guards"))
        await scenario.always(isolated(tenancy, space, "Guards"), LONG)

        await asyncio.gather(*(nodes.remove_guard(name) for name in (FIRST, SECOND)))

        await isolated(tenancy, space, "GuardsMissing")()
        assert not any(kernel.in_place for kernel in nodes.kernels.values())
        assert not (await tenancy.admin.list(Lease, namespace=GUARDS_NAMESPACE)).objects
        await restart_agent(tenancy, guard=False)
        await scenario.eventually(isolated(tenancy, space, "NetworkPolicies"))


async def guarded_space(tenancy: NetworksScenario, nodes: Nodes) -> str:
    space = await tenant_space(tenancy)
    for name in (FIRST, SECOND):
        await nodes.start_guard(name)
    await tenancy.scenario.eventually(isolated(tenancy, space, "Guards"))
    return space


async def test_restarts_of_guards_and_agents_change_nothing(
    tenancy: NetworksScenario, nodes: Nodes
) -> None:
    space, scenario = await guarded_space(tenancy, nodes), tenancy.scenario

    async def restart_all() -> None:
        for name in (FIRST, SECOND):
            await nodes.stop_guard(name)
            await asyncio.sleep(25)
            await nodes.start_guard(name)
            await asyncio.sleep(25)
        await restart_agent(tenancy, guard=True)
        await asyncio.sleep(60)

    await scenario.settled()
    start = len(scenario.network.sent)
    restarting = asyncio.create_task(restart_all())
    await scenario.always(isolated(tenancy, space, "Guards"), timedelta(seconds=160))
    await restarting
    assert scenario.writes_since(start) == []


async def die(nodes: Nodes) -> None:
    """The guard ends, and nobody starts it again."""
    await nodes.stop_guard(FIRST)


async def hang_on_the_network(nodes: Nodes) -> None:
    nodes.tenancy.scenario.network.cut(f"guard of {FIRST}", HERE)


async def lose_rules(nodes: Nodes) -> None:
    """Somebody flushes all rules, and nftables takes none any more."""
    nodes.kernels[FIRST].in_place, nodes.kernels[FIRST].refuses = False, True


async def reboot(nodes: Nodes) -> None:
    """Kubelet is back before the guard, within the time of its Lease."""
    await nodes.stop_guard(FIRST)
    nodes.kernels[FIRST].in_place = False
    await nodes.report(FIRST, "boot-2")


async def die_without_a_word(nodes: Nodes) -> None:
    """Somebody deletes the Lease of a guard that does not run."""
    await nodes.stop_guard(FIRST)
    await nodes.tenancy.admin.delete(Lease, FIRST, GUARDS_NAMESPACE)


async def add_node(nodes: Nodes) -> None:
    await nodes.add("node-3")


async def bind_to_new_node(nodes: Nodes) -> None:
    """A pod that tolerates everything is bound to a node that is not ready yet."""
    await nodes.add("node-3", ready="False")
    space = f"{nodes.tenancy.tenants[0]}-web"
    await asyncio.sleep(LONG.total_seconds())
    await isolated(nodes.tenancy, space, "Guards")()
    await nodes.tenancy.create_pod(space, "early", "default", nodeName="node-3")


@pytest.mark.parametrize(
    ("fault", "within"),
    [
        (die, 65),
        (hang_on_the_network, 65),
        (lose_rules, 10),
        (reboot, 2),
        (die_without_a_word, 2),
        (add_node, 2),
        (bind_to_new_node, 2),
    ],
)
async def test_policies_are_back_when_a_node_has_no_guard(
    tenancy: NetworksScenario,
    nodes: Nodes,
    fault: Callable[[Nodes], Any],
    within: int,
) -> None:
    space, scenario = await guarded_space(tenancy, nodes), tenancy.scenario

    await fault(nodes)
    back = isolated(tenancy, space, "GuardsMissing")
    await scenario.eventually(back, timedelta(seconds=within))
    await scenario.always(back, timedelta(minutes=3))

    nodes.kernels[FIRST].refuses = False
    scenario.network.heal_all()
    boot = (await tenancy.admin.read(Node, FIRST)).status.node_info.boot_id
    if FIRST not in nodes.guards:
        await nodes.start_guard(FIRST, boot)
    if "node-3" in nodes.kernels:
        await nodes.start_guard("node-3")
    await scenario.eventually(isolated(tenancy, space, "Guards"), timedelta(minutes=2))
    await scenario.settled()


async def test_an_agent_that_starts_over_old_leases_keeps_policies(
    tenancy: NetworksScenario, nodes: Nodes
) -> None:
    """Guards and agent were away: that Leases stand there proves nothing."""
    space, scenario = await guarded_space(tenancy, nodes), tenancy.scenario
    await scenario.kill_agent(HERE)
    for name in (FIRST, SECOND):
        await nodes.stop_guard(name)
    await asyncio.sleep(LONG.total_seconds())

    await scenario.start_agent(HERE)

    await scenario.eventually(isolated(tenancy, space, "GuardsMissing"), timedelta(seconds=5))


async def test_an_agent_that_was_cut_off_decides_by_what_it_sees_then(
    tenancy: NetworksScenario, nodes: Nodes
) -> None:
    space, scenario = await guarded_space(tenancy, nodes), tenancy.scenario
    scenario.network.cut(HERE, HERE)
    await asyncio.sleep(LONG.total_seconds())
    start = len(scenario.network.sent)
    scenario.network.heal(HERE, HERE)

    await scenario.always(isolated(tenancy, space, "Guards"), LONG)
    assert scenario.writes_since(start) == []

    scenario.network.cut(HERE, HERE)
    await nodes.add("node-3")
    await asyncio.sleep(LONG.total_seconds())
    scenario.network.heal(HERE, HERE)
    await scenario.eventually(isolated(tenancy, space, "GuardsMissing"), timedelta(minutes=1))


async def test_rules_stay_as_long_as_a_lease_that_cannot_be_deleted_counts(
    tenancy: NetworksScenario, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards are turned off, which takes their account away, and on again at once."""
    space, scenario = await guarded_space(tenancy, nodes), tenancy.scenario

    async def reject(_: GuardLease) -> None:
        raise BadCredentials("the account is gone")

    monkeypatch.setattr(GuardLease, "_delete", reject)
    async with never_bare(nodes, space):
        await restart_agent(tenancy, guard=False)
        going = [asyncio.create_task(nodes.remove_guard(name)) for name in (FIRST, SECOND)]
        await scenario.eventually(isolated(tenancy, space, "NetworkPolicies"))
        await asyncio.sleep(10)
        await restart_agent(tenancy, guard=True)
        await asyncio.gather(*going)
        await scenario.eventually(isolated(tenancy, space, "GuardsMissing"))


async def test_rules_go_after_a_while_if_no_agent_is_left(
    tenancy: NetworksScenario, nodes: Nodes
) -> None:
    """All was uninstalled at once: nobody writes policies, and pods would reach nothing."""
    await guarded_space(tenancy, nodes)
    await tenancy.scenario.kill_agent(HERE)

    async with asyncio.timeout(90):
        await nodes.remove_guard(FIRST)

    assert not nodes.kernels[FIRST].in_place
