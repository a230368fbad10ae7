"""Findings about the records of members on a broker."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.features.fleet.findings import cluster_findings
from hanse.features.fleet.view import ClustersView
from hanse.kube.watch_events import Listed
from hanse.model.clusterset import oldest_clusterset
from hanse.model.facts import Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.judgement import Judgement
from hanse.model.kinds.core import Namespace, Node, ServiceAccount
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    ClusterSet,
    MemberPhase,
    MemberRanges,
)
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import ObjectChange, Watch
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def record(name: str, phase: MemberPhase, *, abandoned: bool = False) -> ClusterMember:
    return stored(
        ClusterMember(
            metadata=Meta(name=name, namespace=BROKER_NAMESPACE),
            spec=ClusterMemberSpec(cluster_id=name, uid="any"),
            status=ClusterMemberStatus(phase=phase, since=EPOCH, abandoned=abandoned),
        )
    )


def broker(*records: ClusterMember, sets: tuple[ClusterSet, ...] = ()) -> MultiClusterSnapshot:
    """A fleet of one broker."""
    lists: dict[Watch, Listed[Any]] = {
        Watch(Role.LOCAL, ClusterMember): Listed(records, "1"),
        Watch(Role.LOCAL, ClusterSet): Listed(sets, "1"),
    }
    return build_fleet([ClusterRead("hub", lists)], EPOCH)


def codes(*records: ClusterMember, sets: tuple[ClusterSet, ...] = ()) -> dict[str, str]:
    """The codes of what is wrong with a broker, with their remedies."""
    fleet = broker(*records, sets=sets)
    return {one.code: str(one.remedy) for one in cluster_findings("hub", fleet)}


RULES = ClusterSet(metadata=Meta(name="default"))


def test_a_broker_that_lost_its_rules_is_told_with_the_command_that_brings_them_back() -> None:
    found = codes(record("lubeck", "Ready"))

    assert found == {"ClusterSetMissing": "hanse broker init --context hub"}


def test_a_second_clusterset_changes_nothing_and_is_told() -> None:
    known = stored(RULES)
    later = timedelta(minutes=1)
    meta = replace(known.metadata, name="a-first-name", creation_timestamp=EPOCH + later)
    rules = replace(known, metadata=replace(known.metadata, creation_timestamp=EPOCH))
    second = replace(known, metadata=meta)

    found = codes(record("lubeck", "Ready"), sets=(second, rules))

    assert oldest_clusterset([second, rules]) is rules
    assert list(found) == ["ClusterSetIgnored"]
    assert found["ClusterSetIgnored"].startswith(
        "kubectl --context hub delete clusterset a-first-name"
    )


def test_a_move_between_brokers_is_told_until_it_ends() -> None:
    known = record("lubeck", "Ready")
    moving = replace(known, status=replace(known.status, moving=True))

    found = codes(moving, sets=(RULES,))

    assert list(found) == ["MembersMoving"]
    assert "`hanse broker retire`" in found["MembersMoving"]


def test_members_with_the_same_addresses_are_both_named() -> None:
    ranges = MemberRanges(pods=("10.1.0.0/16",))
    records = [
        replace(one, spec=replace(one.spec, ranges=ranges))
        for one in (record("lubeck", "Ready"), record("bergen", "Ready"))
    ]

    found = codes(*records, sets=(RULES,))

    assert list(found) == ["RangesOverlap"]
    assert "kubectl --context hub edit clusterset default" in found["RangesOverlap"]


def test_a_cluster_that_was_given_up_is_named_until_it_has_withdrawn() -> None:
    given_up = codes(record("lubeck", "Left", abandoned=True), sets=(RULES,))
    withdrawn = codes(record("lubeck", "Left"), sets=(RULES,))

    assert list(given_up) == ["MemberAbandoned"]
    assert "hanse uninstall --context lubeck" in given_up["MemberAbandoned"]
    assert withdrawn == {}


@pytest.mark.parametrize(
    ("before", "after", "sets", "found"),
    [
        (None, record("lubeck", "Ready"), (), {"ClusterSetMissing"}),
        (record("lubeck", "Ready"), None, (), set[str]()),
        (
            record("lubeck", "Ready"),
            record("lubeck", "Left", abandoned=True),
            (RULES,),
            {"MemberAbandoned"},
        ),
    ],
)
def test_a_changed_record_is_judged_at_once(
    before: ClusterMember | None,
    after: ClusterMember | None,
    sets: tuple[ClusterSet, ...],
    found: set[str],
) -> None:
    fleets = [broker(*(one for one in (side,) if one), sets=sets) for side in (before, after)]
    judgement = Judgement([ClustersView()], lambda: fleets[0])
    judgement.refresh()
    del fleets[0]

    judgement.on_change(ObjectChange("hub", before, after))
    judgement.refresh()

    assert {one.code for one in judgement.findings} & WATCHED == found


WATCHED = {"ClusterSetMissing", "MemberAbandoned", "MembersMoving", "RangesOverlap"}


ANY = Meta(name="any")


@pytest.mark.parametrize(
    "changed",
    [Node(metadata=ANY), Namespace(metadata=ANY), ServiceAccount(metadata=ANY), RULES],
    ids=lambda one: type(one).__name__,
)
def test_every_kind_that_is_read_concerns_its_cluster(changed: Object) -> None:
    assert list(ClustersView().keys_for(ObjectChange("hub", changed, changed))) == ["hub"]
