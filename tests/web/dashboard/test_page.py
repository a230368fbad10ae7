"""The page in a real browser, over a whole local federation."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cli.programs import RunningFederation, running, soon
from tests.web.dashboard.axe import axe_source, violations
from tests.web.dashboard.browser import PROGRAM, Page, browsing

pytestmark = pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium")

WIDTHS = (390, 1100, 1440, 2560)
INSIDE = (
    "[...document.querySelectorAll('.finding:first-child b, .finding:first-child .mend > *')]"
    ".slice(0, 2)"
    ".map(e => e.getBoundingClientRect())"
    ".every(r => r.top >= 0 && r.bottom <= innerHeight && r.right <= innerWidth)"
)
"""The cause and its remedy are within the first viewport."""
CUT_OFF = (
    "[...document.querySelectorAll('main .panel:has(> .rows)')]"
    ".filter(p => p.scrollWidth > p.clientWidth).map(p => p.innerText)"
)
"""The tables that are wider than their panel."""
IN_NAV = (
    "(r => r.left >= 0 && r.right <= innerWidth)"
    "(document.querySelector('#nav [aria-current]').getBoundingClientRect())"
)
"""The link to what is shown is seen."""
PICTURES = Path(os.environ.get("HANSE_PICTURES", "dist/pictures"))
"""Where pictures of the page are kept to be looked at."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """A local federation in which bergen has joined its Services: a cluster that is stopped is
    missed only where it was seen."""
    with running(tmp_path_factory.mktemp("page")) as federation:
        joined = "antrea-plus-system/web"
        soon(
            lambda: any(
                line.startswith(joined) and "bergen" in line
                for line in federation.run_hanse("status").out.splitlines()
            )
        )
        yield federation


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Page]:
    async with browsing() as page:
        yield page


@pytest.fixture
async def page(browser: Page) -> Page:
    """The page as it is for somebody who was never here."""
    await browser.call("Network.clearBrowserCookies")
    await browser.open("about:blank")
    browser.complaints.clear()
    return browser


async def entered(page: Page, fleet: RunningFederation, where: str = "") -> None:
    """Come in by a link, and go to a part of the page."""
    link = fleet.run_hanse("dashboard")
    assert link.status == 0, link.err
    await page.open(link.out.strip())
    await page.shows("Map")
    if where:
        await page.ask(f"location.hash = '#/{where}'")


async def test_the_fleet_is_a_map_in_light_and_in_dark(
    page: Page, fleet: RunningFederation
) -> None:
    for scheme in ("light", "dark"):
        await page.dress(scheme)
        await entered(page, fleet)
        for name in ("lubeck", "hamburg", "bergen", "broker"):
            await page.until(f"document.querySelector('.map a[aria-label^=\"{name}, \"]')")
        assert await page.ask("document.documentElement.dataset.theme") == scheme
        await page.picture(PICTURES / f"fleet-{scheme}.png")

    assert page.complaints == []


async def test_a_cluster_is_stopped_by_a_click_and_seen_to_go_and_to_come_back(
    page: Page, fleet: RunningFederation
) -> None:
    await entered(page, fleet, "fleet/bergen")

    await page.click("#kill")
    await page.until("document.querySelector('.map .node.bad')")
    await page.shows("Heal everything")
    await page.until("document.querySelector('.finding[data-code=ClusterUnreachable]')")
    for width in WIDTHS:
        await page.resize(width)
        await page.until(INSIDE)
        assert await page.ask("document.documentElement.scrollWidth") <= width
        assert await page.ask("document.querySelector('.map').clientHeight <= innerHeight")
        await page.picture(PICTURES / f"fleet-killed-{width}.png")
    await page.resize(1360)
    for part in ("services", "federated", "gslb", "statefulsets", "networks"):
        await page.until(f"document.querySelector('#nav a[href=\"#/{part}\"] .count.warn')")
    await page.click("#start")
    await page.until("!document.querySelector('.map .node.bad')")
    await page.until("!document.querySelector('#nav .count.warn')")

    assert page.complaints == []


VIEWS = (
    *("fleet", "fleet/bergen", "services", "services/shop/web", "names", "federated", "policies"),
    *("gslb", "statefulsets", "networks", "timeline", "whatif"),
)


@pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="a minute: make faults")
async def test_every_part_is_usable_by_all_while_a_cluster_is_gone(
    page: Page, fleet: RunningFederation
) -> None:
    source = axe_source()
    await entered(page, fleet, "fleet/bergen")
    await page.click("#kill")
    await page.until("document.querySelector('.finding[data-code=ClusterUnreachable]')")

    found = []
    for scheme, views in (("light", VIEWS), ("dark", VIEWS[:4])):
        await page.dress(scheme)
        await entered(page, fleet)
        for view in views:
            await page.ask(f"location.hash = '#/{view}'")
            await page.until("document.querySelector('main').childElementCount")
            found += [f"{scheme} {view}: {one}" for one in await violations(page, source)]
            await page.resize(390)
            assert await page.ask("document.documentElement.scrollWidth") <= 390, view
            assert await page.ask(CUT_OFF) == [], f"{view}: columns that are not seen at 390 px"
            await page.until(IN_NAV)  # the page hears of its new width a frame later
            await page.picture(PICTURES / f"{view.replace('/', '-')}-{scheme}-390.png")
            await page.resize(1360)
            await page.picture(PICTURES / f"{view.replace('/', '-')}-{scheme}.png")
    await page.ask("location.hash = '#/fleet/bergen'")
    await page.click("#start")
    await page.until("!document.querySelector('.map .node.bad')")

    assert found == []


async def test_a_link_is_cut_and_healed_by_a_click(page: Page, fleet: RunningFederation) -> None:
    await entered(page, fleet, "fleet/hamburg")

    await page.click("#cut-broker")
    await page.until("document.querySelector('.map .link.bad')")
    await page.click("#healall")
    await page.until("!document.querySelector('.map .link.bad')")


async def test_a_service_is_found_by_typing_and_shown_in_full(
    page: Page, fleet: RunningFederation
) -> None:
    await entered(page, fleet)

    await page.press("/")
    await page.type("web")
    await page.shows("found for “web”")
    await page.ask(
        "document.getElementById('search').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))"
    )
    await page.shows("Exported by")
    await page.shows("web.shop.svc.clusterset.local")
    await page.picture(PICTURES / "service.png")

    assert await page.ask("location.hash") == "#/services/shop/web"


async def test_a_new_export_appears_without_a_reload(page: Page, fleet: RunningFederation) -> None:
    await entered(page, fleet, "services")

    made = fleet.kubectl("create", "deployment", "late", "--image=x", "-n", "shop")
    exposed = fleet.kubectl("expose", "deployment", "late", "--port=80", "-n", "shop")
    assert (made.status, exposed.status) == (0, 0), made.err + exposed.err
    assert fleet.run_hanse("export", "late", "-n", "shop", "--context", "lubeck").status == 0
    await page.until("document.querySelector('tr[data-href=\"#/services/shop/late\"]')")
    await page.ask("location.hash = '#/timeline'")
    await page.shows("shop/late")
    await page.picture(PICTURES / "timeline.png")


def export(fleet: RunningFederation, name: str) -> None:
    """Export a new Service in lubeck."""
    made = fleet.kubectl("create", "service", "clusterip", name, "--tcp=80", "-n", "shop")
    assert made.status == 0, made.err
    assert fleet.run_hanse("export", name, "-n", "shop", "--context", "lubeck").status == 0


async def test_live_updates_keep_focus_scroll_and_selection(
    page: Page, fleet: RunningFederation
) -> None:
    row = "document.querySelector('tr[data-href=\"#/services/shop/{}\"]')"
    await page.resize(1360, 200)
    await entered(page, fleet, "services")
    await page.until(row.format("web"))
    await page.ask(row.format("web") + ".focus({preventScroll: true})")
    await page.ask("window.scrollTo(0, 40)")

    export(fleet, "first")
    await page.until(row.format("first"))
    assert await page.ask("document.activeElement.dataset.href") == "#/services/shop/web"
    assert await page.ask("window.scrollY") == 40

    await page.ask(f"getSelection().selectAllChildren({row.format('web')})")
    chosen = await page.ask("getSelection().toString()")
    export(fleet, "second")
    await page.shows("held while text is selected")
    assert await page.ask("getSelection().toString()") == chosen != ""
    await page.ask("getSelection().removeAllRanges()")
    await page.until(row.format("second"))
    await page.resize(1360)

    assert page.complaints == []


async def test_a_name_is_explained_and_a_bad_one_refused(
    page: Page, fleet: RunningFederation
) -> None:
    await entered(page, fleet, "names/web.shop.svc.clusterset.local/A")

    await page.shows("local first: hamburg is ready")
    await page.picture(PICTURES / "names.png")
    await page.ask("location.hash = '#/names/web..shop/A'")
    await page.until("document.querySelector('.note.bad')")


async def test_what_if_shows_every_write_that_would_follow(
    page: Page, fleet: RunningFederation
) -> None:
    await entered(page, fleet, "whatif")

    await page.until("document.getElementById('yaml')")
    await page.ask(
        "document.getElementById('yaml').value = document.getElementById('yaml').value"
        ".replace('name: web', 'name: soon')"
    )
    await page.ask("document.getElementById('yaml').dispatchEvent(new Event('input'))")
    await page.click("button.primary")
    await page.shows("ServiceExport shop/soon")
    await page.shows("create")
    await page.picture(PICTURES / "whatif.png")


async def test_without_the_token_the_page_shows_nothing_and_says_how_to_get_in(
    page: Page, fleet: RunningFederation
) -> None:
    address = fleet.run_hanse("dashboard").out.strip().partition("/enter/")[0]
    await page.open(address)

    await page.shows("This dashboard needs its token")
    assert "lubeck" not in await page.ask("document.body.innerText")
    await page.click("button.primary")
    await page.shows("That is not the token")


async def test_everything_that_can_be_clicked_or_filled_has_a_name(
    page: Page, fleet: RunningFederation
) -> None:
    unnamed = (
        "[...document.querySelectorAll('button, a, input, select, textarea')].filter(e => "
        "!(e.textContent.trim() || e.getAttribute('aria-label') || (e.labels && e.labels.length)))"
        ".map(e => e.outerHTML)"
    )
    await entered(page, fleet)
    for where in ("fleet/lubeck", "services/shop/web", "names", "timeline", "whatif"):
        await page.ask(f"location.hash = '#/{where}'")
        await page.until("document.querySelector('main h1')")

        assert await page.ask(unnamed) == []
