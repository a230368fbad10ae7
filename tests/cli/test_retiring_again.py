"""A supervisor that leaves its Federation waits for a successor, also if it was killed before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from hanse.app import watches
from hanse.cli.apply import apply, apply_definitions, read_existing
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed
from hanse.cli.join import leaving, participants
from hanse.cli.join.federation import MembershipRequest
from hanse.cli.join.leaving import leave_federation
from hanse.cli.join.supervisor_access import account_owners, revoke_account
from hanse.features.federation import manifests
from hanse.features.federation.other_supervisors import LEAVING
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.lease import format_micro_time, new_lease
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.federation import Federation
from hanse.model.manifests import crd_manifests, manifest
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Meta
from tests.cli.test_abandoning import access
from tests.cli.test_killed_joins import Fleet, Killed
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio

NAMES = ("oslo", "paris", "rome")
SYSTEM = "antrea-plus-system"


@pytest.fixture
async def clients(monkeypatch: pytest.MonkeyPatch) -> dict[str, Client]:
    """Paris and rome supervise; rome has lost its claim and leads oslo still."""
    made = {n: Client(InProcessTransport(ApiServer(n, clock=WallClock()))) for n in NAMES}
    entries = tuple(manifests.member_entry(one, f"https://{one}") for one in NAMES)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    for name, client in made.items():
        await apply_definitions(client, crd_manifests())
        listed = entries if name != "oslo" else ()
        league = manifests.federation_with_members("league", "league", listed)
        claims = manifests.claim_manifests(name, "league", supervisor=name == "paris")
        accounts = [o for s in ("paris", "rome") for o in manifests.account_manifests((), s)]
        await apply(client, [*accounts, *claims, league])
        holder = {"oslo": "rome_agent", "paris": "paris_agent", "rome": ""}[name]
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": now}
        lease = manifest(Lease.kind, name, SYSTEM, body={"spec": spec})
        await apply(client, [lease])

    @asynccontextmanager
    async def connect(cluster: ClusterAccess) -> AsyncIterator[Client]:
        yield made[cluster.name]

    monkeypatch.setattr(participants, "connect", connect)
    monkeypatch.setattr(leaving, "RELEASE_TIMEOUT", timedelta(milliseconds=1))
    return made


async def test_a_supervisor_that_has_lost_its_claim_keeps_its_accounts_while_it_leads(
    clients: dict[str, Client],
) -> None:
    contexts = tuple(access(name, name) for name in NAMES)
    rome, paris = contexts[2], contexts[1]
    request = MembershipRequest("league", "rome", rome, (paris,), contexts=contexts)

    with pytest.raises(CommandFailed, match="rome still leads oslo"):
        await leave_federation(request, dry_run=False)

    assert "rome" in await account_owners(clients["oslo"])


async def test_nothing_is_struck_off_before_another_supervisor_holds_its_lease(
    clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Lease without a holder has been released, and is not yet taken up."""
    await _set_holder(clients["oslo"], "oslo", "paris_agent")

    async with _leaving_rome(clients, monkeypatch):
        await _set_holder(clients["rome"], "rome", "paris_agent")


