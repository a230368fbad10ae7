"""Connecting, contending for and leaving members as connection sources desire."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from hanse.kube.errors import BadCredentials, NotFound
from hanse.kube.lease import LeaseTimings
from hanse.kube.transport import Request
from hanse.local.in_process import InProcessTransport
from hanse.model.connections import (
    AbandonedCluster,
    ClusterConnection,
    ConnectionIntent,
    KubeconfigCredentials,
    ReleasedCluster,
    ServerCredentials,
)
from hanse.model.facts import InvalidConnection, Leadership, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot, Watch
from hanse.runtime.api import ClusterClient
from hanse.runtime.connection_reconciler import ConnectionReconciler
from hanse.runtime.desired_connections import client_config
from hanse.runtime.leader_election import LeaderElections
from hanse.runtime.leaving import leave
from hanse.runtime.reconciler import Reconciler
from tests.runtime.toy_world import SHOP, LeaderFeature
from tests.support.builders import configmap, namespace
from tests.support.faults import Link, LinkFaults
from tests.support.world import World
from tinykube.virtual_time import ON_VIRTUAL_TIME

TERMS = LeaseTimings(
    lease_duration=timedelta(seconds=15),
    renew_deadline=timedelta(seconds=10),
    retry_period=timedelta(seconds=2),
)


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class Closable(InProcessTransport):
    """A transport that records whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def supervised_world(
    *names: str, feature: type[LeaderFeature] = LeaderFeature
) -> AsyncIterator[World]:
    """Clusters without agents, where laws are made at home and given to the child."""
    world = World((*names, "child"), lambda: (feature(),))
    for name in world.names:
        await world.client(name).create(namespace(SHOP))
    await world.client("child").create(namespace(SYSTEM))
    for name in names:
        await world.client(name).create(configmap("law", SHOP, of="all"))
    yield world


@asynccontextmanager
async def supervising(world: World, name: str) -> AsyncIterator[tuple[Reconciler, LeaderElections]]:
    """A supervisor that stands in the child."""
    reconciler = world.reconciler(name)
    reconciler.informers.join("child", {Role.MEMBER}, world.api(name, "child"))
    elections = LeaderElections(
        reconciler.informers, f"{name}_1", clock=world.clock, random=world.random, timings=TERMS
    )
    reconciler.set_fence(elections)
    async with reconciler.running(), elections.running():
        elections.contend("child", world.client("child"))
        yield reconciler, elections


async def test_joining_a_connected_cluster_closes_the_api_that_it_replaces() -> None:
    async with supervised_world("lubeck") as world, supervising(world, "lubeck") as (reconciler, _):
        first, second = Closable(world.clusters["child"]), Closable(world.clusters["child"])
        reconciler.informers.join("child", {Role.MEMBER, Role.LED}, ClusterClient(first))
        await asyncio.sleep(5)

        reconciler.informers.join("child", {Role.MEMBER, Role.LED}, ClusterClient(second))
        await asyncio.sleep(5)

        assert first.closed
        assert not second.closed
        assert reconciler.snapshot().synced("child")


async def test_contending_twice_for_a_member_is_contending_once() -> None:
    async with (
        supervised_world("lubeck") as world,
        supervising(world, "lubeck") as (reconciler, elections),
    ):
        await asyncio.sleep(5)
        elections.contend("child", world.client("child"))
        await asyncio.sleep(5)

        lead = reconciler.informers.facts.get(Leadership, "child")
        await elections.resign("child")
        await asyncio.sleep(30)
        lease = await world.client("child").read(Lease, "child", SYSTEM)

        assert lead is not None
        assert lead.ours
        assert lease.spec.holder_identity == ""


async def test_a_resignation_that_is_cancelled_keeps_nobody_from_contending_again() -> None:
    async with (
        supervised_world("lubeck") as world,
        supervising(world, "lubeck") as (reconciler, elections),
    ):
        await asyncio.sleep(5)
        resignation = asyncio.create_task(elections.resign("child"), name="resign")
        await asyncio.sleep(0)  # it waits for the elector to release the Lease
        resignation.cancel()
        await asyncio.wait({resignation})

        elections.contend("child", world.client("child"))
        await asyncio.sleep(30)

        lead = reconciler.informers.facts.get(Leadership, "child")
        assert lead is not None
        assert lead.ours
        assert elections.may_write("child")


