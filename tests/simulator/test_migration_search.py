"""Orders of a migration that are played as trees, and the bound of a fleet without Lighthouse."""

import asyncio

import pytest

from hanse.features.services import lighthouse
from hanse.features.services.feature import Services
from hanse.features.services.zone import ServiceZone
from hanse.kube.lease_observer import RECONNECT_TIME
from hanse.model.kinds.discovery import Endpoint
from tests.scenarios.services import ServicesScenario
from tests.support.simulator.fleet import Fleet
from tests.support.simulator.loop import run
from tests.support.simulator.migration import LEASE, Order, Step
from tests.support.simulator.migration_search import TREE, Trees, draw_order
from tests.support.testbed_embedded import embedded_testbed

UPGRADE = Step("upgrade", "lubeck")
RIGHT = Order("0.14", (UPGRADE, Step("crash", "lubeck")), "leases")
WRONG = Order("0.14", (UPGRADE, Step("pods", "lubeck", "web", 0)), "leases")


def test_the_orders_of_a_tree_begin_alike_and_are_all_different() -> None:
    orders = [draw_order(number) for number in range(3 * TREE, 4 * TREE)]

    assert len({order.steps for order in orders}) == TREE
    assert len({order.steps[0] for order in orders}) == 1
    assert len({(order.version, order.lags) for order in orders}) == 1


def failures() -> dict[Order, str]:
    trees = Trees()
    try:
        return trees.failures_of([RIGHT, WRONG])
    finally:
        trees.end()


def test_a_branch_that_breaks_the_law_is_told_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: clusters with Lighthouse agents are not told that the last pod is gone."""
    right, ready_pods = failures(), lighthouse._ready_pods
    stale = (Endpoint(addresses=("10.9.9.9",)),)

    monkeypatch.setattr(lighthouse, "_ready_pods", lambda pods: ready_pods(pods) or stale)

    assert right == {}
    assert list(failures()) == [WRONG]


async def _answers_after_both_were_away(returns: float) -> list[tuple[float, bool]]:
    """When answers of lubeck begin and cease to name hamburg, which has unexported meanwhile.

    Seconds since lubeck is back; hamburg `returns` so much later.
    """
    async with embedded_testbed() as testbed, Fleet(testbed, "shop") as fleet:
        fleet.features = lambda: (Services(),)
        fleet.extra_watches = ServiceZone.watches
        fleet.zone_sources = lambda view: (ServiceZone(view),)
        users, name = ServicesScenario(fleet), "hamburg.web.shop.svc.clusterset.local"
        await users.open(lease=LEASE)
        await users.serve("hamburg", "web")
        await users.pods("hamburg", "web", True)
        await users.export("hamburg", "web")
        for cluster in fleet.names:
            await fleet.start_agent(cluster)
        await asyncio.sleep(2 * LEASE)
        assert fleet.ask("lubeck", name).records
        for cluster in ("lubeck", "hamburg"):
            await fleet.kill_agent(cluster)
        await users.unexport("hamburg", "web")
        await asyncio.sleep(2 * LEASE)
        await fleet.start_agent("lubeck")
        began, found = fleet.now, list[tuple[float, bool]]()
        while fleet.now < began + 2 * (LEASE + RECONNECT_TIME):
            named = bool(fleet.ask("lubeck", name).records)
            if named != (found[-1][1] if found else False):
                found.append((fleet.now - began, named))
            if fleet.now >= began + returns and "hamburg" not in fleet.agents:
                await fleet.start_agent("hamburg")
            await asyncio.sleep(0.1)
        return found


@pytest.mark.parametrize("returns", [5.0, 1000.0], ids=["returns", "stays away"])
def test_what_stood_before_both_were_away_is_answered_until_the_other_returns_or_for_a_time(
    returns: float,
) -> None:
    """Both away is like a restored broker: what stands decides, for the Lease and a while."""
    found = run(_answers_after_both_were_away(returns))

    assert [named for _, named in found] in ([True, False], [])
    assert all(at <= min(returns, LEASE + RECONNECT_TIME) + 1 for at, _ in found)
