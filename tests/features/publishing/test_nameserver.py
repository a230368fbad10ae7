"""Published names on real name servers: written and deleted, foreign ones untouched."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hanse.kube.errors import (
    AlreadyExists,
    BadCredentials,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    Unreachable,
)
from hanse.model.kinds.names import PublishedName, PublishedNameSpec, RecordSet
from hanse.model.objects import Meta
from hanse.providers.nameserver import NameServer
from tests.dns.builders import NODATA, NXDOMAIN
from tests.features.publishing.servers import KEY, ZONE, ExternalServer, name_server

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["bind", "knot"])
async def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ExternalServer]:
    async with name_server(request.param, tmp_path) as server:
        yield server


def name(label: str = "web", *addresses: str, **more: tuple[str, ...]) -> PublishedName:
    published = {"A": addresses or ("10.0.0.1",), **more}
    sets = tuple(RecordSet(type=t, ttl=5, values=published[t]) for t in sorted(published))
    return PublishedName(
        metadata=Meta(name=f"{label}.{ZONE}", labels={"owner": "us"}, annotations={"k": "x" * 600}),
        spec=PublishedNameSpec(records=sets),
    )


async def test_a_name_is_written_changed_and_taken_away(theirs: ExternalServer) -> None:
    connect = theirs.connect()
    await connect.list(PublishedName)
    web = name("web", "10.0.0.1", SRV=(f"0 50 80 web.{ZONE}.",), TXT=('"hello"',))

    await connect.create(web)
    assert (await theirs.ask("web")).records == ("10.0.0.1",)
    assert (await theirs.ask("web", "SRV")).records == (f"0 50 80 web.{ZONE}.",)
    assert await theirs.connect().read(PublishedName, f"web.{ZONE}") == web, "all of it comes back"

    changed = name("web", "10.0.0.2", "10.0.0.3")
    await connect.update(changed)
    assert (await theirs.ask("web")).records == ("10.0.0.2", "10.0.0.3")
    assert (await theirs.ask("web", "TXT")).code == NODATA
    assert await theirs.connect().read(PublishedName, f"web.{ZONE}") == changed

    await connect.delete(changed)
    assert (await theirs.ask("web")).code == NXDOMAIN
    assert f"web.{ZONE}" not in {o.name for o in await theirs.connect().list(PublishedName)}


async def test_what_others_wrote_is_seen_and_is_not_ours(theirs: ExternalServer) -> None:
    listed = {one.name: one for one in await theirs.connect().list(PublishedName)}

    assert set(listed) == {f"{label}.{ZONE}" for label in ("ns", "www", "mail")}
    assert all(one.metadata.labels == {} for one in listed.values())
    with pytest.raises(AlreadyExists, match="in use"):
        await theirs.connect().create(name("www"))
    with pytest.raises(AlreadyExists, match="in use"):
        await theirs.connect().create(name("mail"))
    assert (await theirs.ask("www")).records == ("192.0.2.80",)


async def test_a_name_that_somebody_changed_meanwhile_is_not_overwritten(
    theirs: ExternalServer,
) -> None:
    connect = theirs.connect()
    await connect.list(PublishedName)
    await connect.create(name())
    await theirs.edit(lambda update: update.add("web", 5, "A", "192.0.2.1"))

    with pytest.raises(Conflict, match="changed by somebody else"):
        await connect.update(name("web", "10.0.0.9"))
    with pytest.raises(Conflict, match="changed by somebody else"):
        await theirs_known(connect, name()).delete(name())

    assert (await theirs.ask("web")).records == ("10.0.0.1", "192.0.2.1")
    found = await connect.read(PublishedName, f"web.{ZONE}")
    assert found.spec.records[0].values == ("10.0.0.1", "192.0.2.1"), "it has looked again"
    await connect.update(name("web", "10.0.0.9"))
    assert (await theirs.ask("web")).records == ("10.0.0.9",)


def theirs_known(connect: NameServer, was: PublishedName) -> NameServer:
    """The same server as one sees it who has not looked again."""
    connect._known[was.name] = was
    return connect


async def test_a_name_that_is_gone_is_neither_changed_nor_deleted(theirs: ExternalServer) -> None:
    connect = theirs.connect()
    await connect.list(PublishedName)
    await connect.create(name())
    await theirs.connect().list(PublishedName)
    await theirs.edit(lambda update: update.delete("web"))
    await theirs.edit(lambda update: update.delete("_hanse.web"))
    await connect.list(PublishedName)

    with pytest.raises(Conflict, match="has no name web"):
        await connect.update(name("web", "10.0.0.9"))
    with pytest.raises(NotFound, match="has no name web"):
        await connect.delete(name())


async def test_a_name_that_lost_its_mark_is_no_longer_ours(theirs: ExternalServer) -> None:
    connect = theirs.connect()
    await connect.list(PublishedName)
    await connect.create(name())
    await theirs.edit(lambda update: update.delete("_hanse.web", "TXT"))

    with pytest.raises(Conflict):
        await connect.delete(name())

    assert (await theirs.ask("web")).records == ("10.0.0.1",)
    assert (await connect.read(PublishedName, f"web.{ZONE}")).metadata.labels == {}


async def test_records_of_other_types_beside_ours_are_left_alone(theirs: ExternalServer) -> None:
    connect = theirs.connect()
    await connect.list(PublishedName)
    await connect.create(name())
    await theirs.edit(lambda update: update.add("web", 5, "MX", "10 www"))

    await connect.update(name("web", "10.0.0.9"))
    await connect.delete(name("web", "10.0.0.9"))

    assert (await theirs.ask("web", "MX")).records == (f"10 www.{ZONE}.",)
    assert (await theirs.ask("web")).code == NODATA


@pytest.mark.parametrize(
    ("key", "zone", "error"),
    [
        pytest.param(KEY.replace("c2Vj", "AAAA"), ZONE, BadCredentials, id="another secret"),
        pytest.param(KEY.replace('"hanse"', '"riga"'), ZONE, BadCredentials, id="another name"),
        pytest.param("", ZONE, Forbidden, id="no key"),
        pytest.param(KEY, "example.com", KubeError, id="a zone that is not served"),
    ],
)
async def test_a_server_that_refuses_our_credentials_is_reported_as_such(
    theirs: ExternalServer, key: str, zone: str, error: type[KubeError]
) -> None:
    connect = theirs.connect(key, zone)
    unseen = replace(name(), metadata=Meta(name=f"web.{zone}"))

    for attempt in (lambda: connect.list(PublishedName), lambda: connect.create(unseen)):
        with pytest.raises(error) as published:
            await attempt()
        assert isinstance(published.value, Forbidden | BadCredentials)
        assert "name server 127.0.0.1" in str(published.value)
        assert "c2Vj" not in str(published.value)


async def test_a_server_that_is_gone_is_unreachable() -> None:
    gone = ExternalServer(1).connect()

    with pytest.raises(Unreachable, match="does not answer"):
        await gone.list(PublishedName)


async def test_a_zone_is_transferred_only_when_it_has_changed(theirs: ExternalServer) -> None:
    connect = theirs.connect()
    first = await connect.list(PublishedName)

    again = await connect.list(PublishedName)
    await theirs.edit(lambda update: update.add("new", 5, "A", "192.0.2.1"))
    after = await connect.list(PublishedName)

    assert all(one is other for one, other in zip(first, again, strict=True)), "as it was kept"
    assert len(after) == len(first) + 1


async def test_stopping_is_never_missed_whatever_is_under_way(theirs: ExternalServer) -> None:
    for steps in range(60):
        connect = theirs.connect()
        listing = asyncio.create_task(connect.list(PublishedName))
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        over = listing.done()
        listing.cancel()
        await asyncio.wait({listing})

        assert over or listing.cancelled(), f"after {steps} steps it went on"
        if over:
            break
