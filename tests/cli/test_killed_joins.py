"""`hanse leave` of a broker is killed at every request, `hanse join` at some; both are repeated."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.cli import leave_broker as leaving
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import InputError
from hanse.cli.join import broker as joining
from hanse.cli.join.broker import BrokerJoin, init_broker, join_broker
from hanse.cli.leave_broker import BrokerLeave, leave_broker, list_derived
from hanse.cli.member_records import MemberPlace, list_prepared, list_published, set_phase
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Credentials, ServerEndpoint, StaticCredentials
from hanse.kube.clock import WallClock
from hanse.kube.errors import NotFound
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.core import Secret
from hanse.model.kinds.hanse import ClusterMember
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio

SPACE = "league"
ROME = MemberPlace("broker", SPACE, "rome")


class Killed(BaseException):
    """The process of a command is gone."""


class Fleet:
    """API servers, and commands whose process can be killed at a request."""

    def __init__(self) -> None:
        self.servers = {name: ApiServer(name, clock=WallClock()) for name in ("broker", "rome")}
        self.left: int | None = None
        """How many more requests a command sends before it is killed; None: it is not."""

    def client(self, name: str) -> Client:
        return Client(InProcessTransport(self.servers[name]))

    def add(self, name: str) -> None:
        self.servers[name] = ApiServer(name, clock=WallClock())

    @asynccontextmanager
    async def connect(self, cluster: ClusterAccess) -> AsyncIterator[Client]:
        yield Client(_Mortal(self, cluster.name))

    @asynccontextmanager
    async def open_client(self, credentials: Credentials) -> AsyncIterator[Client]:
        config = await credentials.config()
        name = config.endpoint.url.removeprefix("https://")
        user = self.servers[name].authenticate(config.identity.token)
        assert user is not None, "no command sends a token that is rejected"
        yield Client(InProcessTransport(self.servers[name], user))

    async def act(self) -> None:
        """What the agent of rome does when it reads that it is to leave."""
        with suppress(NotFound):
            record = await self.client("broker").read(ClusterMember, "rome", SPACE)
            if record.status.phase == "Leaving":
                await set_phase(self.client("broker"), record, "Left")


class _Mortal(InProcessTransport):
    """A transport of a command that is killed after some requests."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        super().__init__(fleet.servers[name])
        self._fleet = fleet

    async def send(self, request: Request) -> Response:
        if self._fleet.left == 0:
            raise Killed
        if self._fleet.left is not None:
            self._fleet.left -= 1
        answer = await super().send(request)
        await self._fleet.act()
        return answer


def access(name: str) -> ClusterAccess:
    return ClusterAccess(name, StaticCredentials(ClientConfig(ServerEndpoint(f"https://{name}"))))


def join(cluster: str = "rome", broker: str = "broker") -> BrokerJoin:
    week = timedelta(days=7)
    return BrokerJoin(cluster, access("rome"), access(broker), SPACE, "", week)


LEAVE = BrokerLeave(ROME, access("broker"), access("rome"))


