"""The control socket: requests, responses and malformed messages."""

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

STATUS = LocalFederationStatus(1, "embedded", (), ())


class FakeFederation:
    """Records requests, and has no cluster named rome."""

    def __init__(self) -> None:
        self.requests: list[ControlRequest] = []

    async def execute(self, request: ControlRequest) -> LocalFederationStatus:
        self.requests.append(request)
        if request == Kill("rome"):
            raise UnknownCluster("there is no cluster 'rome'")
        if request == Kill("paris"):
            raise LookupError("a mistake of ours")
        return STATUS


async def test_requests_arrive_as_they_were_sent(tmp_path: Path) -> None:
    federation, path = FakeFederation(), tmp_path / "control.sock"
    given: list[ControlRequest] = [Cut("a", "b"), HealAll(), Slow("a", 200), GetStatus()]

    async with serve_control_socket(path, federation.execute):
        answers = [await send_request(path, request) for request in given]

    assert federation.requests == given
    assert answers == [STATUS] * 4


async def test_an_error_is_raised_in_the_client(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, FakeFederation().execute):
        with pytest.raises(UpError, match="there is no cluster 'rome'"):
            await send_request(path, Kill("rome"))


async def test_a_request_that_fails_is_told_and_the_next_one_works(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, FakeFederation().execute):
        with pytest.raises(UpError, match="LookupError: a mistake of ours"):
            await send_request(path, Kill("paris"))
        assert await send_request(path, GetStatus()) == STATUS


@pytest.mark.parametrize(
    "request_line",
    [b'{"order": "sail"}', b'{"order": "list", "x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"],
    ids=["unknown", "20,000 levels"],
)
async def test_a_malformed_request_fails_and_the_next_one_works(
    tmp_path: Path, request_line: bytes
) -> None:
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, FakeFederation().execute):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(request_line + b'\n{"order": "list"}\n')
        refused, status = await reader.readline(), await reader.readline()
        writer.close()

    assert refused.startswith(b'{"refused":"that is no order: ')
    assert status.startswith(b'{"pid":1,')


async def test_the_status_of_a_large_federation_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    large = LocalFederationStatus(1, "embedded", (), (("a" * 100_000, "b"),))

    async def execute(_: ControlRequest) -> LocalFederationStatus:
        return large

    async with serve_control_socket(path, execute):
        assert await send_request(path, GetStatus()) == large


async def test_a_request_that_never_ends_is_refused_and_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hanse.local.up.control.MAX_LINE", 1000)
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, FakeFederation().execute):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"x" * 5000 + b"\n")
        refused = await reader.readline()
        writer.close()
        assert await send_request(path, GetStatus()) == STATUS

    assert refused == b'{"refused":"that is no order: it is longer than 1000 bytes"}\n'


async def test_without_a_federation_the_error_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=f"runs in {tmp_path}; start one with `hanse up`"):
        await send_request(tmp_path / "control.sock", GetStatus())


async def test_a_stale_socket_counts_as_not_running(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with serve_control_socket(path, FakeFederation().execute):
        path.rename(tmp_path / "left.sock")

    with pytest.raises(NotRunning):
        await send_request(tmp_path / "left.sock", GetStatus())


async def test_only_the_owner_can_connect(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async with serve_control_socket(path, FakeFederation().execute):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_folder_may_be_deeper_than_a_socket_address_is_long(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()

    async with serve_control_socket(deep / "control.sock", FakeFederation().execute):
        assert await send_request(deep / "control.sock", GetStatus()) == STATUS