async def test_who_follows_leaves_at_once_and_what_the_leader_wrote_stays() -> None:
    async with (
        supervised_world("lubeck", "hamburg") as world,
        supervising(world, "lubeck") as (_, __),
    ):
        await asyncio.sleep(5)
        async with supervising(world, "hamburg") as (follower, elections):
            await asyncio.sleep(20)

            async with asyncio.timeout(60):
                await leave(follower, "child", lambda: elections.resign("child"))

            law = await world.client("child").read(ConfigMap, "law", SHOP)
            assert law.data == {"of": "all"}
            assert "child" not in follower.informers.connections


async def test_a_leader_that_leaves_withdraws_what_it_wrote_and_gives_its_lease_back() -> None:
    async with (
        supervised_world("lubeck") as world,
        supervising(world, "lubeck") as (reconciler, elections),
    ):
        await asyncio.sleep(10)
        assert (await world.client("child").read(ConfigMap, "law", SHOP)).data == {"of": "all"}

        async with asyncio.timeout(60):
            await leave(reconciler, "child", lambda: elections.resign("child"))

        with pytest.raises(NotFound):
            await world.client("child").read(ConfigMap, "law", SHOP)
        lease = await world.client("child").read(Lease, "child", SYSTEM)
        assert lease.spec.holder_identity == ""


async def test_a_member_is_not_left_to_a_leader_that_has_resigned() -> None:
    async with (
        supervised_world("lubeck") as world,
        supervising(world, "lubeck") as (reconciler, elections),
    ):
        await elections.resign("child")
        reconciler.informers.put_fact(Leadership("child", "hamburg_1", 1, ours=False))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await leave(reconciler, "child")

        assert "child" in reconciler.informers.connections


class MemberReader(LeaderFeature):
    """Also reads Namespaces of members, whether it leads them or not."""

    watches = (*LeaderFeature.watches, Watch(Role.MEMBER, Namespace))


async def test_who_becomes_the_leader_while_it_leaves_withdraws_what_the_last_one_wrote() -> None:
    async def take_long(_: Link, __: Request) -> None:
        await asyncio.sleep(10)

    async with (
        supervised_world("lubeck", "hamburg", feature=MemberReader) as world,
        supervising(world, "hamburg") as (follower, elections),
    ):
        async with supervising(world, "lubeck") as (leader, _):
            await elections.resign("child")
            await asyncio.sleep(30)
            leadership = leader.informers.facts.get(Leadership, "child")
            assert leadership is not None
            assert leadership.ours
            elections.contend("child", world.client("child"))
            await asyncio.sleep(5)
            world.network.link("hamburg", "child").faults = LinkFaults(late="namespaces")
            world.network.before_write = take_long
            leaving = asyncio.create_task(
                leave(follower, "child", lambda: elections.resign("child")), name="leave"
            )
            await asyncio.sleep(1)

        async with asyncio.timeout(60):
            await leaving

        with pytest.raises(NotFound):
            await world.client("child").read(ConfigMap, "law", SHOP)


def _kubeconfig(user: str, cluster: str = "server: https://bergen.example:6443") -> bytes:
    return f"""
contexts: [{{name: bergen, context: {{cluster: bergen, user: agent}}}}]
clusters: [{{name: bergen, cluster: {{{cluster}}}}}]
users: [{{name: agent, user: {{{user}}}}}]
""".encode()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param(
            _kubeconfig("exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}"),
            "exec",
            id="a program to run",
        ),
        pytest.param(_kubeconfig("auth-provider: {name: gcp}"), "auth-provider", id="a provider"),
        pytest.param(_kubeconfig("tokenFile: /etc/passwd"), "tokenFile", id="a file of ours"),
        pytest.param(
            _kubeconfig(
                "token: t", "server: https://bergen.example:6443, proxy-url: http://evil.example"
            ),
            "proxy-url",
            id="a proxy",
        ),
    ],
)
def test_a_kubeconfig_out_of_a_secret_uses_nothing_of_this_machine(text: bytes, field: str) -> None:
    with pytest.raises(BadCredentials, match=field):
        client_config(KubeconfigCredentials(text, "bergen", "Secret gslb-config-secret"))


