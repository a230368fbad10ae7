"""Authentication and updates over real sockets."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from hanse.features.fleet.view import ClustersView
from hanse.features.services.feature import Services
from hanse.model.facts import Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Meta
from hanse.model.snapshot import ObjectChange
from hanse.web.dashboard.actions import ActionRefused, PageActions
from hanse.web.dashboard.auth import CODE_LIFETIME, COOKIE, Authenticator
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.server import LARGEST_BODY, serving
from hanse.web.dashboard.updates import LiveUpdates
from tests.support.builders import cluster, snapshot


class Desk:
    """A dashboard on a port of its own, and somebody in front of it."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url, self.http, self.auth = url, http, Authenticator()
        self.objects: list[Any] = []
        self.updates = LiveUpdates(ItemCache([ClustersView()], self.multi_snapshot))

    def multi_snapshot(self) -> MultiClusterSnapshot:
        own_snapshot = snapshot(
            Services(), "lubeck", [cluster("lubeck", Role.LOCAL)], {"lubeck": self.objects}
        )
        return MultiClusterSnapshot({"lubeck": own_snapshot})

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        """An answer, read to its end."""
        return await _read(self.http.get(self.url + path, headers=headers, allow_redirects=False))

    async def post(self, path: str, **sent: Any) -> aiohttp.ClientResponse:
        return await _read(self.http.post(self.url + path, **sent))

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.auth.token}"}


async def _read(asked: Awaitable[aiohttp.ClientResponse]) -> aiohttp.ClientResponse:
    answer = await asked
    await answer.read()
    return answer


async def double(wish: Mapping[str, Any]) -> Any:
    if not isinstance(wish.get("n"), int):
        raise ActionRefused("n is no number")
    return {"twice": wish["n"] * 2}


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    listener = socket.create_server(("127.0.0.1", 0))
    async with aiohttp.ClientSession() as http:
        made = Desk(f"http://127.0.0.1:{listener.getsockname()[1]}", http)
        async with serving(made.updates, made.auth, PageActions(resolve=double), listener):
            yield made


async def test_the_page_is_there_for_all_and_its_data_only_for_those_who_may() -> None:
    async with desk() as at:
        page, items = await at.get("/"), await at.get("/api/board")
        allowed = await at.get("/api/board", **at.bearer)

        assert (page.status, items.status, allowed.status) == (200, 401, 200)
        assert "script-src" not in page.headers["Content-Security-Policy"]
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]
        assert (await allowed.json())["sections"]["clusters"]["lubeck"]["state"] == "good"


async def test_what_a_program_reads_is_still_sent_to_open_pages() -> None:
    async with aiohttp.ClientSession() as http:
        at = Desk("", http)
        with at.updates.subscribed() as page:
            assert page is not None
            read_event = aiter(page)
            await anext(read_event)
            new = ServiceExport(metadata=Meta(name="web", namespace="shop"))
            at.objects.append(new)
            at.updates.on_change("lubeck", ObjectChange("lubeck", None, new))

            read = await at.updates.full_state()

            update = json.loads(await anext(read_event))
        assert json.loads(bytes(read["sections"]["clusters"]["lubeck"]))["exports"] == 1
        assert update["put"]["clusters"]["lubeck"]["exports"] == 1


async def test_a_login_code_is_valid_once() -> None:
    async with desk() as at:
        path = f"/enter/{at.auth.issue_code()}"
        first, second = await at.get(path), await at.get(path)

        assert (first.status, first.headers["Location"]) == (303, "/")
        cookie = first.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert at.auth.token not in first.headers["Location"]
        assert "Set-Cookie" not in second.headers
        assert second.headers["Location"] == "/#/spent"


def test_a_code_is_good_for_some_minutes_only() -> None:
    now = 0.0
    auth = Authenticator(now=lambda: now)
    code = auth.issue_code()
    now = CODE_LIFETIME + 1

    assert not auth.redeem(code)


async def test_another_hosts_name_is_refused_whatever_it_shows() -> None:
    async with desk() as at:
        rebound = await at.get("/api/board", Host="evil.example", **at.bearer)

        assert rebound.status == 421


async def test_another_sites_page_is_refused() -> None:
    async with desk() as at:
        crossed = await at.get("/api/board", Origin="https://evil.example", **at.bearer)

        assert crossed.status == 403


async def test_a_cookie_alone_orders_nothing() -> None:
    async with desk() as at:
        cookies = {COOKIE: at.auth.token}
        wish: dict[str, Any] = {"json": {"n": 2}, "cookies": cookies}
        without = await at.post("/api/resolve", **wish)
        from_page = await at.post("/api/resolve", **wish, headers={"X-Hanse": "1"})

        assert without.status == 401
        assert await from_page.json() == {"twice": 4}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("[]", 400),
        ("{", 400),
        ('{"n": "x"}', 422),
        pytest.param('{"n":' * 40_000 + "1" + "}" * 40_000, 400, id="40,000 levels"),
        pytest.param(f'{{"n": "{"x" * LARGEST_BODY}"}}', 413, id="too large"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_a_sentence(body: str, status: int) -> None:
    async with desk() as at:
        answered = await at.post("/api/resolve", data=body, headers=at.bearer)

        assert answered.status == status
        assert (await answered.json())["refused"]


async def test_files_outside_the_page_are_not_there() -> None:
    async with desk() as at:
        for path in ("/page/..%2fserver.py", "/page/nothing.js", "/page/"):
            assert (await at.get(path)).status == 404


async def read_event(stream: aiohttp.StreamReader) -> tuple[str, Any]:
    name = (await stream.readline()).decode().removeprefix("event: ").strip()
    body = json.loads((await stream.readline()).decode().removeprefix("data: "))
    await stream.readline()
    return name, body


async def test_a_page_receives_everything_first_and_then_the_changes() -> None:
    async with desk() as at, asyncio.timeout(20):
        answer = await at.http.get(f"{at.url}/api/events", headers=at.bearer)
        hello, first = await read_event(answer.content), await read_event(answer.content)
        first_update = first[1]
        while not first_update["put"].get("clusters"):
            first_update = (await read_event(answer.content))[1]
        made = ServiceExport(metadata=Meta(name="web", namespace="shop"))
        at.objects.append(made)
        at.updates.on_change("lubeck", ObjectChange("lubeck", None, made))
        changed = (await read_event(answer.content))[1]
        answer.close()

    assert hello == ("hello", {"may": ["resolve"]})
    assert first[1]["first"]
    assert first_update["put"]["clusters"]["lubeck"]["exports"] == 0
    assert changed["put"]["clusters"]["lubeck"]["exports"] == 1
