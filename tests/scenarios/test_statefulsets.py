"""StatefulSets over clusters: submitted at the door, run everywhere, scaled without a move."""

from hanse.model.kinds.apps import StatefulSet
from tests.scenarios.shipyard import Shipyard


async def test_the_designs_example_runs_as_four_four_and_three(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(11)

    await stage.eventually(shipyard.shares(bergen=4, hamburg=4, lubeck=3))
    door = await stage.eventually(shipyard.is_ready(11))

    assert (door.status.replicas, door.status.updated_replicas) == (11, 11)
    assert door.status.current_revision == door.status.update_revision
    await stage.eventually(shipyard.is_told(Valid="Valid", Placed="Placed", Ready="AllReady"))
    assert set(await shipyard.pods("lubeck")) == {f"store-lubeck-{n}" for n in range(3)}
    assert await shipyard.claims("lubeck") == {f"etcd-store-store-lubeck-{n}" for n in range(3)}
    copy = await shipyard.found("hamburg", StatefulSet, "store-hamburg")
    assert copy is not None
    assert copy.spec.service_name == "etcd"
