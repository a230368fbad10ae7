"""The page of a large fleet in a real browser: what is wrong is seen before anything else."""

import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from bench.rows.judgement import CLUSTERS, as_read, fleet_objects
from msgspec.structs import replace

from hanse.app.views import examine, views
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.model.findings import Ref
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Node
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec
from hanse.model.objects import Meta, Object
from hanse.model.refused_writes import REFUSED_WRITES, RefusedWrites
from hanse.web.dashboard.actions import PageActions
from hanse.web.dashboard.auth import Authenticator
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.server import serving
from hanse.web.dashboard.updates import LiveUpdates
from tests.web.dashboard.browser import PROGRAM, Page, browsing
from tests.web.dashboard.test_page import INSIDE, PICTURES, WIDTHS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium"),
]

SERVICES = 300
NOTES_WHAT_IS_SAID = """
window.said = new Set();
new MutationObserver(() => said.add(document.querySelector('.wrong')?.innerText))
  .observe(document, { childList: true, subtree: true });
"""
BROKEN_BUTTONS = (
    "[...document.querySelectorAll('button.small')].filter(b => b.clientHeight > 30)"
    ".map(b => b.innerText)"
)
"""Buttons whose words are in several lines."""
Reads = Callable[[dict[str, list[Object]]], list[ClusterRead]]
"""Reads clusters that have these objects."""
LONG_AGO = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with browsing() as opened:
        yield opened


def silent(objects: list[Object], *clusters: str) -> list[Object]:
    """What a broker has, with Leases of clusters that were renewed long ago."""
    return [
        replace(one, spec=replace(one.spec, renew_time=LONG_AGO))
        if isinstance(one, Lease) and one.name in clusters
        else one
        for one in objects
    ]


def unreachable(objects: dict[str, list[Object]]) -> list[ClusterRead]:
    """Two clusters do not answer, and a third is silent."""
    objects["broker"] = silent(objects["broker"], "c7", "c8", "c31")
    reads = {name: as_read(name, found) for name, found in objects.items()}
    for name in ("c7", "c8"):
        reads[name] = ClusterRead(name, failure=f"{name}: connection refused")
    return list(reads.values())


def down(*names: str, failure: str = "connection refused", **why: Any) -> Reads:
    """Clusters that could not be read, for whatever reason."""
    return lambda objects: [
        ClusterRead(name, failure=f"{name}: {failure}", **why)
        if name in names
        else as_read(name, found)
        for name, found in objects.items()
    ]


def with_fields(name: str, **fields: Any) -> Reads:
    """One cluster of which more is known."""
    return lambda objects: [
        replace(as_read(one, found), **(fields if one == name else {}))
        for one, found in objects.items()
    ]


def with_objects(where: str, *more: Object, without: type[Object] | None = None) -> Reads:
    """A cluster with further objects, in place of those of a kind."""
    return lambda objects: [
        as_read(
            name,
            [*(o for o in found if without is None or not isinstance(o, without)), *more]
            if name == where
            else found,
        )
        for name, found in objects.items()
    ]


def without_endpoints(objects: dict[str, list[Object]]) -> list[ClusterRead]:
    return [
        as_read(name, [one for one in found if not isinstance(one, EndpointSlice)])
        for name, found in objects.items()
    ]


NODE = Node(metadata=Meta(name="a-node-with-quite-a-long-name.example.org"))
PAUSED = Namespace(metadata=Meta(name="hanse-system", annotations={"hanse.dev/paused": "true"}))
REFUSED = RefusedWrites(
    Ref("Webhook", "validate.policies.security.example.com", "", "c9"),
    812,
    "EndpointSlice shop/c3.s1-c3-shop-ipv4-75cea2c46257f37a3e2d",
    'Internal error occurred: failed calling webhook "validate.policies.security.example.com": '
    'failed to call webhook: Post "https://policies.security.svc:443/validate?timeout=10s": '
    "dial tcp 10.96.113.7:443: connect: connection refused",
    datetime(2026, 1, 1, tzinfo=UTC),
)
STATES: dict[str, Reads] = {
    "one down": down("c7"),
    "half of them down": down(*(f"c{number}" for number in range(0, CLUSTERS, 2))),
    "broker down": down("broker"),
    "credentials refused": down("c7", failure="Unauthorized", refused=True),
    "certificate expired": down("c7", failure="certificate has expired", untrusted=True),
    "half of them silent": lambda objects: [
        as_read(n, silent(o, *(f"c{number}" for number in range(0, CLUSTERS, 2))))
        for n, o in objects.items()
    ],
    "slow": with_fields("c7", slow=True),
    "agent without rights": with_fields(
        "c7", agent_forbidden=("endpointslices", "serviceimports", "networks", "leases")
    ),
    "nodes not ready": with_objects("c7", NODE),
    "agent paused": with_objects("c7", PAUSED),
    "fleet paused": with_objects(
        "broker",
        ClusterSet(metadata=Meta(name="default"), spec=ClusterSetSpec(paused=True)),
        without=ClusterSet,
    ),
    "two rules": with_objects("broker", ClusterSet(metadata=Meta(name="second"))),
    "nothing answers": without_endpoints,
    "writes refused": lambda objects: with_objects(
        "c9",
        refusing(next(o for o in objects["c9"] if isinstance(o, Lease)), REFUSED),
        without=Lease,
    )(objects),
}
"""What can be wrong with sixty clusters, some of it with many findings, some with long ones."""