def test_secrets_never_show_in_credentials() -> None:
    direct = ServerCredentials("https://bergen.example:6443", token="hush")
    text = KubeconfigCredentials(b"token: hush", "bergen", "a Secret")

    assert "hush" not in f"{direct!r}{text!r}"


class Confused:
    """A connection source that fails on what it reads."""

    name = "confused"
    watches: tuple[Watch, ...] = (Watch(Role.LOCAL, ConfigMap),)
    source_kinds: tuple[type[Object], ...] = (ConfigMap,)

    def connection_intents(self, snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
        raise ValueError("a sign that nobody can read")


async def test_a_connection_source_that_fails_ends_neither_the_agent_nor_its_connections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        supervised_world("lubeck") as world,
        supervising(world, "lubeck") as (reconciler, elections),
    ):
        home = world.client("lubeck")
        connections = ConnectionReconciler(
            reconciler, elections, home, [Confused()], random=world.random
        )
        async with connections.running():
            await home.create(configmap("sign", SHOP, text="?"))
            await asyncio.sleep(30)

            assert "child" in reconciler.informers.connections
            assert "connection source failed" in caplog.text


class SlowToClose(Closable):
    """A transport whose connections take a second to close."""

    async def close(self) -> None:
        await asyncio.sleep(1)
        await super().close()


