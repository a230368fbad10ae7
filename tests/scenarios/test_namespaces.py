"""Namespaces that come late, go, and come again."""

from tests.scenarios.market import Market
from tests.support.stage import Stage


async def test_a_namespace_that_appears_later_gets_its_copies(stage: Stage, market: Market) -> None:
    late = f"{stage.shop}-late"
    for cluster in ("lubeck", "bergen"):
        await stage.make_namespace(cluster, late)
    await market.offer("lubeck", "bread", "3", late)
    await stage.eventually(market.shows("bergen", "bread", late, lubeck="3"))

    await stage.make_namespace("hamburg", late)

    await stage.eventually(market.everywhere("bread", late, lubeck="3"))


async def test_a_deleted_namespace_takes_its_copies_with_it_and_no_others(
    stage: Stage, market: Market
) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))

    await stage.delete_namespace("hamburg", stage.shop)

    await stage.eventually(stage.has_no_namespace("hamburg", stage.shop))
    await market.shows("lubeck", "bread", lubeck="3")()
    await market.shows("bergen", "bread", lubeck="3")()


async def test_a_namespace_made_anew_gets_its_copies_again(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.delete_namespace("hamburg", stage.shop)
    await stage.eventually(stage.has_no_namespace("hamburg", stage.shop))

    await stage.make_namespace("hamburg", stage.shop)

    await stage.eventually(market.everywhere("bread", lubeck="3"))


async def test_offers_go_with_the_namespace_they_were_made_in(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("bergen", "bread", "5")
    await stage.eventually(market.everywhere("bread", lubeck="3", bergen="5"))

    await stage.delete_namespace("lubeck", stage.shop)

    await stage.eventually(stage.has_no_namespace("lubeck", stage.shop))
    await stage.eventually(market.shows("hamburg", "bread", bergen="5"))
    await stage.eventually(market.shows("bergen", "bread", bergen="5"))
