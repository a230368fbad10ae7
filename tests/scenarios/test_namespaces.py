"""Namespaces that are created late, deleted, and recreated."""

from tests.scenarios.toy_offers import OffersScenario
from tests.support.scenario import Scenario


async def test_a_namespace_that_appears_later_gets_its_copies(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    late = f"{scenario.namespace}-late"
    for cluster in ("lubeck", "bergen"):
        await scenario.make_namespace(cluster, late)
    await toy_offers.offer("lubeck", "bread", "3", late)
    await scenario.eventually(toy_offers.shows("bergen", "bread", late, lubeck="3"))

    await scenario.make_namespace("hamburg", late)

    await scenario.eventually(toy_offers.everywhere("bread", late, lubeck="3"))


async def test_a_deleted_namespace_takes_its_copies_with_it_and_no_others(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await scenario.delete_namespace("hamburg", scenario.namespace)

    await scenario.eventually(scenario.has_no_namespace("hamburg", scenario.namespace))
    await toy_offers.shows("lubeck", "bread", lubeck="3")()
    await toy_offers.shows("bergen", "bread", lubeck="3")()


async def test_a_recreated_namespace_gets_its_copies_again(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.delete_namespace("hamburg", scenario.namespace)
    await scenario.eventually(scenario.has_no_namespace("hamburg", scenario.namespace))

    await scenario.make_namespace("hamburg", scenario.namespace)

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))


async def test_offers_go_with_the_namespace_they_were_made_in(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("bergen", "bread", "5")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3", bergen="5"))

    await scenario.delete_namespace("lubeck", scenario.namespace)

    await scenario.eventually(scenario.has_no_namespace("lubeck", scenario.namespace))
    await scenario.eventually(toy_offers.shows("hamburg", "bread", bergen="5"))
    await scenario.eventually(toy_offers.shows("bergen", "bread", bergen="5"))
