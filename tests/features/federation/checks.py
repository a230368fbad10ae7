"""Checks of a federation with the toy leader's flags."""

from hanse.model.conditions import find_condition
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId
from hanse.model.ownership import OWNER
from tests.support.federation import FederationScenario
from tests.support.scenario import Check

SHOP = "shop"


def no_flag(membership: FederationScenario, cluster: ClusterId) -> Check[None]:
    async def check() -> None:
        listed = await membership.admin(cluster).list(ConfigMap, namespace=SHOP, labels=OWNER)
        assert not listed.objects, f"{cluster} still flies a flag"

    return check


async def flag_uid(membership: FederationScenario, cluster: ClusterId) -> str:
    return (await membership.admin(cluster).read(ConfigMap, "flag", SHOP)).metadata.uid


def condition_says(
    membership: FederationScenario, cluster: ClusterId, type_: str, text: str
) -> Check[None]:
    """That a condition is False, and its message has these words."""

    async def check() -> None:
        found = await membership.federation_of(cluster)
        bad = find_condition(found.status.conditions, type_)
        assert bad is not None, found.status
        assert bad.status == "False", found.status
        assert text in bad.message, bad.message

    return check
