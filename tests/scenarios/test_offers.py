"""Offers of the toy feature: create, edit, withdraw; foreign edits and foreign objects."""

from datetime import timedelta

from hanse.app import BROKER
from hanse.model.kinds.core import ConfigMap
from tests.scenarios.toy_offers import OffersScenario
from tests.support.scenario import Scenario, describe_writes
from tests.support.toy import HOME


async def test_an_offer_reaches_every_cluster(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.has_conditions("lubeck", "bread", "yes"))


async def test_offers_of_one_name_are_shown_together(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("bergen", "bread", "5")

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3", bergen="5"))

    await toy_offers.withdraw("lubeck", "bread")

    await scenario.eventually(toy_offers.everywhere("bread", bergen="5"))


async def test_an_edit_follows(scenario: Scenario, toy_offers: OffersScenario) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await toy_offers.reprice("lubeck", "bread", "4")

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))


async def test_a_withdrawal_removes_everywhere(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("lubeck", "salt", "8")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.everywhere("salt", lubeck="8"))

    await toy_offers.withdraw("lubeck", "bread")

    await scenario.eventually(toy_offers.nowhere("bread"))
    await toy_offers.everywhere("salt", lubeck="8")()
    assert await toy_offers.found(BROKER, f"{scenario.namespace}.bread.lubeck", HOME) is None


async def test_a_copy_edited_by_hand_is_repaired(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await toy_offers.edit("hamburg", "copy-of-bread", {"data": {"lubeck": '{"price":"free"}'}})

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))


async def test_a_copy_deleted_by_hand_comes_back(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await toy_offers.remove("hamburg", "copy-of-bread")
    await toy_offers.remove("bergen", "receipt-of-bread")

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))


async def test_what_others_add_to_a_copy_stays(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await toy_offers.edit(
        "hamburg", "copy-of-bread", {"metadata": {"annotations": {"note": "mine"}}}
    )

    await toy_offers.reprice("lubeck", "bread", "4")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))

    copy = await toy_offers.found("hamburg", "copy-of-bread")
    assert copy is not None
    assert copy.metadata.annotations["note"] == "mine"


async def test_a_foreign_object_of_our_name_is_untouched_and_reported_and_replaced_when_it_goes(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    mine = await toy_offers.squat("hamburg", "copy-of-bread")
    await toy_offers.offer("lubeck", "bread", "3")

    await scenario.eventually(toy_offers.shows("bergen", "bread", lubeck="3"))
    await scenario.eventually(toy_offers.agent_has_outcome("hamburg", "Foreign", "copy-of-bread"))
    await scenario.settled()
    assert await toy_offers.found("hamburg", "copy-of-bread") == mine
    assert await toy_offers.found("hamburg", "receipt-of-bread") is None, "a later step was taken"

    await toy_offers.remove("hamburg", "copy-of-bread")

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))


async def test_a_foreign_record_is_reported_where_the_offer_is(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    record = f"{scenario.namespace}.bread.lubeck"
    mine = await toy_offers.squat(BROKER, record, HOME)

    await toy_offers.offer("lubeck", "bread", "3")

    await scenario.eventually(toy_offers.has_conditions("lubeck", "bread", "exists already"))
    assert await toy_offers.found(BROKER, record, HOME) == mine

    await scenario.admin(BROKER).delete(ConfigMap, record, HOME)

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.has_conditions("lubeck", "bread", "yes"))


async def test_a_settled_fleet_writes_nothing(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.settled()

    writes = await scenario.writes_during(timedelta(seconds=5))

    assert describe_writes(writes) == []
