"""One endless stream: listed, watched, resumed, listed again, and never given up."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest

from hanse.kube.client import Client
from hanse.kube.errors import (
    BadCredentials,
    Forbidden,
    Invalid,
    KubeError,
    ServerError,
    Status,
    Throttled,
    Unreachable,
)
from hanse.kube.rest_mapper import ServedKinds
from hanse.kube.transport import Request, Response
from hanse.kube.watch_events import (
    Applied,
    Deleted,
    DeletedUnreadable,
    Interrupted,
    Listed,
    NotServed,
    Progress,
    Unreadable,
    WatchEvent,
)
from hanse.kube.watcher import list_and_watch
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Node, Service
from tests.kube.scripted_transport import (
    Lines,
    ScriptedTransport,
    bookmark,
    line,
    page,
    refusal,
    service,
    status_of,
)
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio

DOWN = Unreachable("connection refused")
CUT = Unreachable("connection reset")
GONE_EVENT = line("ERROR", status_of(410, "Expired", "too old resource version"))


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def events(
    server: ScriptedTransport, count: int, *, pages: bool = True
) -> list[WatchEvent[Service]]:
    """The first events of a stream from a server that serves lists by pages, or as streams."""
    client = Client(server)
    client.supports_watch_list = False if pages else None
    return await first(client, count)


async def first(client: Client, count: int) -> list[WatchEvent[Service]]:
    received: list[WatchEvent[Service]] = []
    async with aclosing(list_and_watch(client, Service, random=Random(1))) as stream:
        async for event in stream:
            received.append(event)
            if len(received) == count:
                break
    return received


def names(event: WatchEvent[Service]) -> list[str]:
    assert isinstance(event, Listed)
    return [s.name for s in event.objects]


def resumed_from(request: Request) -> str | None:
    return dict(request.query).get("resourceVersion")


async def test_a_list_is_followed_by_every_change() -> None:
    server = ScriptedTransport(
        page(service("a", 1), version=5),
        Lines(
            (
                line("ADDED", service("b", 6)),
                line("MODIFIED", service("a", 7)),
                line("DELETED", service("b", 8)),
                bookmark(12),
            )
        ),
    )

    listed, added, modified, deleted, alive = await events(server, 5)

    assert names(listed) == ["a"]
    assert isinstance(added, Applied)
    assert added.object.name == "b"
    assert isinstance(modified, Applied)
    assert isinstance(deleted, Deleted)
    assert alive == Progress("12")
    assert resumed_from(server.requests[1]) == "5"


async def test_a_server_that_streams_lists_is_asked_once_and_goes_on_as_a_watch() -> None:
    server = ScriptedTransport(
        Lines(
            (
                line("ADDED", service("a", 1)),
                line("ADDED", service("b", 3)),
                line("MODIFIED", service("a", 4)),
                line("DELETED", service("b", 5)),
                bookmark(9, ends_list=True),
                line("ADDED", service("c", 10)),
            )
        )
    )

    listed, added = await events(server, 2, pages=False)

    assert names(listed) == ["a"]
    assert isinstance(listed, Listed)
    assert listed.resource_version == "9"
    assert isinstance(added, Applied)
    assert len(server.requests) == 1


async def test_a_server_that_does_not_stream_lists_is_not_asked_again() -> None:
    refused = Invalid(Status(422, "Invalid", "sendInitialEvents is forbidden"))
    server = ScriptedTransport(refused, page(version=5), page(version=5))
    client = Client(server)

    await first(client, 1)
    await first(client, 1)

    streamed = ["sendInitialEvents" in dict(request.query) for request in server.requests]
    assert streamed == [True, False, False]
    assert client.supports_watch_list is False


async def test_a_bad_selector_is_not_taken_for_a_server_that_cannot_stream_lists() -> None:
    bad = Invalid(Status(400, "BadRequest", "unable to parse selector"))
    server = ScriptedTransport(bad, bad)
    client = Client(server)

    received = await first(client, 1)

    assert received == [Interrupted(bad)]
    assert client.supports_watch_list is None


async def test_an_interrupted_streamed_list_emits_nothing_and_starts_over() -> None:
    server = ScriptedTransport(
        Lines((line("ADDED", service("a", 1)),), ends=CUT),
        Lines((line("ADDED", service("b", 2)), bookmark(3, ends_list=True))),
    )

    [listed] = await events(server, 1, pages=False)

    assert names(listed) == ["b"]


async def test_a_watch_whose_time_is_up_is_resumed_without_listing() -> None:
    server = ScriptedTransport(
        page(version=5),
        Lines((line("ADDED", service("a", 7)),), ends="in time"),
        Lines((line("ADDED", service("b", 8)),)),
    )

    received = await events(server, 3)

    assert [type(event) for event in received] == [Listed, Applied, Applied]
    assert resumed_from(server.requests[2]) == "7"


async def test_a_dropped_watch_is_resumed_at_once_after_a_look_at_the_servers_version() -> None:
    server = ScriptedTransport(
        page(version=5),
        Lines((bookmark(9),), ends=CUT),
        page(version=30),
        Lines((line("ADDED", service("b", 31)),)),
    )

    received = await events(server, 3)

    assert received[1:2] == [Progress("9")]
    assert isinstance(received[2], Applied)
    assert dict(server.requests[2].query)["limit"] == "1"
    assert resumed_from(server.requests[3]) == "9"
    assert asyncio.get_running_loop().time() < 0.001


async def test_a_dropped_watch_is_resumed_before_the_last_change_which_is_not_reported_twice() -> (
    None
):
    server = ScriptedTransport(
        page(version=5),
        Lines((line("ADDED", service("a", 7)), bookmark(9)), ends=CUT),
        page(version=30),
        Lines((line("ADDED", service("a", 7)), line("ADDED", service("b", 31)))),
    )

    received = await events(server, 4)

    assert [type(event) for event in received] == [Listed, Applied, Progress, Applied]
    assert resumed_from(server.requests[3]) == "6"


async def test_a_dropped_watch_that_begins_with_another_change_shows_a_restored_server() -> None:
    server = ScriptedTransport(
        page(version=5),
        Lines((line("ADDED", service("a", 7)),), ends=CUT),
        page(version=30),
        Lines((line("ADDED", service("b", 7)),)),
        page(service("b", 7), version=30),
        Lines(),
    )

    received = await events(server, 3)

    assert isinstance(received[2], Listed)
    assert received[2].restored
    assert names(received[2]) == ["b"]


async def test_a_dropped_watch_is_listed_if_the_last_change_is_not_sent_again() -> None:
    server = ScriptedTransport(
        page(version=5),
        Lines((line("ADDED", service("a", 7)),), ends=CUT),
        page(version=30),
        Lines(),
        page(version=30),
        Lines(),
    )

    received = await events(server, 3)

    assert received[2] == Listed((), "30")
    assert asyncio.get_running_loop().time() == pytest.approx(10)


async def test_a_dropped_watch_whose_last_change_has_expired_is_resumed_after_it() -> None:
    server = ScriptedTransport(
        page(version=5),
        Lines((line("ADDED", service("a", 7)), bookmark(9)), ends=CUT),
        page(version=30),
        Lines((GONE_EVENT,)),
        Lines((line("ADDED", service("b", 31)),)),
    )

    received = await events(server, 4)

    assert [type(event) for event in received] == [Listed, Applied, Progress, Applied]
    assert [resumed_from(request) for request in server.requests[3:]] == ["6", "9"]


async def test_a_bookmark_of_a_server_whose_watch_cache_is_behind_shows_no_restored_server() -> (
    None
):
    server = ScriptedTransport(
        page(version=5),
        Lines((line("ADDED", service("a", 7)), bookmark(60)), ends=CUT),
        page(version=80),
        Lines((line("ADDED", service("a", 7)), bookmark(30), line("ADDED", service("b", 81)))),
        page(version=80),
        Lines((line("ADDED", service("b", 81)),)),
    )

    received = await events(server, 5)

    assert [type(event) for event in received] == [Listed, Applied, Progress, Progress, Applied]
    assert resumed_from(server.requests[3]) == "6"


async def test_after_a_deletion_a_dropped_watch_is_resumed_by_its_version() -> None:
    server = ScriptedTransport(
        page(service("a", 3), version=5),
        Lines((line("ADDED", service("b", 6)), line("DELETED", service("a", 7))), ends=CUT),
        page(version=30),
        Lines((line("ADDED", service("c", 31)),)),
    )

    received = await events(server, 4)

    assert isinstance(received[3], Applied)
    assert resumed_from(server.requests[3]) == "7"


async def test_a_restored_server_is_listed_again_though_it_would_let_us_watch() -> None:
    server = ScriptedTransport(
        page(service("a", 8), version=50),
        Lines((bookmark(60),), ends=CUT),
        page(version=20),
        page(service("a", 4), version=20),
        Lines(),
    )

    received = await events(server, 3)

    assert isinstance(received[2], Listed)
    assert received[2].resource_version == "20"


async def test_a_watch_that_goes_back_in_time_is_listed_again() -> None:
    server = ScriptedTransport(
        page(version=50), Lines((line("ADDED", service("a", 7)),)), page(version=8), Lines()
    )

    received = await events(server, 2)

    assert [type(event) for event in received] == [Listed, Listed]


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(Lines((GONE_EVENT,)), id="as-an-event"),
        pytest.param(Lines((bookmark(6), GONE_EVENT)), id="later"),
    ],
)
async def test_an_expired_version_lists_again(expired: Lines) -> None:
    server = ScriptedTransport(page(version=5), expired, page(service("a", 8), version=9), Lines())

    received = await events(server, 1 + len(expired.lines))

    assert names(received[-1]) == ["a"]


async def test_a_storm_of_expired_versions_does_not_become_a_storm_of_lists() -> None:
    storm = [step for _ in range(12) for step in (page(version=5), Lines((GONE_EVENT,)))]
    server = ScriptedTransport(*storm)

    await events(server, 12)

    assert asyncio.get_running_loop().time() > 5


async def test_versions_that_always_expire_are_one_outage_like_any_other() -> None:
    storm = [step for _ in range(8) for step in (page(version=5), Lines((GONE_EVENT,)))]
    server = ScriptedTransport(*storm, page(version=9), Lines((bookmark(10),)))

    received = await events(server, 11)

    assert [type(event) for event in received].count(Interrupted) == 1
    assert isinstance(received[-1], Progress)


async def test_an_outage_is_reported_once_and_its_end_too() -> None:
    server = ScriptedTransport(
        page(version=5),
        Lines((bookmark(6),), ends=CUT),
        *[DOWN] * 5,
        page(version=6),
        Lines((line("ADDED", service("a", 7)),)),
    )

    received = await events(server, 6)

    assert received[1:3] == [Progress("6"), Interrupted(DOWN)]
    assert isinstance(received[3], Listed)
    assert received[4] == Progress("6")
    assert isinstance(received[5], Applied)


async def test_an_outage_in_which_the_server_begins_to_refuse_us_is_reported_anew() -> None:
    refused = BadCredentials("Unauthorized")
    server = ScriptedTransport(
        page(version=5), Lines((bookmark(6),), ends=CUT), *[DOWN] * 3, *[refused] * 3, DOWN
    )

    received = await events(server, 5)

    assert received[2:] == [Interrupted(DOWN), Interrupted(refused), Interrupted(DOWN)]


async def test_an_outage_that_began_before_the_first_list_ends_with_a_standing_watch() -> None:
    server = ScriptedTransport(DOWN, DOWN, page(version=5), DOWN, page(version=5), Lines())

    received = await events(server, 3)

    assert received[0] == Interrupted(DOWN)
    assert isinstance(received[1], Listed)
    assert received[2] == Progress("5")


BUSY = Throttled(Status(429, "", "Too many requests"), timedelta(seconds=1))
FAILED = ServerError(Status(500, "InternalError", "etcd is away"))


@pytest.mark.parametrize("error", [BUSY, FAILED], ids=["429", "500"])
async def test_single_requests_that_a_server_refuses_are_no_outage(error: KubeError) -> None:
    server = ScriptedTransport(
        error,
        page(version=5),
        error,
        page(version=5),  # whether the server was restored meanwhile
        Lines((bookmark(6),), ends="in time"),
        error,
        error,
        page(version=6),
        Lines((line("ADDED", service("a", 7)),)),
    )

    listed, alive, added = await events(server, 3)

    assert isinstance(listed, Listed)
    assert alive == Progress("6")
    assert isinstance(added, Applied)
    assert resumed_from(server.requests[-1]) == "6"


@pytest.mark.parametrize("error", [BUSY, FAILED], ids=["429", "500"])
async def test_a_server_that_goes_on_refusing_is_an_outage_after_ten_seconds(
    error: KubeError,
) -> None:
    server = ScriptedTransport(page(version=5), Lines((bookmark(6),), ends=CUT), *[error] * 20)

    received = await events(server, 3)

    assert received[2] == Interrupted(error)
    assert 3 < asyncio.get_running_loop().time() <= 10


@pytest.mark.parametrize(
    "error",
    [
        ServerError(Status(503, "", "upstream connect error")),
        Throttled(Status(429, "", "Too many requests"), timedelta(seconds=30)),
        Forbidden(Status(403, "Forbidden", "no rights")),
    ],
    ids=["proxy", "long-retry-after", "forbidden"],
)
async def test_a_server_that_refuses_is_an_outage_and_is_asked_again(error: KubeError) -> None:
    server = ScriptedTransport(error, error, page(version=5), Lines())

    received = await events(server, 3)

    assert received[0] == Interrupted(error)
    assert isinstance(received[1], Listed)
    assert received[2] == Progress("5")


async def test_a_refusal_after_an_outage_is_the_first_of_its_kind() -> None:
    refused = Forbidden(Status(403, "Forbidden", "rights are not read yet"))
    server = ScriptedTransport(*[DOWN] * 5, refused, page(version=6), Lines())

    received = await events(server, 4)

    assert received[:2] == [Interrupted(DOWN), Interrupted(refused)]
    assert [type(event) for event in received[2:]] == [Listed, Progress]
    assert asyncio.get_running_loop().time() < 12


async def test_watches_that_end_as_soon_as_they_begin_are_not_reopened_in_a_frenzy() -> None:
    server = ScriptedTransport(
        page(version=5),
        *[step for _ in range(16) for step in (Lines(ends="early"), page(version=5))],
    )

    received = await events(server, 16)

    assert sum(isinstance(event, Interrupted) for event in received) >= 4
    assert asyncio.get_running_loop().time() > 5


async def test_a_silent_watch_is_dead_when_the_server_should_have_ended_it() -> None:
    server = ScriptedTransport(page(version=5), Lines(), page(version=5), Lines((bookmark(6),)))

    received = await events(server, 2)

    assert received[1] == Progress("6")
    assert 330 <= asyncio.get_running_loop().time() <= 630


async def test_an_unserved_kind_is_reported_once_and_found_when_it_appears() -> None:
    absent = refusal(404, "NotFound")
    server = ScriptedTransport(*[absent] * 6, page(service("a", 1), version=5), Lines())

    received = await events(server, 2)

    assert received[0] == NotServed()
    assert names(received[1]) == ["a"]


async def test_the_end_of_an_outage_is_reported_of_an_unserved_kind_too() -> None:
    absent = refusal(404, "NotFound")
    server = ScriptedTransport(absent, *[DOWN] * 3, *[absent] * 3)

    received = await events(server, 3)

    assert received == [NotServed(), Interrupted(DOWN), NotServed()]


async def test_discovery_wakes_a_stream_that_waits_for_its_kind() -> None:
    server = ScriptedTransport(
        *[refusal(404, "NotFound")] * 8, page(service("a", 1), version=5), Lines()
    )
    client = Client(server)
    client.supports_watch_list = False
    stream = list_and_watch(client, Service, random=Random(1))

    async with aclosing(stream):
        assert await anext(stream) == NotServed()
        listed = asyncio.create_task(anext(stream), name="listed")
        await asyncio.sleep(60)
        server.steps = server.steps[-2:]
        asked = asyncio.get_running_loop().time()
        client.rest_mapper.update(ServedKinds(frozenset({Service.kind})))
        assert names(await listed) == ["a"]

    assert asyncio.get_running_loop().time() == pytest.approx(asked, abs=0.01)


async def test_a_kind_that_discovery_rules_out_is_rarely_asked_for() -> None:
    server = ScriptedTransport(*[refusal(404, "NotFound")] * 100)
    client = Client(server)
    client.supports_watch_list = False
    client.rest_mapper.follows_definitions = True
    client.rest_mapper.update(ServedKinds())
    stream = list_and_watch(client, Service, random=Random(1))

    async with aclosing(stream):
        assert await anext(stream) == NotServed()
        listed = asyncio.create_task(anext(stream), name="listed")
        for other in (Node.kind, Lease.kind):
            await asyncio.sleep(5)
            client.rest_mapper.update(ServedKinds(frozenset({other})))
        await asyncio.sleep(590)
        listed.cancel()
        await asyncio.wait({listed})

    assert 5 <= len(server.requests) <= 12


async def test_a_kind_is_polled_where_discovery_does_not_follow_definitions() -> None:
    server = ScriptedTransport(*[refusal(404, "NotFound")] * 100)
    client = Client(server)
    client.supports_watch_list = False
    client.rest_mapper.update(ServedKinds())
    stream = list_and_watch(client, Service, random=Random(1))

    async with aclosing(stream):
        assert await anext(stream) == NotServed()
        listed = asyncio.create_task(anext(stream), name="listed")
        await asyncio.sleep(600)
        listed.cancel()
        await asyncio.wait({listed})

    assert len(server.requests) > 20


async def test_one_bad_object_does_not_break_a_watch() -> None:
    bad = service("b", 6, ports="eighty")
    server = ScriptedTransport(
        page(version=5),
        Lines(
            (
                line("ADDED", bad),
                line("DELETED", {**bad, "metadata": {**bad["metadata"], "resourceVersion": "7"}}),
                line("SURPRISE", service("c", 8)),
                line("ADDED", service("a", 9)),
            )
        ),
    )

    received = await events(server, 5)

    assert isinstance(received[1], Unreadable)
    assert (received[1].name, received[1].resource_version) == ("b", "6")
    assert received[2] == DeletedUnreadable("shop", "b", "7")
    assert isinstance(received[3], Unreadable)
    assert isinstance(received[4], Applied)


async def test_half_a_line_is_a_broken_connection() -> None:
    server = ScriptedTransport(
        page(version=5),
        Lines((bookmark(6), b'{"type":"ADDED","obj')),
        page(version=6),
        Lines((bookmark(7),)),
    )

    received = await events(server, 3)

    assert received[1:] == [Progress("6"), Progress("7")]


async def test_a_flood_of_events_leaves_other_tasks_their_turn() -> None:
    flood = tuple(line("MODIFIED", service("a", 6 + n)) for n in range(2000))
    server = ScriptedTransport(page(version=5), Lines(flood))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns(), name="count turns")
    await events(server, 2001)
    counting.cancel()

    assert turns >= 10


class TimedTransport(ScriptedTransport):
    """A server that notes when it is asked."""

    asked: tuple[float, ...] = ()

    async def send(self, request: Request) -> Response:
        self.asked += (asyncio.get_running_loop().time(),)
        return await super().send(request)


@pytest.mark.parametrize(
    "error",
    [DOWN, BadCredentials("Unauthorized"), Forbidden(Status(403, "Forbidden", "no rights"))],
    ids=["unreachable", "rejected", "forbidden"],
)
async def test_however_long_an_outage_lasts_the_server_is_asked_every_half_minute(
    error: KubeError,
) -> None:
    server = TimedTransport(*[error] * 12, page(version=5), Lines())

    await events(server, 3)

    pauses = [after - before for before, after in pairwise(server.asked)]
    assert len(pauses) == 12
    assert max(pauses) <= 30
