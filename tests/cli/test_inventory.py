"""The inventory of a cluster, and of one that cannot be read."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from hanse.cli.clusters import ClusterAccess, ReadFailure
from hanse.cli.doctor.clusters import CheckContext, check_clusters
from hanse.cli.fleet import ClusterRead
from hanse.cli.inventory import (
    ClusterInventory,
    NodeCounts,
    UnreadCluster,
    agent_lease_at,
    credentials_expiry,
    read_access,
    read_inventories,
    read_version,
    unread_cluster,
)
from hanse.cli.permissions import Permission
from hanse.kube.certificates import CertificateAuthority
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, StaticCredentials
from hanse.kube.server_tls import replace_certificate
from hanse.local.up.embedded import EmbeddedCluster, embedded_clusters
from hanse.local.up.folder import Folder
from hanse.local.up.topology import plan_members
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.core import Namespace
from hanse.model.objects import Meta
from tests.support.fleet_reads import NOW, lease

pytestmark = pytest.mark.anyio


@pytest.fixture
async def rome(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with embedded_clusters(plan_members(["rome"]), Folder(tmp_path, keep=False)) as clusters:
        yield clusters["rome"]


def _access(access: ClientConfig) -> ClusterAccess:
    return ClusterAccess("rome", StaticCredentials(access))


async def _renewed(rome: EmbeddedCluster, ago: timedelta) -> None:
    """An agent that last said something that long ago."""
    client = Client(rome.connect())
    await client.create(Namespace(metadata=Meta(name="hanse-system")))
    renewed = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = LeaseSpec(holder_identity="rome_0", lease_duration_seconds=15, renew_time=renewed)
    meta = LeaseMeta(name="hanse-agent", namespace="hanse-system")
    await client.create(Lease(metadata=meta, spec=spec))


async def test_an_empty_cluster_is_seen_as_it_is(rome: EmbeddedCluster) -> None:
    (inventory,) = await read_inventories(
        [_access(rome.context.access)], [Permission("list", "services")]
    )

    assert isinstance(inventory, ClusterInventory)
    assert inventory.server == rome.url
    assert inventory.version.startswith("v1.")
    assert inventory.nodes == NodeCounts(3, 3)
    assert inventory.agent is None
    assert inventory.definitions == {}
    assert inventory.denied == ()
    assert not inventory.is_broker


async def test_a_certificate_that_ends_in_three_days_is_found_by_connecting(
    rome: EmbeddedCluster,
) -> None:
    issued = datetime.now(UTC).replace(microsecond=0) - timedelta(days=362, minutes=-1)
    replace_certificate(rome._tls, rome._authority.server("rome", now=issued))

    inventories = await read_inventories([_access(rome.context.access)])

    found = check_clusters(inventories, CheckContext(datetime.now(UTC), ()))
    assert [(one.cluster, one.code) for one in found] == [("rome", "CertificateExpiring")]
    end = issued + timedelta(days=365)
    assert f"ends in 3 days, on {end:%Y-%m-%d %H:%M} UTC" in found[0].problem


@pytest.mark.parametrize(
    ("written", "alive"), [(3, True), (60, False)], ids=["renewed", "not renewed"]
)
@pytest.mark.parametrize("clock", [timedelta(0), timedelta(hours=3), timedelta(hours=-3)], ids=str)
def test_an_agent_is_alive_by_its_api_servers_clock(
    written: int, alive: bool, clock: timedelta
) -> None:
    renewed = written - clock.total_seconds()

    found = agent_lease_at(lease("hanse-agent", "hanse-system", "a", renewed, written=written), NOW)

    assert found is not None
    assert found.alive is alive


@pytest.mark.parametrize("seconds", [3, 60, -60])
async def test_an_agent_is_alive_while_it_renews_its_lease(
    rome: EmbeddedCluster, seconds: int
) -> None:
    await _renewed(rome, timedelta(seconds=seconds))

    (inventory,) = await read_inventories([_access(rome.context.access)])

    assert isinstance(inventory, ClusterInventory)
    assert inventory.agent is not None
    assert inventory.agent.holder == "rome_0"
    assert inventory.agent.alive


async def test_clocks_of_one_machine_do_not_differ(rome: EmbeddedCluster) -> None:
    (inventory,) = await read_inventories([_access(rome.context.access)])

    assert isinstance(inventory, ClusterInventory)
    assert abs(inventory.skew) < timedelta(seconds=1)


async def test_of_a_cluster_that_refuses_a_token_the_answer_is_known(rome: EmbeddedCluster) -> None:
    access = replace(rome.context.access, identity=Identity(token="wrong"))

    assert await read_inventories([_access(access)]) == [UnreadCluster("rome", "Unauthorized")]


async def test_a_cluster_that_is_gone_hides_no_other(rome: EmbeddedCluster) -> None:
    access = rome.context.access
    nowhere = replace(access, endpoint=replace(access.endpoint, url="https://127.0.0.1:1"))

    gone, there = await read_inventories([_access(nowhere), _access(access)])

    assert gone == UnreadCluster("rome", "cannot connect to 127.0.0.1:1: connection refused")
    assert isinstance(there, ClusterInventory)


def test_of_a_cluster_that_takes_too_long_the_reason_is_known() -> None:
    assert unread_cluster(ReadFailure("rome", TimeoutError())).why == "no answer in time"


def _token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


END = datetime(2026, 8, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("token", "expires"),
    [
        pytest.param(_token({"exp": END.timestamp()}), END, id="it says when"),
        pytest.param(_token({"sub": "someone"}), None, id="it does not say"),
        pytest.param(_token([1]), None, id="no claims"),
        pytest.param("header.%%%.signature", None, id="no base64"),
        pytest.param("opaque", None, id="no web token"),
        pytest.param("", None, id="none"),
    ],
)
def test_a_token_is_asked_when_it_ends(token: str, expires: datetime | None) -> None:
    assert credentials_expiry(Identity(token=token)) == expires


def test_a_certificate_is_asked_when_it_ends() -> None:
    now = datetime(2026, 7, 1, tzinfo=UTC)
    issued = CertificateAuthority.create("local", now).client("someone", now=now)

    identity = Identity(certificate=issued.certificate, key=issued.key)

    assert credentials_expiry(identity) == now + timedelta(days=365)
    assert credentials_expiry(Identity(certificate=b"no certificate")) is None


@pytest.mark.parametrize(
    ("renewed_at", "expires"),
    [pytest.param(None, END, id="of a kubeconfig"), pytest.param(END, None, id="of a plugin")],
)
async def test_credentials_that_a_plugin_renews_do_not_end(
    rome: EmbeddedCluster, renewed_at: datetime | None, expires: datetime | None
) -> None:
    identity = Identity(token=_token({"exp": END.timestamp()}))
    config = replace(rome.context.access, identity=identity, expires=renewed_at)
    client = Client(rome.connect())

    access = await read_access(
        _access(config), client, (), await read_version(client), ClusterRead("rome")
    )

    assert access.expires == expires