@pytest.fixture
async def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A broker, and rome, which has not joined it."""
    made = Fleet()

    async def in_force(*_: object) -> None:
        return

    for module in (joining, leaving):
        monkeypatch.setattr(module, "connect", made.connect)
    monkeypatch.setattr(joining, "open_client", made.open_client)
    monkeypatch.setattr(joining, "await_policies_in_force", in_force)
    await init_broker(access("broker"), SPACE, None, dry_run=False)
    return made


async def killed(fleet: Fleet, command: Callable[[], object], after: int) -> bool:
    """Run a command that is killed after so many requests; whether that was before its end."""
    fleet.left = after
    try:
        await command()  # type: ignore[misc]  # a coroutine function
    except Killed:
        return True
    finally:
        fleet.left = None
    return False


async def test_a_join_that_was_killed_several_times_is_completed_by_another(fleet: Fleet) -> None:
    at = 0
    while await killed(fleet, lambda: join_broker(join(), dry_run=False), at):
        at += 7
        if at > 30:  # the next one begins anew
            await join_broker(join(), dry_run=False)
            await _check_joined(fleet)
            await leave_broker(LEAVE, dry_run=False)
            await _check_left(fleet)
    await _check_joined(fleet)


@pytest.mark.parametrize("step", range(3))
async def test_a_leave_that_was_killed_at_any_request_is_completed_by_another(
    fleet: Fleet, step: int
) -> None:
    await join_broker(join(), dry_run=False)
    at = step
    while await killed(fleet, lambda: leave_broker(LEAVE, dry_run=False), at):
        await leave_broker(LEAVE, dry_run=False)
        await _check_left(fleet)
        await join_broker(join(), dry_run=False)
        await _check_joined(fleet)
        at += 3
    await _check_left(fleet)


async def _check_joined(fleet: Fleet) -> None:
    """Rome has a Secret whose token the broker accepts, and a record that says Joining."""
    record = await fleet.client("broker").read(ClusterMember, "rome", SPACE)
    assert record.status.phase == "Joining"
    assert await list_prepared(fleet.client("broker"), ROME)
    assert not await _changes(fleet)


async def _changes(fleet: Fleet) -> list[str]:
    """The clusters in which another join would write."""
    before = {name: server.storage.version for name, server in fleet.servers.items()}
    await join_broker(join(), dry_run=False)
    return [n for n, server in fleet.servers.items() if server.storage.version != before[n]]


async def _check_left(fleet: Fleet) -> None:
    """Nothing of rome is left on the broker but its record, and nothing of the broker in rome."""
    broker = fleet.client("broker")
    assert (await broker.read(ClusterMember, "rome", SPACE)).status.phase == "Left"
    assert not await list_prepared(broker, ROME)
    assert not await list_published(broker, ROME)
    assert not await list_derived(fleet.client("rome"), SPACE)


async def test_a_leave_that_is_repeated_after_another_join_leaves_the_new_broker_alone(
    fleet: Fleet,
) -> None:
    fleet.add("new")
    await init_broker(access("new"), SPACE, None, dry_run=False)
    await join_broker(join(), dry_run=False)
    at = 0
    while not await _has_left(fleet):  # killed as soon as the agent has withdrawn everything
        assert await killed(fleet, lambda: leave_broker(LEAVE, dry_run=False), at)
        at += 1
    await join_broker(join(broker="new"), dry_run=False)

    await leave_broker(LEAVE, dry_run=False)

    secret = await fleet.client("rome").read(Secret, "hanse-broker", "hanse-system")
    assert b"https://new" in secret.data["kubeconfig"]
    assert not await list_prepared(fleet.client("broker"), ROME)


async def test_leaving_one_namespace_of_a_broker_keeps_the_secret_of_another(fleet: Fleet) -> None:
    await init_broker(access("broker"), "other", None, dry_run=False)
    wrong = replace(join(), namespace="other")
    await join_broker(wrong, dry_run=False)
    await join_broker(join(), dry_run=False)

    left = BrokerLeave(MemberPlace("broker", "other", "rome"), access("broker"), access("rome"))
    await leave_broker(left, dry_run=False)

    secret = await fleet.client("rome").read(Secret, "hanse-broker", "hanse-system")
    assert SPACE.encode() in secret.data["kubeconfig"]
    assert not await list_prepared(fleet.client("broker"), left.place)


async def _has_left(fleet: Fleet) -> bool:
    record = await fleet.client("broker").read(ClusterMember, "rome", SPACE)
    return record.has_left


async def test_a_join_under_a_wrong_id_that_was_killed_is_named_and_can_be_undone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "WITHDRAWAL_TIMEOUT", timedelta())
    at = 0
    while not (record := await _record(fleet, "roma")):
        assert await killed(fleet, lambda: join_broker(join("roma"), dry_run=False), at)
        at += 1
    assert record.spec.cluster_id == "roma"

    with pytest.raises(InputError, match="--cluster-id roma"):
        await join_broker(join(), dry_run=False)
    wrong = MemberPlace("broker", SPACE, "roma")
    await leave_broker(BrokerLeave(wrong, access("broker"), access("rome")), dry_run=False)
    await join_broker(join(), dry_run=False)

    await _check_joined(fleet)


async def _record(fleet: Fleet, cluster: str) -> ClusterMember | None:
    with suppress(NotFound):
        return await fleet.client("broker").read(ClusterMember, cluster, SPACE)
    return None
