"""The page of 60 clusters with 5,000 services in Chromium: until it is painted, and an update."""

import asyncio
import json
import random
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from statistics import median

from tests.web.dashboard.browser import PROGRAM, Page, browsing

from bench.figures import AtMost, Figure
from bench.row import Effort, Once, Row, Skip
from bench.rows.judgement import CLUSTERS, SERVICES, as_read, fleet_objects
from hanse.app.views import views
from hanse.cli.fleet import build_fleet
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.objects import Object
from hanse.model.snapshot import ObjectChange
from hanse.web.dashboard.actions import PageActions
from hanse.web.dashboard.auth import Authenticator
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.server import serving
from hanse.web.dashboard.updates import UPDATE_INTERVAL, LiveUpdates

UPDATES = 10
_OBSERVER = """
const services = () => document.querySelector('.tile[href="#/services"] b')?.textContent;
const cards = () => document.querySelectorAll('.cards a').length;
window.shown = {};
new MutationObserver(() => {
  const now = `${cards()} ${services()}`;
  if (now in window.shown) return;
  window.shown[now] = 0;
  requestAnimationFrame(() => setTimeout(() => { window.shown[now] = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
"""Notes when each count of clusters and services was first painted: after the next frame."""


class _ChangingFleet:
    """A fleet whose last service comes and goes."""

    def __init__(self, services: int) -> None:
        now = datetime.now(UTC)
        objects = fleet_objects(services + 1, now)
        last = f"s{services}"
        self._last = {
            name: [one for one in found if _is_of(one, last)] for name, found in objects.items()
        }
        without = {
            name: [one for one in found if not _is_of(one, last)] for name, found in objects.items()
        }
        self._with, self._without = (
            build_fleet([as_read(name, found) for name, found in each.items()], now)
            for each in (objects, without)
        )
        self.snapshot: MultiClusterSnapshot = self._without

    def change(self) -> Iterable[ObjectChange]:
        """Add the last service, or remove it; what watches report of it."""
        comes = self.snapshot is self._without
        self.snapshot = self._with if comes else self._without
        for name, found in self._last.items():
            for one in found:
                yield ObjectChange(name, None if comes else one, one if comes else None)


def _is_of(obj: Object, service: str) -> bool:
    return obj.name == service or obj.name.startswith(f"{service}-")


@asynccontextmanager
async def _opened(effort: Effort) -> AsyncIterator[Once]:
    if not PROGRAM:
        raise Skip("no Chromium here: apt-get install chromium")
    services = effort.of(SERVICES, 200)
    fleet = _ChangingFleet(services)
    async with browsing() as page:
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=_OBSERVER)
        yield lambda: _once(page, fleet, services)


async def _once(page: Page, fleet: _ChangingFleet, services: int) -> dict[str, float]:
    """Open the page of a process that nobody has asked before, and change its fleet."""
    updates = LiveUpdates(ItemCache(views(), lambda: fleet.snapshot))
    auth, listener = Authenticator(), socket.create_server(("127.0.0.1", 0))
    address = "http://{}:{}".format(*listener.getsockname()[:2])
    async with serving(updates, auth, PageActions(), listener):
        await page.open(f"{address}/enter/{auth.issue_code()}")
        whole = await _painted(page, services)
        first = await page.ask(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        began = await page.ask("performance.timeOrigin")
        took = []
        for number in range(1, UPDATES + 1):
            await asyncio.sleep(random.uniform(1, 2) * UPDATE_INTERVAL)  # at no fixed phase
            await page.ask("window.shown = {}")
            changed = time.time() * 1000 - began
            for change in fleet.change():
                updates.on_change(change.where, change)
            took.append(await _painted(page, services + number % 2) - changed)
    return {
        "first paint": first / 1000,
        "whole fleet": whole / 1000,
        "update": median(took),
        "slowest update": max(took),
    }


async def _painted(page: Page, services: int) -> float:
    """When a count of services was first painted beside all clusters; the page's milliseconds."""
    shown = f"window.shown?.[{json.dumps(f'{CLUSTERS + 1} {services}')}]"
    await page.until(shown)
    return float(await page.ask(shown))


PAGE = Row(
    name="page",
    about="the page of 60 clusters with 5,000 services in Chromium: opened, and a service changes",
    against="fixed goals; the browser runs on the same machine",
    figures=(
        Figure("first paint", "s", AtMost(1.0)),
        Figure("whole fleet", "s"),
        Figure("update", "ms", AtMost(300.0)),
        Figure("slowest update", "ms"),
    ),
    prepare=_opened,
)
