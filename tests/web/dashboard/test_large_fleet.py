"""The page of a large fleet in a real browser: what is wrong is seen before anything else."""

import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from bench.rows.judgement import CLUSTERS, as_read, fleet_objects
from msgspec.structs import replace

from hanse.app.views import views
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import Object
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
