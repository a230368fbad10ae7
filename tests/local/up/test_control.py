"""The control socket: orders in, answers out, and what happens to nonsense."""

import asyncio
import stat
from pathlib import Path

import pytest

from hanse.local.up.control import (
    ControlRequest,
    Cut,
    GetStatus,
    HealAll,
    Kill,
    LocalFederationStatus,
    Slow,
    send_request,
    serve_control_socket,
)
from hanse.local.up.errors import NotRunning, UnknownCluster, UpError

pytestmark = pytest.mark.anyio

CALM = LocalFederationStatus(1, "embedded", (), ())


class Listener:
    """Remembers orders, and knows no cluster named rome."""

    def __init__(self) -> None:
        self.orders: list[ControlRequest] = []

    async def execute(self, order: ControlRequest) -> LocalFederationStatus:
        self.orders.append(order)
        if order == Kill("rome"):
            raise UnknownCluster("there is no cluster 'rome'")
        return CALM


async def test_orders_arrive_as_they_were_given(tmp_path: Path) -> None:
    listener, path = Listener(), tmp_path / "control.sock"
    given: list[ControlRequest] = [Cut("a", "b"), HealAll(), Slow("a", 200), GetStatus()]

    async with serve_control_socket(path, listener.execute):
        answers = [await send_request(path, order) for order in given]

    assert listener.orders == given
    assert answers == [CALM] * 4


async def test_a_refusal_is_raised_where_the_order_was_given(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, Listener().execute):
        with pytest.raises(UpError, match="there is no cluster 'rome'"):
            await send_request(path, Kill("rome"))


async def test_nonsense_is_refused_and_the_next_order_is_heard(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, Listener().execute):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b'{"order": "sail"}\n{"order": "list"}\n')
        refused, told = await reader.readline(), await reader.readline()
        writer.close()

    assert refused.startswith(b'{"refused":"that is no order: ')
    assert told.startswith(b'{"pid":1,')


async def test_where_nothing_runs_the_remedy_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=f"runs in {tmp_path}; start one with `hanse up`"):
        await send_request(tmp_path / "control.sock", GetStatus())


async def test_a_socket_that_was_left_behind_is_nobody(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with serve_control_socket(path, Listener().execute):
        path.rename(tmp_path / "left.sock")

    with pytest.raises(NotRunning):
        await send_request(tmp_path / "left.sock", GetStatus())


async def test_only_the_owner_may_speak(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, Listener().execute):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_folder_may_be_deeper_than_a_socket_address_is_long(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()

    async with serve_control_socket(deep / "control.sock", Listener().execute):
        assert await send_request(deep / "control.sock", GetStatus()) == CALM
