"""Whose addresses are mistaken for another cluster's, by the ranges in the records of members."""

import pytest

from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    ClusterSetSpec,
    MemberPhase,
    MemberRanges,
    MemberSettings,
)
from hanse.model.member_ranges import overlaps_of
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta

LIGHTHOUSE = ClusterSetSpec()
PODS = ClusterSetSpec(profile="kep-1645")


def member(name: str, pods: str, services: str, phase: MemberPhase = "Ready") -> ClusterMember:
    ranges = MemberRanges(pods=(pods,) if pods else (), services=(services,) if services else ())
    return ClusterMember(
        metadata=Meta(name=name, namespace=BROKER_NAMESPACE),
        spec=ClusterMemberSpec(cluster_id=name, uid=name, ranges=ranges),
        status=ClusterMemberStatus(phase=phase),
    )


LUBECK = member("lubeck", "10.1.0.0/16", "10.96.0.0/12")


@pytest.mark.parametrize(
    ("other", "rules", "ranges"),
    [
        pytest.param(member("bergen", "10.2.0.0/16", "172.16.0.0/16"), LIGHTHOUSE, None, id="none"),
        pytest.param(
            member("bergen", "10.1.8.0/24", "172.16.0.0/16"),
            PODS,
            ("10.1.8.0/24", "10.1.0.0/16"),
            id="pods",
        ),
        pytest.param(member("bergen", "10.2.0.0/16", "10.96.0.0/12"), PODS, None, id="unpublished"),
        pytest.param(
            member("bergen", "10.2.0.0/16", "10.96.0.0/12"),
            LIGHTHOUSE,
            ("10.96.0.0/12", "10.96.0.0/12"),
            id="services",
        ),
        pytest.param(
            member("bergen", "10.2.0.0/16", "10.1.0.0/24"),
            PODS,
            ("10.1.0.0/24", "10.1.0.0/16"),
            id="pods-and-services",
        ),
        pytest.param(member("bergen", "fd00::/56", ""), PODS, None, id="families"),
        pytest.param(member("bergen", "", ""), PODS, None, id="unknown"),
        pytest.param(member("bergen", "10.1.0.0/16", "", "Left"), PODS, None, id="left"),
    ],
)
def test_members_overlap_where_what_one_publishes_lies_in_the_ranges_of_the_other(
    other: ClusterMember, rules: ClusterSetSpec, ranges: tuple[str, str] | None
) -> None:
    found = [one.ranges for one in overlaps_of([LUBECK, other], rules)]
    again = [one.ranges for one in overlaps_of([other, LUBECK], rules)]

    assert found == again == ([ranges] if ranges else [])


def test_ranges_that_the_cluster_set_names_count_instead_of_those_that_are_found() -> None:
    bergen = member("bergen", "10.1.0.0/16", "")
    settings = (MemberSettings(id="bergen", ranges=("10.9.0.0/16",)),)
    rules = ClusterSetSpec(profile="kep-1645", clusters=settings)

    assert list(overlaps_of([LUBECK, bergen], PODS))
    assert not list(overlaps_of([LUBECK, bergen], rules))
