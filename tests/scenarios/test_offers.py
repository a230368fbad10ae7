"""People offer, edit and withdraw; others meddle, or were there first."""

from datetime import timedelta

from hanse.app import BROKER
from hanse.model.kinds.core import ConfigMap
from tests.scenarios.market import Market
from tests.support.stage import Stage, told
from tests.support.toy import HOME


async def test_an_offer_reaches_every_cluster(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")

    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.is_told("lubeck", "bread", "yes"))


async def test_offers_of_one_name_are_shown_together(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("bergen", "bread", "5")

    await stage.eventually(market.everywhere("bread", lubeck="3", bergen="5"))

    await market.withdraw("lubeck", "bread")

    await stage.eventually(market.everywhere("bread", bergen="5"))


async def test_an_edit_follows(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))

    await market.reprice("lubeck", "bread", "4")

    await stage.eventually(market.everywhere("bread", lubeck="4"))


async def test_a_withdrawal_removes_everywhere(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("lubeck", "salt", "8")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.everywhere("salt", lubeck="8"))

    await market.withdraw("lubeck", "bread")

    await stage.eventually(market.nowhere("bread"))
    await market.everywhere("salt", lubeck="8")()
    assert await market.found(BROKER, f"{stage.shop}.bread.lubeck", HOME) is None


async def test_a_copy_edited_by_hand_is_repaired(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))

    await market.edit("hamburg", "copy-of-bread", {"data": {"lubeck": '{"price":"free"}'}})

    await stage.eventually(market.everywhere("bread", lubeck="3"))


async def test_a_copy_deleted_by_hand_comes_back(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))

    await market.remove("hamburg", "copy-of-bread")
    await market.remove("bergen", "receipt-of-bread")

    await stage.eventually(market.everywhere("bread", lubeck="3"))


async def test_what_others_add_to_a_copy_stays(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await market.edit("hamburg", "copy-of-bread", {"metadata": {"annotations": {"note": "mine"}}})

    await market.reprice("lubeck", "bread", "4")
    await stage.eventually(market.everywhere("bread", lubeck="4"))

    copy = await market.found("hamburg", "copy-of-bread")
    assert copy is not None
    assert copy.metadata.annotations["note"] == "mine"


async def test_a_foreign_object_of_our_name_is_untouched_and_told_and_replaced_when_it_goes(
    stage: Stage, market: Market
) -> None:
    mine = await market.squat("hamburg", "copy-of-bread")
    await market.offer("lubeck", "bread", "3")

    await stage.eventually(market.shows("bergen", "bread", lubeck="3"))
    await stage.eventually(market.agent_tells("hamburg", "Foreign", "copy-of-bread"))
    await stage.settled()
    assert await market.found("hamburg", "copy-of-bread") == mine
    assert await market.found("hamburg", "receipt-of-bread") is None, "a later step was taken"

    await market.remove("hamburg", "copy-of-bread")

    await stage.eventually(market.everywhere("bread", lubeck="3"))


async def test_a_foreign_record_is_told_where_the_offer_is(stage: Stage, market: Market) -> None:
    record = f"{stage.shop}.bread.lubeck"
    mine = await market.squat(BROKER, record, HOME)

    await market.offer("lubeck", "bread", "3")

    await stage.eventually(market.is_told("lubeck", "bread", "exists already"))
    assert await market.found(BROKER, record, HOME) == mine

    await stage.person(BROKER).delete(ConfigMap, record, HOME)

    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.is_told("lubeck", "bread", "yes"))


async def test_a_settled_fleet_writes_nothing(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.settled()

    writes = await stage.writes_during(timedelta(seconds=5))

    assert told(writes) == []
