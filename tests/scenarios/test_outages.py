"""Clusters that cannot be reached, whose servers restart, or that go back to a backup."""

from datetime import timedelta

import pytest

from hanse.app import BROKER
from tests.scenarios.toy_offers import OffersScenario
from tests.support.scenario import Scenario, describe_writes

A_WHILE = timedelta(seconds=3)


async def test_while_the_broker_cannot_be_reached_nothing_is_lost_and_then_all_catch_up(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("hamburg", "salt", "8")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.everywhere("salt", hamburg="8"))

    scenario.cut_off_from_broker()
    await toy_offers.reprice("lubeck", "bread", "4")
    await toy_offers.withdraw("hamburg", "salt")
    await toy_offers.offer("bergen", "fish", "9")
    await scenario.always(toy_offers.everywhere("bread", lubeck="3"), for_=A_WHILE)
    await toy_offers.everywhere("salt", hamburg="8")()
    scenario.network.heal_all()

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.nowhere("salt"))
    await scenario.eventually(toy_offers.everywhere("fish", bergen="9"))


async def test_an_agent_that_starts_without_its_broker_keeps_what_it_finds(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    scenario.cut_off_from_broker("hamburg")
    await scenario.kill_agent("hamburg")
    await scenario.start_agent("hamburg")
    await scenario.always(toy_offers.everywhere("bread", lubeck="3"), for_=A_WHILE)
    await toy_offers.withdraw("lubeck", "bread")
    await scenario.eventually(toy_offers.shows("bergen", "bread"))
    await toy_offers.shows("hamburg", "bread", lubeck="3")()
    scenario.network.heal_all()

    await scenario.eventually(toy_offers.nowhere("bread"))


async def test_one_cluster_that_is_cut_off_does_not_hinder_the_others(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("hamburg", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", hamburg="3"))

    scenario.cut_off_from_broker("hamburg")
    await toy_offers.offer("lubeck", "bread", "5")

    await scenario.eventually(toy_offers.shows("bergen", "bread", hamburg="3", lubeck="5"))
    await toy_offers.shows("hamburg", "bread", hamburg="3")()

    scenario.network.heal_all()

    await scenario.eventually(toy_offers.everywhere("bread", hamburg="3", lubeck="5"))


@pytest.mark.parametrize("cluster", ["hamburg", BROKER])
async def test_a_restarted_api_server_costs_nothing_but_time(
    scenario: Scenario, toy_offers: OffersScenario, cluster: str
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("hamburg", "salt", "8")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.everywhere("salt", hamburg="8"))
    await scenario.settled()

    start = len(scenario.network.sent)
    await scenario.testbed.restart_server(cluster)
    await scenario.settled()
    assert describe_writes(scenario.writes_since(start)) == []

    await toy_offers.reprice("lubeck", "bread", "4")
    await toy_offers.withdraw("hamburg", "salt")

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.nowhere("salt"))


async def test_a_cluster_restored_from_a_backup_is_brought_up_to_date_and_keeps_what_is_its_own(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("hamburg", "salt", "8")
    await toy_offers.offer("hamburg", "fish", "9")
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("lubeck", "wine", "7")
    for name, price in (("salt", "8"), ("fish", "9")):
        await scenario.eventually(toy_offers.everywhere(name, hamburg=price))
    for name, price in (("bread", "3"), ("wine", "7")):
        await scenario.eventually(toy_offers.everywhere(name, lubeck=price))
    await scenario.settled()
    backup = await scenario.testbed.back_up("hamburg")

    await toy_offers.reprice("lubeck", "bread", "4")
    await toy_offers.withdraw("lubeck", "wine")
    await toy_offers.withdraw("hamburg", "fish")
    await toy_offers.offer("lubeck", "rye", "2")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.nowhere("wine"))
    await scenario.eventually(toy_offers.nowhere("fish"))
    await scenario.eventually(toy_offers.everywhere("rye", lubeck="2"))
    await scenario.testbed.restore("hamburg", backup)

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.nowhere("wine"))
    await scenario.eventually(toy_offers.everywhere("rye", lubeck="2"))
    await scenario.eventually(toy_offers.everywhere("salt", hamburg="8"))
    await scenario.eventually(toy_offers.everywhere("fish", hamburg="9"))
    offers = [await toy_offers.found("hamburg", name) for name in ("salt", "fish")]
    assert all(offer is not None for offer in offers), "a restored offer was lost"


async def test_a_broker_restored_from_a_backup_gets_what_it_lacks_and_loses_what_is_gone(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("hamburg", "salt", "8")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.everywhere("salt", hamburg="8"))
    await scenario.settled()
    backup = await scenario.testbed.back_up(BROKER)

    await toy_offers.reprice("lubeck", "bread", "4")
    await toy_offers.withdraw("hamburg", "salt")
    await toy_offers.offer("bergen", "fish", "9")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.nowhere("salt"))
    await scenario.eventually(toy_offers.everywhere("fish", bergen="9"))
    await scenario.testbed.restore(BROKER, backup)

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.nowhere("salt"))
    await scenario.eventually(toy_offers.everywhere("fish", bergen="9"))
