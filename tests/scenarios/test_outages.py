"""Clusters that cannot be reached, whose servers restart, or that go back to a backup."""

from datetime import timedelta

import pytest

from hanse.app import BROKER
from tests.scenarios.market import Market
from tests.support.stage import Stage, told

A_WHILE = timedelta(seconds=3)


async def test_while_the_broker_cannot_be_reached_nothing_is_lost_and_then_all_catch_up(
    stage: Stage, market: Market
) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("hamburg", "salt", "8")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.everywhere("salt", hamburg="8"))

    stage.cut_off_from_broker()
    await market.reprice("lubeck", "bread", "4")
    await market.withdraw("hamburg", "salt")
    await market.offer("bergen", "fish", "9")
    await stage.always(market.everywhere("bread", lubeck="3"), for_=A_WHILE)
    await market.everywhere("salt", hamburg="8")()
    stage.network.heal_all()

    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.nowhere("salt"))
    await stage.eventually(market.everywhere("fish", bergen="9"))


async def test_an_agent_that_starts_without_its_broker_keeps_what_it_finds(
    stage: Stage, market: Market
) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))

    stage.cut_off_from_broker("hamburg")
    await stage.kill_agent("hamburg")
    await stage.start_agent("hamburg")
    await stage.always(market.everywhere("bread", lubeck="3"), for_=A_WHILE)
    await market.withdraw("lubeck", "bread")
    await stage.eventually(market.shows("bergen", "bread"))
    await market.shows("hamburg", "bread", lubeck="3")()
    stage.network.heal_all()

    await stage.eventually(market.nowhere("bread"))


async def test_one_cluster_that_is_cut_off_does_not_hinder_the_others(
    stage: Stage, market: Market
) -> None:
    await market.offer("hamburg", "bread", "3")
    await stage.eventually(market.everywhere("bread", hamburg="3"))

    stage.cut_off_from_broker("hamburg")
    await market.offer("lubeck", "bread", "5")

    await stage.eventually(market.shows("bergen", "bread", hamburg="3", lubeck="5"))
    await market.shows("hamburg", "bread", hamburg="3")()

    stage.network.heal_all()

    await stage.eventually(market.everywhere("bread", hamburg="3", lubeck="5"))


@pytest.mark.parametrize("cluster", ["hamburg", BROKER])
async def test_a_restarted_api_server_costs_nothing_but_time(
    stage: Stage, market: Market, cluster: str
) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("hamburg", "salt", "8")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.everywhere("salt", hamburg="8"))
    await stage.settled()

    start = len(stage.network.sent)
    await stage.ground.restart_server(cluster)
    await stage.settled()
    assert told(stage.writes_since(start)) == []

    await market.reprice("lubeck", "bread", "4")
    await market.withdraw("hamburg", "salt")

    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.nowhere("salt"))


async def test_a_cluster_restored_from_a_backup_is_brought_up_to_date_and_keeps_what_is_its_own(
    stage: Stage, market: Market
) -> None:
    await market.offer("hamburg", "salt", "8")
    await market.offer("hamburg", "fish", "9")
    await market.offer("lubeck", "bread", "3")
    await market.offer("lubeck", "wine", "7")
    for name, price in (("salt", "8"), ("fish", "9")):
        await stage.eventually(market.everywhere(name, hamburg=price))
    for name, price in (("bread", "3"), ("wine", "7")):
        await stage.eventually(market.everywhere(name, lubeck=price))
    await stage.settled()
    backup = await stage.ground.back_up("hamburg")

    await market.reprice("lubeck", "bread", "4")
    await market.withdraw("lubeck", "wine")
    await market.withdraw("hamburg", "fish")
    await market.offer("lubeck", "rye", "2")
    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.nowhere("wine"))
    await stage.eventually(market.nowhere("fish"))
    await stage.eventually(market.everywhere("rye", lubeck="2"))
    await stage.ground.restore("hamburg", backup)

    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.nowhere("wine"))
    await stage.eventually(market.everywhere("rye", lubeck="2"))
    await stage.eventually(market.everywhere("salt", hamburg="8"))
    await stage.eventually(market.everywhere("fish", hamburg="9"))
    offers = [await market.found("hamburg", name) for name in ("salt", "fish")]
    assert all(offer is not None for offer in offers), "a restored offer was lost"


async def test_a_broker_restored_from_a_backup_gets_what_it_lacks_and_loses_what_is_gone(
    stage: Stage, market: Market
) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("hamburg", "salt", "8")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.everywhere("salt", hamburg="8"))
    await stage.settled()
    backup = await stage.ground.back_up(BROKER)

    await market.reprice("lubeck", "bread", "4")
    await market.withdraw("hamburg", "salt")
    await market.offer("bergen", "fish", "9")
    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.nowhere("salt"))
    await stage.eventually(market.everywhere("fish", bergen="9"))
    await stage.ground.restore(BROKER, backup)

    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.nowhere("salt"))
    await stage.eventually(market.everywhere("fish", bergen="9"))