def refusing(lease: Lease, refused: RefusedWrites) -> Lease:
    """The Lease of an agent that says who refuses what it writes."""
    text = msgspec.json.encode([refused]).decode()
    return replace(lease, metadata=replace(lease.metadata, annotations={REFUSED_WRITES: text}))


@pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="a minute: make faults")
@pytest.mark.parametrize("local", [True, False])
async def test_the_cause_and_its_remedy_are_in_the_first_view_whatever_is_wrong(
    page: Page, *, local: bool
) -> None:
    fleets = [build_fleet([], datetime.now(UTC))]
    items, auth = ItemCache(views(), lambda: fleets[-1]), Authenticator()
    listener = socket.create_server(("127.0.0.1", 0))
    address = "http://{}:{}".format(*listener.getsockname()[:2])
    async with serving(LiveUpdates(items), auth, PageActions(), listener):
        await page.open(f"{address}/enter/{auth.issue_code()}")
        for name, reads in STATES.items():
            now = datetime.now(UTC)
            fleets.append(build_fleet(reads(fleet_objects(SERVICES, now)), now, local=local))
            first = examine(fleets[-1]).findings[0]
            items.invalidate()
            told = f".finding:first-child[data-code={first.code}] .what b"
            text = json.dumps(first.summary)
            await page.until(f"document.querySelector('{told}')?.innerText === {text}")
            await page.until("!document.querySelector('.finding:first-child .mend:empty')")
            where = first.subject
            if where.cluster and not where.namespace:
                card = f"document.querySelector('.cards a[href=\"#/fleet/{where.cluster}\"]')"
                await page.until(f"!{card}.innerText.includes('healthy')")
            for width in WIDTHS:
                await page.resize(width)
                await page.until(INSIDE)
                assert await page.ask("document.documentElement.scrollWidth") <= width, name
                assert await page.ask(BROKEN_BUTTONS) == [], f"{name}: at {width} px"
                place = "local" if local else "fleet"
                await page.picture(PICTURES / f"{place}-{name.replace(' ', '-')}-{width}.png")

    assert page.complaints == []


async def test_of_sixty_clusters_the_troubled_ones_come_first_with_what_mends_them(
    page: Page,
) -> None:
    now = datetime.now(UTC)
    fleet = build_fleet(unreachable(fleet_objects(SERVICES, now)), now, local=True)
    updates, auth = LiveUpdates(ItemCache(views(), lambda: fleet)), Authenticator()
    listener = socket.create_server(("127.0.0.1", 0))
    address = "http://{}:{}".format(*listener.getsockname()[:2])

    await page.call("Page.addScriptToEvaluateOnNewDocument", source=NOTES_WHAT_IS_SAID)
    async with serving(updates, auth, PageActions(), listener):
        await page.open(f"{address}/enter/{auth.issue_code()}")
        await page.until(f"document.querySelectorAll('.cards a').length === {CLUSTERS + 1}")
        await page.until("document.querySelector('.finding[data-code=ClusterUnreachable]')")
        for width in WIDTHS:
            await page.resize(width)
            await page.until(INSIDE)
            assert await page.ask("document.documentElement.scrollWidth") <= width
            await page.picture(PICTURES / f"sixty-{width}.png")
        said = await page.ask("[...window.said]")
        first = await page.ask("[...document.querySelectorAll('.cards a b')].map(e => e.innerText)")
        rows = "[...document.querySelectorAll('table[aria-label=Clusters] td.name')]"
        first_rows = await page.ask(f"{rows}.map(e => e.innerText)")
        unread = await page.ask("document.querySelector('.cards a[href=\"#/fleet/c7\"]').innerText")

    assert "Nothing is wrong." not in said, "before everything was judged"
    assert "Not known yet: the fleet is being read." in said
    assert set(first[:3]) == set(first_rows[:3]) == {"c7", "c8", "c31"}
    assert "content not known" in unread
    assert page.complaints == []