async def test_nothing_is_struck_off_before_the_agent_reports_that_it_has_handed_over(
    clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart of its agent others lead all members: it has yet to see its lost claim."""
    await _set_holder(clients["oslo"], "oslo", "paris_agent")
    await _set_holder(clients["rome"], "rome", "paris_agent")
    states = [{"clusterID": n, "server": f"https://{n}", "reachable": True} for n in NAMES]
    await _set_status(clients["rome"], members=states)

    async with _leaving_rome(clients, monkeypatch):
        await _set_status(clients["rome"], members=[], retiring=["rome"])
        await asyncio.sleep(0.1)
        assert "rome" in await _members(clients["paris"])
        await _set_status(clients["rome"], members=[], retiring=None)


async def test_a_supervisor_keeps_its_account_in_a_member_until_it_reports_that_it_has_left(
    clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One leader after another releases the Lease of a member that they leave."""
    monkeypatch.setattr(leaving, "RELEASE_TIMEOUT", timedelta(seconds=60))
    monkeypatch.setattr(leaving, "_POLL_INTERVAL", timedelta(milliseconds=1))
    await _set_holder(clients["oslo"], "oslo", "paris_agent")
    await _set_holder(clients["rome"], "rome", "paris_agent")
    await _set_status(clients["paris"], members=[{"clusterID": "oslo", "leaving": True}])
    renewed = format_micro_time(datetime.now(UTC))
    spec = LeaseSpec(holder_identity="paris_a", lease_duration_seconds=60, renew_time=renewed)
    await clients["paris"].create(Namespace(metadata=Meta(name=SYSTEM_NAMESPACE)))
    await clients["paris"].create(new_lease(SYSTEM_NAMESPACE, AGENT, spec))
    contexts = tuple(access(name, name) for name in NAMES)
    request = MembershipRequest("league", "oslo", contexts[0], (contexts[1],), contexts=contexts)

    leave = asyncio.create_task(leave_federation(request, dry_run=False))
    while "oslo" in await _members(clients["paris"]):  # noqa: ASYNC110 - another program writes it
        await asyncio.sleep(0.01)
    await _set_holder(clients["oslo"], "oslo", "")
    await asyncio.sleep(0.1)
    kept = await account_owners(clients["oslo"])
    await _set_status(clients["paris"], members=[])
    await leave

    assert "paris" in kept
    assert "paris" not in await account_owners(clients["oslo"])


async def test_an_interrupted_leave_finds_supervisors_that_have_forgotten_the_cluster(
    clients: dict[str, Client],
) -> None:
    """They have struck it off and given its Lease back: nothing else names them there."""
    await _set_holder(clients["oslo"], "oslo", "paris_agent")
    contexts = tuple(access(name, name) for name in NAMES)
    request = MembershipRequest("league", "oslo", contexts[0], (), contexts=contexts)
    with pytest.raises(CommandFailed):
        await leave_federation(request, dry_run=False)
    assert "oslo" not in await _members(clients["paris"])
    await _set_holder(clients["oslo"], "oslo", "")
    await _set_status(clients["paris"], members=[])

    await leave_federation(request, dry_run=False)

    assert (
        await read_existing(clients["oslo"], manifests.federation("league", "league", {})) is None
    )


@asynccontextmanager
async def _leaving_rome(
    clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Let rome leave: it is struck off only after the block, and then its Lease is released.

    Meanwhile its Federation says that it leaves, in case the command is killed.
    """
    monkeypatch.setattr(leaving, "RELEASE_TIMEOUT", timedelta(seconds=60))
    monkeypatch.setattr(leaving, "_POLL_INTERVAL", timedelta(milliseconds=1))
    contexts = tuple(access(name, name) for name in NAMES)
    request = MembershipRequest("league", "rome", contexts[2], (contexts[1],), contexts=contexts)
    leave = asyncio.create_task(leave_federation(request, dry_run=False))
    await asyncio.sleep(0.3)
    assert "rome" in await _members(clients["paris"])
    assert LEAVING in (await clients["rome"].read(Federation, "league")).metadata.annotations
    yield
    while "rome" in await _members(clients["paris"]):  # noqa: ASYNC110 - another program writes it
        await asyncio.sleep(0.01)
    await _set_holder(clients["rome"], "rome", "")
    await leave


async def _set_status(client: Client, **fields: object) -> None:
    await client.patch(Federation, "league", "", {"status": fields}, subresource="status")


async def _set_holder(client: Client, cluster: str, holder: str) -> None:
    await client.patch(Lease, cluster, SYSTEM, {"spec": {"holderIdentity": holder}})


async def _members(client: Client) -> list[str]:
    found = await client.read(Federation, "league")
    return [member.cluster_id for member in found.spec.members]


async def test_an_account_whose_revocation_was_killed_is_found_and_revoked_by_another() -> None:
    rules = manifests.rules_for(watches(), "oslo", "rome")
    granted = [m for m in manifests.account_manifests(rules, "rome") if m.kind.name != "Namespace"]
    for requests in range(2 * len(granted)):
        fleet = Fleet()
        fleet.add("oslo")
        member = fleet.client("oslo")
        await apply(member, manifests.account_manifests(rules, "rome"))

        fleet.left = requests
        async with fleet.connect(access("oslo", "oslo")) as mortal:
            with pytest.raises(Killed):
                await revoke_account(mortal, "oslo", "rome", dry_run=False)
        for owner in await account_owners(member):
            await revoke_account(member, "oslo", owner, dry_run=False)

        left = [m for m in granted if await read_existing(member, m) is not None]
        assert not left, f"killed at request {requests}: {', '.join(map(str, left))}"