class OneMember:
    """A connection source that names, releases or abandons the child, as ConfigMaps say.

    Or names it by an entry that is invalid.
    """

    name = "one"
    watches: tuple[Watch, ...] = (Watch(Role.LOCAL, ConfigMap),)
    source_kinds: tuple[type[Object], ...] = (ConfigMap,)

    def connection_intents(self, snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
        child = ServerCredentials("https://child.example")
        intents: dict[str, ConnectionIntent] = {
            "named": ClusterConnection("child", frozenset({Role.MEMBER}), child),
            "led": ClusterConnection("child", frozenset({Role.MEMBER}), child, runs_election=True),
            "released": ReleasedCluster("child"),
            "invalid": InvalidConnection("one", "child", "secret", "SecretMissing", "it is gone"),
            "abandoned": AbandonedCluster("child"),
        }
        here = snapshot.local
        return tuple(i for name, i in intents.items() if snapshot.get(here, ConfigMap, name, SHOP))


@pytest.mark.parametrize(("says", "connected"), [("named", True), ("abandoned", False)])
async def test_a_cluster_is_named_again_or_abandoned_while_its_connection_closes(
    says: str, connected: bool
) -> None:
    world = World(("lubeck", "child"), lambda: (LeaderFeature(),))
    home, reconciler = world.client("lubeck"), world.reconciler("lubeck")
    await home.create(namespace(SHOP))
    elections = LeaderElections(
        reconciler.informers, "lubeck_1", clock=world.clock, random=world.random
    )
    connections = ConnectionReconciler(
        reconciler,
        elections,
        home,
        [OneMember()],
        new_transport=lambda cluster, _: SlowToClose(world.clusters[cluster]),
        random=world.random,
    )
    async with reconciler.running(), elections.running(), connections.running():
        await home.create(configmap("named", SHOP))
        await asyncio.sleep(5)
        await home.delete(ConfigMap, "named", SHOP)
        while "child" in reconciler.informers.connections:  # noqa: ASYNC110 - it is being left
            await asyncio.sleep(0.1)

        await home.create(configmap(says, SHOP))
        await asyncio.sleep(5)

        assert ("child" in reconciler.informers.connections) is connected
        assert ("child" in connections.managed) is connected


async def test_a_replica_that_takes_over_connects_to_no_cluster_that_is_not_named_any_more() -> (
    None
):
    """Its watch is late: the replica before has left that cluster."""
    world = World(("lubeck", "child"), lambda: (LeaderFeature(),))
    home, reconciler = world.client("lubeck"), world.reconciler("lubeck")
    await home.create(namespace(SHOP))
    await home.create(configmap("named", SHOP))
    connected: list[str] = []

    def connect(cluster: str, _: object) -> InProcessTransport:
        connected.append(cluster)
        return InProcessTransport(world.clusters[cluster])

    elections = LeaderElections(
        reconciler.informers, "lubeck_1", clock=world.clock, random=world.random
    )
    connections = ConnectionReconciler(
        reconciler, elections, home, [OneMember()], new_transport=connect, random=world.random
    )
    async with reconciler.running(active=False), elections.running(), connections.running():
        await asyncio.sleep(5)
        late = LinkFaults(lag=timedelta(seconds=8), lags="configmaps")
        world.network.link("lubeck", "lubeck").faults = late
        await home.delete(ConfigMap, "named", SHOP)

        reconciler.informers.relist_for_leader("lubeck", {Role.LOCAL})
        reconciler.activate()
        connections.enqueue()
        await asyncio.sleep(60)

        assert connected == []
        await home.create(configmap("named", SHOP))
        await asyncio.sleep(60)
        assert connected == ["child"]


@asynccontextmanager
async def connecting(world: World) -> AsyncIterator[Reconciler]:
    """Lubeck connects to the child as ConfigMaps say, and leads it."""
    home, reconciler = world.client("lubeck"), world.reconciler("lubeck")
    elections = LeaderElections(
        reconciler.informers, "lubeck_1", clock=world.clock, random=world.random, timings=TERMS
    )
    reconciler.set_fence(elections)
    connections = ConnectionReconciler(
        reconciler,
        elections,
        home,
        [OneMember()],
        new_transport=lambda cluster, _: InProcessTransport(world.clusters[cluster]),
        random=world.random,
    )
    async with reconciler.running(), elections.running(), connections.running():
        await home.create(configmap("led", SHOP))
        await asyncio.sleep(10)
        assert (await world.client("child").read(ConfigMap, "law", SHOP)).data == {"of": "all"}
        yield reconciler


async def test_a_member_that_nobody_takes_over_any_more_is_left_by_who_has_resigned() -> None:
    async with supervised_world("lubeck") as world, connecting(world) as reconciler:
        home, child = world.client("lubeck"), world.client("child")
        await home.create(configmap("released", SHOP))
        await home.delete(ConfigMap, "led", SHOP)
        await asyncio.sleep(5)
        assert (await child.read(Lease, "child", SYSTEM)).spec.holder_identity == ""

        await home.delete(ConfigMap, "released", SHOP)
        await asyncio.sleep(30)

        assert "child" not in reconciler.informers.connections
        with pytest.raises(NotFound):
            await child.read(ConfigMap, "law", SHOP)


async def test_a_member_whose_entry_is_invalid_before_it_is_handed_over_is_led_again() -> None:
    async with supervised_world("lubeck") as world, connecting(world) as reconciler:
        home, child = world.client("lubeck"), world.client("child")
        law = await child.read(ConfigMap, "law", SHOP)
        await home.create(configmap("released", SHOP))
        await home.delete(ConfigMap, "led", SHOP)
        await asyncio.sleep(5)
        assert (await child.read(Lease, "child", SYSTEM)).spec.holder_identity == ""

        await home.create(configmap("invalid", SHOP))
        await home.delete(ConfigMap, "released", SHOP)
        await asyncio.sleep(30)

        assert "child" in reconciler.informers.connections
        assert (await child.read(ConfigMap, "law", SHOP)).metadata.uid == law.metadata.uid
        assert (await child.read(Lease, "child", SYSTEM)).spec.holder_identity == "lubeck_1"


@pytest.mark.parametrize("is_left", [False, True])
async def test_an_invalid_entry_keeps_a_member_that_is_being_left_and_connects_none(
    is_left: bool,
) -> None:
    async with supervised_world("lubeck") as world, connecting(world) as reconciler:
        home, child = world.client("lubeck"), world.client("child")
        held = {"metadata": {"finalizers": [] if is_left else ["example.org/archive"]}}
        await child.patch(ConfigMap, "law", SHOP, held)
        await home.delete(ConfigMap, "led", SHOP)
        await asyncio.sleep(10)

        await home.create(configmap("invalid", SHOP))
        await asyncio.sleep(10)
        if not is_left:
            await child.patch(ConfigMap, "law", SHOP, {"metadata": {"finalizers": None}})
        await asyncio.sleep(10)

        assert ("child" in reconciler.informers.connections) is not is_left
