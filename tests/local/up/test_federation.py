"""A local federation in this process, and what its agents reach under faults."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.cli.up.access import generated_access
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import BadCredentials, NotFound, Unreachable
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request, Transport
from hanse.local.up.agents import DialCluster, RunningAgent
from hanse.local.up.control import (
    Cut,
    Heal,
    HealAll,
    Kill,
    Restore,
    Save,
    Slow,
    Start,
    StartAgent,
    StopAgent,
)
from hanse.local.up.embedded import embedded_clusters
from hanse.local.up.errors import UnknownCluster, UpError
from hanse.local.up.federation import LocalFederation, federation
from hanse.local.up.folder import Folder
from hanse.local.up.options import FederationOptions
from hanse.local.up.topology import LocalMember, plan_members
from hanse.model.kinds.core import Namespace, Secret, ServiceAccount
from hanse.model.kinds.federation import CLUSTER_ID, SYSTEM, ClusterClaim, Federation
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from tests.support.builders import namespace

pytestmark = pytest.mark.anyio

NODES = Request("GET", "/api/v1/nodes")
READY = Request("GET", "/readyz")
_SHARED = f"/apis/multicluster.x-k8s.io/v1beta1/namespaces/{BROKER_NAMESPACE}/serviceimports"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/leases"


OWN_LEASE = Request(
    "GET", "/apis/coordination.k8s.io/v1/namespaces/hanse-system/leases/hanse-agent"
)


class Agents:
    """Fake agents that only keep the transports they are given."""

    def __init__(self) -> None:
        self.transports: dict[str, Mapping[str, Transport]] = {}
        self.dials: dict[str, DialCluster] = {}

    @asynccontextmanager
    async def run(
        self, member: LocalMember, access: Mapping[str, ClientConfig], dial: DialCluster
    ) -> AsyncIterator[RunningAgent]:
        transports = {name: dial(name, StaticCredentials(one)) for name, one in access.items()}
        self.transports[member.name] = transports
        self.dials[member.name] = dial
        yield RunningAgent(lambda: dict.fromkeys(transports, "Seen"), "")


class Local:
    """A federation under test, and the transports of its agents."""

    def __init__(self, running: LocalFederation, agents: Agents) -> None:
        self.running = running
        self.transports = agents.transports
        self.dials = agents.dials

    async def reaches(self, source: str, target: str) -> bool:
        """Whether the agent of one cluster reaches another, be it as its administrator."""
        access = self.running.context_of(target).access
        transport = self.dials[source](target, StaticCredentials(access))
        try:
            answer = await transport.send(READY)
        except Unreachable:
            return False
        return answer.status == 200


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio"


@pytest.fixture(scope="module")
async def local(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Local]:
    """One federation for all tests that leave it as they found it."""
    agents = Agents()
    options = FederationOptions(
        plan_members(["lubeck", "hamburg", "bergen"]),
        generated_access(),
        sample=False,
    )
    folder = Folder(tmp_path_factory.mktemp("local"), keep=False)
    async with federation(options, folder, agents.run, lambda _: None) as running:
        yield Local(running, agents)


async def test_each_agent_gets_a_transport_to_its_cluster_and_to_the_broker(local: Local) -> None:
    assert {name: set(transports) for name, transports in local.transports.items()} == {
        "lubeck": {"lubeck", "broker"},
        "hamburg": {"hamburg", "broker"},
        "bergen": {"bergen", "broker"},
    }


@pytest.mark.parametrize(
    ("cluster", "user", "method", "path", "status"),
    [
        ("lubeck", "hanse-system:hanse-agent", "GET", "/api/v1/services", 200),
        ("lubeck", "hanse-system:hanse-agent", "GET", "/api/v1/namespaces/shop/secrets", 403),
        ("lubeck", "hanse-system:hanse-agent", "DELETE", "/api/v1/namespaces/default", 403),
        ("broker", "hanse-broker-accounts:lubeck", "GET", _SHARED, 200),
        ("broker", "hanse-broker-accounts:lubeck", "GET", "/api/v1/secrets", 403),
        ("broker", "hanse-broker-accounts:lubeck", "DELETE", f"{_LEASES}/hamburg", 403),
        ("broker", "hanse-broker-accounts:lubeck", "DELETE", "/api/v1/namespaces/shop", 403),
    ],
)
async def test_agents_have_the_rights_of_a_member_and_no_more(
    local: Local, cluster: str, user: str, method: str, path: str, status: int
) -> None:
    answer = await local.transports["lubeck"][cluster].send(Request(method, path))

    assert answer.status == status, answer.body
    assert (
        status == 200 or f'User \\"system:serviceaccount:{user}\\" cannot'.encode() in answer.body
    )


async def test_supervisors_connect_to_every_member_of_their_federation(local: Local) -> None:
    home = Client(local.transports["lubeck"]["lubeck"])
    found = await home.read(Federation, "local")
    transports = {}
    for member in found.spec.members:
        secret = await home.read(Secret, member.secret, SYSTEM)
        endpoint = ServerEndpoint(member.server, secret.data["ca.crt"])
        access = ClientConfig(endpoint, Identity(token=secret.data["token"].decode()))
        transports[member.cluster_id] = Client(
            local.dials["lubeck"](member.cluster_id, StaticCredentials(access))
        )

    claims = {
        name: await transport.read(ClusterClaim, CLUSTER_ID)
        for name, transport in transports.items()
    }

    assert {name: claim.value for name, claim in claims.items()} == {
        "lubeck": "lubeck",
        "hamburg": "hamburg",
        "bergen": "bergen",
    }


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        pytest.param({"token": "none"}, BadCredentials, id="an unknown token"),
        pytest.param({"ca": b"another"}, Unreachable, id="another authority"),
        pytest.param({"url": "https://127.0.0.1:1"}, Unreachable, id="no server"),
    ],
)
async def test_credentials_are_checked_as_over_https(
    local: Local, changed: dict[str, Any], error: type[Exception]
) -> None:
    home = Client(local.transports["lubeck"]["lubeck"])
    secret = await home.read(Secret, "member-bergen", SYSTEM)
    (entry,) = [
        m for m in (await home.read(Federation, "local")).spec.members if m.cluster_id == "bergen"
    ]
    good = {
        "url": entry.server,
        "ca": secret.data["ca.crt"],
        "token": secret.data["token"].decode(),
        **changed,
    }
    access = ClientConfig(ServerEndpoint(good["url"], good["ca"]), Identity(token=good["token"]))
    transport = Client(local.dials["lubeck"]("bergen", StaticCredentials(access)))

    with pytest.raises(error):
        await transport.read(ClusterClaim, CLUSTER_ID)


async def test_the_federation_of_a_child_names_no_members(local: Local) -> None:
    child = await Client(local.transports["bergen"]["bergen"]).read(Federation, "local")

    assert child.spec.members == ()


async def test_the_status_has_the_cluster_states_of_agents(local: Local) -> None:
    lubeck, hamburg, bergen, broker = local.running.status().clusters

    assert lubeck.sees == {"lubeck": "Seen", "broker": "Seen"}
    assert hamburg.sees == {"hamburg": "Seen", "broker": "Seen"}
    assert bergen.sees == {"bergen": "Seen", "broker": "Seen"}
    assert broker.sees == {}


async def test_a_cut_separates_two_clusters_and_no_others(local: Local) -> None:
    await local.running.execute(Cut("lubeck", "hamburg"))

    assert not await local.reaches("lubeck", "hamburg")
    assert not await local.reaches("hamburg", "lubeck")
    assert await local.reaches("lubeck", "lubeck")
    assert await local.reaches("hamburg", "broker")

    await local.running.execute(Heal("hamburg", "lubeck"))

    assert await local.reaches("lubeck", "hamburg")


async def test_a_killed_cluster_is_reached_by_nobody_until_it_is_started(local: Local) -> None:
    status = await local.running.execute(Kill("broker"))

    assert [one.name for one in status.clusters if not one.running] == ["broker"]
    assert not await local.reaches("lubeck", "broker")
    assert not await local.reaches("bergen", "broker")

    await local.running.execute(Start("broker"))

    assert await local.reaches("bergen", "broker")


async def test_killing_twice_and_starting_twice_is_harmless(local: Local) -> None:
    for order in (Kill("bergen"), Kill("bergen"), Start("bergen"), Start("bergen")):
        status = await local.running.execute(order)

    assert all(one.running for one in status.clusters)


async def test_healing_everything_starts_what_was_killed(local: Local) -> None:
    for order in (Cut("lubeck", "broker"), Kill("hamburg"), Slow("bergen", 5)):
        await local.running.execute(order)

    status = await local.running.execute(HealAll())

    assert status.cuts == ()
    assert all(one.running and not one.delay_milliseconds for one in status.clusters)


@pytest.mark.parametrize("bump", [0, 1_000_000])
async def test_a_saved_cluster_is_restored_with_its_objects_and_versions(
    local: Local, bump: int
) -> None:
    broker = Client(local.running.transport_to("broker"))
    name = f"old-{bump}"
    old = await broker.create(namespace(name))
    await local.running.execute(Save("broker", "monday"))
    await broker.create(namespace("new"))

    status = await local.running.execute(Restore("broker", "monday", bump))

    assert all(one.running for one in status.clusters)
    assert (await broker.read(Namespace, name)).metadata.uid == old.metadata.uid
    with pytest.raises(NotFound):
        await broker.read(Namespace, "new")
    again = await broker.create(namespace(f"again-{bump}"))
    grown = int(again.metadata.resource_version) - int(old.metadata.resource_version)
    assert (grown > 1_000_000) == bool(bump)


async def test_a_backup_that_is_not_there_is_refused_with_those_that_are(local: Local) -> None:
    await local.running.execute(Save("broker", "monday"))

    with pytest.raises(UpError, match="no backup 'friday' of broker; there is: monday"):
        await local.running.execute(Restore("broker", "friday"))
    with pytest.raises(UpError, match="of lubeck; nothing was saved of it"):
        await local.running.execute(Restore("lubeck", "monday"))
    with pytest.raises(UpError, match=r"'\.\./x' cannot be the name of a backup"):
        await local.running.execute(Save("broker", "../x"))


@pytest.mark.parametrize("order", [Kill("rome"), Cut("lubeck", "rome"), Start("rome")], ids=repr)
async def test_a_cluster_that_is_not_there_is_refused(
    local: Local, order: Kill | Cut | Start
) -> None:
    with pytest.raises(
        UnknownCluster, match="no cluster 'rome'; there is: lubeck, hamburg, bergen, broker"
    ):
        await local.running.execute(order)


async def test_a_cluster_cannot_be_cut_from_itself(local: Local) -> None:
    with pytest.raises(UpError, match="the same cluster; to stop it, kill it"):
        await local.running.execute(Cut("lubeck", "lubeck"))


async def test_an_agent_can_be_stopped_and_started_while_its_cluster_runs(local: Local) -> None:
    first = local.transports["bergen"]

    stopped = await local.running.execute(StopAgent("bergen"))
    again = await local.running.execute(StopAgent("bergen"))

    assert stopped == again
    bergen = stopped.clusters[2]
    assert (bergen.name, bergen.agent_running, bergen.running) == ("bergen", False, True)
    assert bergen.sees == {}
    assert all(one.agent_running for one in stopped.clusters[:2])

    started = await local.running.execute(StartAgent("bergen"))
    await local.running.execute(StartAgent("bergen"))

    assert started.clusters[2].agent_running
    assert started.clusters[2].sees == {"bergen": "Seen", "broker": "Seen"}
    assert local.transports["bergen"] is not first


async def test_an_agent_whose_namespace_was_deleted_has_its_account_again_once_it_is_started(
    local: Local,
) -> None:
    client = Client(local.running.transport_to("bergen"))
    await client.delete(Namespace, "hanse-system", "")
    while await find(client, "hanse-system") is not None:  # noqa: ASYNC110 - polls a server
        await asyncio.sleep(0.01)
    lost = await local.transports["bergen"]["bergen"].send(OWN_LEASE)

    await local.running.execute(StopAgent("bergen"))
    await local.running.execute(StartAgent("bergen"))

    assert lost.status == 401
    answer = await local.transports["bergen"]["bergen"].send(OWN_LEASE)
    assert (answer.status, await find(client, "hanse-system") is not None) == (404, True)


async def test_an_agent_whose_account_on_the_broker_was_made_anew_has_a_token_once_it_is_started(
    local: Local,
) -> None:
    client = Client(local.running.transport_to("broker"))
    meta = Meta(name="bergen", namespace="hanse-broker-accounts")
    await client.delete(ServiceAccount, meta.name, meta.namespace)
    await client.create(ServiceAccount(metadata=meta))
    lost = await local.transports["bergen"]["broker"].send(OWN_LEASE)

    await local.running.execute(StopAgent("bergen"))
    await local.running.execute(StartAgent("bergen"))

    assert lost.status == 401
    answer = await local.transports["bergen"]["broker"].send(OWN_LEASE)
    assert answer.status != 401


async def test_healing_everything_starts_stopped_agents(local: Local) -> None:
    await local.running.execute(StopAgent("lubeck"))

    status = await local.running.execute(HealAll())

    assert [one.agent_running for one in status.clusters] == [True, True, True, False]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (StopAgent("broker"), "the broker has no agent"),
        (StartAgent("broker"), "the broker has no agent"),
        (StopAgent("rome"), "there is no cluster 'rome'"),
    ],
)
async def test_an_agent_that_is_not_there_is_refused(
    local: Local, order: StopAgent | StartAgent, message: str
) -> None:
    with pytest.raises(UpError, match=message):
        await local.running.execute(order)


async def test_a_profile_option_replaces_the_saved_profile(
    tmp_path: Path,
) -> None:
    async def profile(option: str | None) -> str:
        agents, folder = Agents(), Folder(tmp_path, keep=True)
        options = FederationOptions(
            plan_members(["rome"]), generated_access(), profile=option, sample=False
        )
        async with federation(options, folder, agents.run, lambda _: None):
            client = Client(agents.transports["rome"]["broker"])
            return (await client.read(ClusterSet, "local")).spec.profile

    assert await profile(None) == "lighthouse"
    assert await profile("kep-1645") == "kep-1645"
    assert await profile(None) == "kep-1645"


async def test_every_write_is_on_disk_when_it_is_answered(tmp_path: Path) -> None:
    agents, folder = Agents(), Folder(tmp_path, keep=True)
    options = FederationOptions(plan_members(["rome"]), generated_access(), sample=False)

    def saved_namespaces() -> set[str]:
        journal = folder.journal("rome")
        saved = journal.load() if journal is not None else None
        return {one["metadata"]["name"] for one in saved.objects["namespaces"]} if saved else set()

    async with federation(options, folder, agents.run, lambda _: None) as running:
        client = Client(running.transport_to("rome"))
        await client.create(namespace("forum"))
        assert "forum" in saved_namespaces()

        await client.delete(Namespace, "forum", "")
        while await find(client, "forum"):  # noqa: ASYNC110 - until its controller is done
            await asyncio.sleep(0.01)
        assert "forum" not in saved_namespaces()


async def find(client: Client, name: str) -> Namespace | None:
    try:
        return await client.read(Namespace, name)
    except NotFound:
        return None


async def test_agents_start_concurrently_and_stop_before_their_clusters(tmp_path: Path) -> None:
    names = ["lubeck", "hamburg", "bergen"]
    together, reached = asyncio.Barrier(len(names)), dict[str, int]()

    @asynccontextmanager
    async def run(
        member: LocalMember, access: Mapping[str, ClientConfig], dial: DialCluster
    ) -> AsyncIterator[RunningAgent]:
        await together.wait()  # agents that start one after another would never get past this
        yield RunningAgent(dict, "")
        home = dial(member.name, StaticCredentials(access[member.name]))
        reached[member.name] = (await home.send(READY)).status

    options, folder = (
        FederationOptions(plan_members(names), generated_access(), sample=False),
        Folder(tmp_path, keep=False),
    )
    async with federation(options, folder, run, lambda _: None) as running:
        assert [one.name for one in running.status().clusters if one.agent_running] == names

    assert reached == dict.fromkeys(names, 200)


async def test_an_agent_that_cannot_start_ends_the_federation_and_the_other_agents(
    tmp_path: Path,
) -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def run(member: LocalMember, *_: object) -> AsyncIterator[RunningAgent]:
        try:
            if member.name == "bergen":
                raise UpError("bergen has no agent")
            yield RunningAgent(dict, "")
        finally:
            ended.append(member.name)

    options = FederationOptions(
        plan_members(["lubeck", "hamburg", "bergen"]), generated_access(), sample=False
    )
    with pytest.raises(ExceptionGroup) as error:
        async with federation(options, Folder(tmp_path, keep=False), run, lambda _: None):
            pytest.fail("bergen has no agent")

    assert sorted(ended) == ["bergen", "hamburg", "lubeck"]
    assert error.group_contains(UpError, match="bergen has no agent")


async def _status(access: ClientConfig) -> int | str:
    """The response status for this access, or the connection error."""
    transport = HttpTransport(StaticCredentials(access))
    try:
        return (await transport.send(NODES)).status
    except Unreachable as error:
        return str(error)
    finally:
        await transport.close()


async def test_kubectl_connects_over_verified_tls_with_a_token(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=False)

    async with embedded_clusters(plan_members(["rome"]), folder) as clusters:
        rome, broker = (clusters[name].context.access for name in ("rome", "broker"))
        status = await _status(rome)
        other_token = await _status(ClientConfig(rome.endpoint, broker.identity))
        other_authority = await _status(
            ClientConfig(replace(rome.endpoint, ca=broker.endpoint.ca), rome.identity)
        )

    assert status == 200
    assert other_token == 401
    assert isinstance(other_authority, str)
    assert "is not trusted" in other_authority
