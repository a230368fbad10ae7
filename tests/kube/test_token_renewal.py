"""A token that is renewed before it ends, wherever it is kept."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import BadCredentials
from hanse.kube.token_renewal import (
    FileTokenStore,
    SecretTokenStore,
    ServiceAccountName,
    TokenRenewer,
)
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.model.kinds.core import Secret
from hanse.model.objects import Meta
from hanse.model.tokens import BoundSecret, parse_claims
from tests.support.builders import namespace
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio

LUBECK = ServiceAccountName("hanse-broker", "lubeck")
LIFE = timedelta(days=7)
URL = "https://broker.example"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def token(
    account: ServiceAccountName,
    issued: datetime,
    life: timedelta | None = LIFE,
    bound: Mapping[str, object] | None = None,
) -> str:
    claims: dict[str, object] = {"sub": account.subject, "iat": issued.timestamp()}
    claims["kubernetes.io"] = bound or {}
    if life is not None:
        claims["exp"] = (issued + life).timestamp()
    body = base64.urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
    return f"header.{body}.signature"


class Member:
    """A broker with the account of a member, and the member's kubeconfig in a file and a Secret."""

    def __init__(self, file: Path) -> None:
        self.clock = LoopClock()
        self.broker = Client(InProcessTransport(ApiServer("broker", clock=self.clock)))
        self.home = Client(InProcessTransport(ApiServer("lubeck", clock=self.clock)))
        self.file = FileTokenStore(file)
        self.secret = SecretTokenStore(self.home, "hanse-system", "hanse-broker", "kubeconfig")
        self._path = file

    async def joined(self, held: str) -> None:
        write_kubeconfig(self._path, [Context("broker", self._access(held))])
        await self.broker.create(namespace(LUBECK.namespace))
        await self.home.create(namespace("hanse-system"))
        await self.account(LUBECK.name)
        data = {"kubeconfig": self._path.read_bytes()}
        meta = Meta(name="hanse-broker", namespace="hanse-system")
        await self.home.create(Secret(metadata=meta, data=data))

    async def account(self, name: str) -> None:
        path = f"/api/v1/namespaces/{LUBECK.namespace}/serviceaccounts"
        made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        await self.broker.send(Request("POST", path, body=msgspec.json.encode(made)))

    def renewal(self, held: str) -> TokenRenewer:
        credentials = StaticCredentials(self._access(held))
        return TokenRenewer(LUBECK, self.broker, credentials, (self.secret, self.file), self.clock)

    def _access(self, held: str) -> ClientConfig:
        return ClientConfig(ServerEndpoint(URL), Identity(token=held))


@pytest.fixture
async def member(tmp_path: Path) -> Member:
    return Member(tmp_path / "broker.kubeconfig")


async def test_a_token_past_half_its_life_is_renewed_in_file_and_secret(member: Member) -> None:
    old = token(LUBECK, member.clock.now() - LIFE * 0.6)
    await member.joined(old)

    await member.renewal(old).renew_if_due()

    new = await member.file.token()
    assert new != old
    assert await member.secret.token() == new
    assert URL in member._path.read_text()
    assert member._path.stat().st_mode & 0o777 == 0o600


async def test_a_renewed_token_is_bound_to_the_same_secret(member: Member) -> None:
    old = token(LUBECK, member.clock.now() - LIFE * 0.6)
    await member.joined(old)
    meta = Meta(name="bound", namespace=LUBECK.namespace)
    uid = (await member.broker.create(Secret(metadata=meta))).metadata.uid
    bound = {"secret": {"name": "bound", "uid": uid}}
    old = token(LUBECK, member.clock.now() - LIFE * 0.6, bound=bound)

    await member.renewal(old).renew_if_due()

    claims = parse_claims(await member.file.token())
    assert claims is not None
    assert claims.bound == BoundSecret("bound", uid)


async def test_a_young_token_stays(member: Member) -> None:
    young = token(LUBECK, member.clock.now() - LIFE * 0.4)
    await member.joined(young)

    await member.renewal(young).renew_if_due()

    assert await member.file.token() == await member.secret.token() == young


async def test_what_another_replica_has_renewed_is_taken_over(member: Member) -> None:
    old = token(LUBECK, member.clock.now() - LIFE * 0.6)
    await member.joined(old)
    fresh = token(LUBECK, member.clock.now())
    await member.secret.store_token(fresh)

    await member.renewal(old).renew_if_due()

    assert await member.file.token() == fresh
    assert await member.secret.token() == fresh


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            token(ServiceAccountName("hanse-broker", "bergen"), datetime(2020, 1, 1, tzinfo=UTC)),
            id="another's",
        ),
        pytest.param(token(LUBECK, datetime(2020, 1, 1, tzinfo=UTC), None), id="endless"),
        pytest.param("opaque", id="no web token"),
    ],
)
async def test_a_token_that_is_not_ours_to_renew_stays(member: Member, other: str) -> None:
    await member.joined(other)

    await member.renewal(other).renew_if_due()

    assert await member.file.token() == await member.secret.token() == other


async def test_a_place_that_cannot_be_read_holds_up_no_other(member: Member) -> None:
    old = token(LUBECK, member.clock.now() - LIFE * 0.6)
    await member.joined(old)
    await member.home.delete(Secret, "hanse-broker", "hanse-system")

    await member.renewal(old).renew_if_due()

    assert await member.file.token() != old


async def test_a_broker_that_does_not_answer_leaves_everything_as_it_is(member: Member) -> None:
    old = token(LUBECK, member.clock.now() - LIFE * 0.6)
    await member.joined(old)
    path = f"/api/v1/namespaces/{LUBECK.namespace}/serviceaccounts/{LUBECK.name}"
    await member.broker.send(Request("DELETE", path))

    await member.renewal(old).renew_if_due()

    assert await member.file.token() == old


@pytest.mark.parametrize("page", [b"<html>", b"[]", b'{"status": null}'])
async def test_a_proxys_page_instead_of_a_token_leaves_everything_as_it_is(
    member: Member, monkeypatch: pytest.MonkeyPatch, page: bytes
) -> None:
    async def send(_: Request) -> Response:
        return Response(201, page, {})

    old = token(LUBECK, member.clock.now() - LIFE * 0.6)
    await member.joined(old)
    monkeypatch.setattr(member.broker, "send", send)

    await member.renewal(old).renew_if_due()

    assert await member.file.token() == old


async def test_a_file_that_cannot_be_written_is_named_and_its_token_is_not(tmp_path: Path) -> None:
    held = token(LUBECK, datetime(2026, 1, 1, tzinfo=UTC))
    file = tmp_path / "broker.kubeconfig"
    write_kubeconfig(
        file, [Context("broker", ClientConfig(ServerEndpoint(URL), Identity(token=held)))]
    )
    (tmp_path / ".broker.kubeconfig.new").mkdir()

    with pytest.raises(BadCredentials, match=r"broker.kubeconfig: Is a directory") as refused:
        await FileTokenStore(file).store_token("new")

    assert held not in str(refused.value)
