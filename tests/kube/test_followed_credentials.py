"""A token that is stored elsewhere later is used without a restart."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.credentials import CHECK_INTERVAL
from hanse.kube.errors import Unreachable
from hanse.kube.followed_credentials import FollowedCredentials
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio

START = datetime(2026, 1, 1, tzinfo=UTC)
LUBECK, BERGEN = "system:serviceaccount:accounts:lubeck", "system:serviceaccount:accounts:bergen"
BROKER, OTHER = "https://broker.example", "https://other.example"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def token(hours: int, subject: str = LUBECK) -> str:
    claims = {"sub": subject, "iat": (START + timedelta(hours=hours)).timestamp()}
    body = base64.urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
    return f"header.{body}.signature"


def config(token: str, url: str = BROKER) -> ClientConfig:
    return ClientConfig(ServerEndpoint(url), Identity(token=token))


class Store:
    """A stored configuration that can be changed, and that may be out of reach."""

    def __init__(self, stored: ClientConfig | None) -> None:
        self.stored = stored

    async def read(self) -> ClientConfig:
        if self.stored is None:
            raise Unreachable("no answer")
        return self.stored


async def test_a_later_token_is_used_soon_and_stays_in_use_while_its_store_does_not_answer() -> (
    None
):
    store = Store(None)
    credentials = FollowedCredentials(StaticCredentials(config(token(0))), store.read)

    async with credentials.following():
        first = await credentials.config()
        store.stored = config(token(1))
        await _next_check()
        second = await credentials.config()
        store.stored = None
        await _next_check()
        third = await credentials.config()

    assert [first, second, third] == [config(token(0)), config(token(1)), config(token(1))]


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(config(token(-1)), id="earlier"),
        pytest.param(config(token(1, BERGEN)), id="of another account"),
        pytest.param(config(token(1), OTHER), id="for another server"),
        pytest.param(config("opaque"), id="no token of an account"),
    ],
)
async def test_any_other_stored_token_is_left_alone(stored: ClientConfig) -> None:
    given = config(token(0))
    credentials = FollowedCredentials(StaticCredentials(given), Store(stored).read)

    async with credentials.following():
        await _next_check()
        used = await credentials.config()

    assert used == given


async def test_a_rejected_token_is_replaced_at_once_and_not_tried_again() -> None:
    store = Store(config(token(0)))
    credentials = FollowedCredentials(StaticCredentials(config(token(0))), store.read)
    store.stored = config(token(1))

    refreshed = await credentials.refreshed(config(token(0)))
    bad = await credentials.refreshed(config(token(1)))

    assert refreshed == config(token(1))
    assert bad == await credentials.config() == config(token(0))


async def _next_check() -> None:
    await asyncio.sleep(CHECK_INTERVAL.total_seconds() + 1)
