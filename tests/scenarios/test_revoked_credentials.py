"""Credentials of supervisors that a member revokes: the status says so; a new token mends it."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federation.feature import Membership
from hanse.features.federation.manifests import account_name
from hanse.kube.requests import delete
from hanse.model.kinds.federation import SYSTEM, MemberState
from hanse.model.manifests import SERVICE_ACCOUNT
from hanse.model.objects import ClusterId
from tests.scenarios.disturbances import EACH, Disturbance, disturb
from tests.scenarios.federated import FederatedScenario, address, two_exporters
from tests.support.federation import create_or_patch
from tests.support.scenario import Check, Features, Scenario

L1, B1 = address("lubeck", 1), address("bergen", 1)


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices())


@pytest.fixture
async def federated(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    async with two_exporters(scenario) as federated:
        yield federated


def member_state(
    federated: FederatedScenario, supervisor: ClusterId, *, reachable: bool, message: str
) -> Check[MemberState]:
    """That a supervisor's status has this of bergen."""

    async def check() -> MemberState:
        status = (await federated.membership.federation_of(supervisor)).status
        (found,) = [m for m in status.members if m.cluster_id == "bergen"]
        assert found.reachable == reachable, found
        assert message in found.message, found
        return found

    return check


@pytest.mark.parametrize("how", EACH)
async def test_a_revoked_token_is_in_the_status_with_its_remedy_until_there_is_a_new_one(
    federated: FederatedScenario, how: Disturbance
) -> None:
    scenario, membership = federated.scenario, federated.membership

    for supervisor in membership.supervisors:
        account = delete(SERVICE_ACCOUNT, account_name(supervisor), SYSTEM)
        await federated.admin("bergen").send(account)
    for supervisor in membership.supervisors:
        await disturb(scenario, how, supervisor, "bergen")

    for supervisor in membership.supervisors:
        remedy = f"--cluster-id bergen --context bergen --supervisor {supervisor}"
        lost = member_state(federated, supervisor, reachable=False, message=remedy)
        assert "401" in (await scenario.eventually(lost)).message
        await scenario.eventually(
            membership.has_conditions(supervisor, MembersReachable="CredentialsRejected")
        )
    await federated.everywhere(lubeck=[L1], bergen=[B1])()

    for supervisor in membership.supervisors:
        secret = await membership.secret_for("bergen", supervisor)
        await create_or_patch(federated.admin(supervisor), secret)
    for supervisor in membership.supervisors:
        found = member_state(federated, supervisor, reachable=True, message="")
        assert (await scenario.eventually(found)).message == ""
    await scenario.eventually(membership.is_led("bergen"))


@pytest.mark.parametrize("how", EACH)
async def test_revoking_one_supervisor_revokes_exactly_one(
    federated: FederatedScenario, how: Disturbance
) -> None:
    scenario, membership = federated.scenario, federated.membership

    await federated.admin("bergen").send(delete(SERVICE_ACCOUNT, account_name("lubeck"), SYSTEM))
    await disturb(scenario, how, "hamburg", "bergen")

    await scenario.eventually(member_state(federated, "lubeck", reachable=False, message="401"))
    await scenario.eventually(membership.is_led("bergen", "hamburg"))
    await federated.pods("bergen", 1, 2)
    for cluster in ("hamburg", "bergen"):
        await scenario.eventually(
            federated.has(cluster, lubeck=[L1], bergen=[B1, address("bergen", 2)])
        )
    await member_state(federated, "hamburg", reachable=True, message="")()
