"""What is wrong with the connections of agents, as they see it themselves."""

import pytest

from hanse.app.views import examine
from hanse.features.services.feature import Services
from hanse.model.facts import HeartbeatState, Role
from hanse.model.fleet import MultiClusterSnapshot
from tests.support.builders import cluster, snapshot
from tinykube.virtual_time import EPOCH


@pytest.mark.parametrize("forbidden", [True, False])
def test_an_agent_that_may_not_renew_its_lease_on_the_broker_is_told_although_it_reads_it(
    forbidden: bool,
) -> None:
    clusters = [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER)]
    renewal = HeartbeatState("broker", not forbidden, EPOCH, forbidden=forbidden)
    agent = snapshot(Services("hanse-broker"), "lubeck", clusters, {}, [renewal])

    found = examine(MultiClusterSnapshot({"lubeck": agent})).findings

    join = "hanse join --broker broker --cluster-id lubeck --context lubeck"
    told = [(one.remedy.commands, one.summary) for one in found if one.code == "TokenRevoked"]
    refused = "broker refuses the agent of lubeck: its account may not use leases"
    assert told == ([((join,), refused)] if forbidden else [])
