"""What is said of who leads the GSLB configuration, and of what that one has."""

import pytest
from msgspec.structs import replace

from hanse.model.kinds.gslb import AMKOCluster, AMKOClusterSpec
from hanse.model.objects import Meta, Object
from tests.features.gslb.fleet import config, policy
from tests.support.fleet_reads import findings, read

LEADER = AMKOCluster(
    metadata=Meta(name="amko", namespace="avi-system"),
    spec=AMKOClusterSpec(is_leader=True, cluster_context="lubeck", clusters=("lubeck",)),
)


@pytest.mark.parametrize(
    ("objects", "missing"),
    [
        ((config("lubeck"),), "GlobalDeploymentPolicy"),
        ((policy("lubeck"),), "GSLBConfig"),
        ((config("lubeck"), policy("lubeck")), ""),
        ((), ""),
    ],
)
def test_a_leader_with_half_of_a_configuration_is_told_what_it_lacks(
    objects: tuple[Object, ...], missing: str
) -> None:
    found = [one for one in findings(read("lubeck", LEADER, *objects)) if "Gslb" in one.code]

    assert [one.code for one in found] == (["GslbIncomplete"] if missing else [])
    for one in found:
        assert str(one.subject) == "AMKOCluster avi-system/amko in lubeck"
        assert f"has no {missing} in avi-system" in one.summary
        assert one.remedy.ask


def test_one_that_was_created_in_another_namespace_leads_nothing_and_hides_nobody() -> None:
    misplaced = replace(LEADER, metadata=Meta(name="amko", namespace="default"))
    follower = replace(LEADER, spec=replace(LEADER.spec, is_leader=False))

    codes = [
        {one.code for one in findings(read("lubeck", own, misplaced))} & {"LeaderMissing"}
        for own in (LEADER, follower)
    ]

    assert codes == [set(), {"LeaderMissing"}]
