"""Findings about the records of members on a broker."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.app.views import views
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.features.fleet.findings import cluster_findings
from hanse.features.fleet.view import MEMBER_ACCOUNTS, ClustersView
from hanse.kube.watch_events import Listed
from hanse.model.broker_namespace import GIVEN_UP, MEMBER
from hanse.model.clusterset import oldest_clusterset
from hanse.model.facts import Role
from hanse.model.findings import Finding
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.judgement import Judgement
from hanse.model.kinds.coordination import Lease
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
from hanse.model.ownership import PAUSED
from hanse.model.snapshot import ObjectChange, Watch
from tests.support.builders import stored
from tests.support.fleet_reads import NOW, findings, lease, read
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


def test_the_remedy_of_a_cluster_that_was_given_up_names_its_context() -> None:
    hub = read("hub", RULES, record("lubeck", "Left", abandoned=True))
    silent = lease("hanse-agent", "hanse-system", "lubeck_0", 300)
    lubeck = read("kind-lubeck", silent, agent=None)

    found = {one.code: one.remedy for one in findings(hub, lubeck)}

    assert found["MemberAbandoned"].commands == (
        "hanse uninstall --context kind-lubeck --yes --force",
    )


def test_a_cluster_that_was_given_up_and_whose_agent_runs_again_is_not_uninstalled() -> None:
    hub = read("hub", RULES, record("lubeck", "Left", abandoned=True))

    found = {one.code: one.remedy for one in findings(hub, read("lubeck"))}

    told = found["MemberAbandoned"]
    assert not told.commands, "it would take away what people made, and the agent mends it"
    assert "hanse join --broker hub --cluster-id lubeck --context lubeck" in told.advice


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


def account(namespace: str = "hanse-broker-accounts", given_up: str = "false") -> ServiceAccount:
    labels, annotations = {MEMBER: "lubeck"}, {GIVEN_UP: given_up}
    meta = Meta(name="lubeck", namespace=namespace, labels=labels, annotations=annotations)
    return stored(ServiceAccount(metadata=meta))


def departures(
    member: ClusterMember, *accounts: ServiceAccount, age: timedelta, readable: bool = True
) -> dict[str, str]:
    """What is said of a member whose phase began so long ago, with the remedies."""
    lists: dict[Watch, Listed[Any]] = {
        Watch(Role.LOCAL, ClusterMember): Listed((member,), "1"),
        Watch(Role.LOCAL, ClusterSet): Listed((RULES,), "1"),
    }
    if readable:
        lists[MEMBER_ACCOUNTS] = Listed(accounts, "1")
    fleet = build_fleet([ClusterRead("hub", lists)], EPOCH + age)
    return {one.code: str(one.remedy) for one in cluster_findings("hub", fleet)}


LEAVE = "hanse leave --broker hub --cluster-id lubeck --context lubeck"
HOUR = timedelta(hours=1)


def test_a_leave_that_takes_longer_than_the_command_waits_is_told() -> None:
    leaving = record("lubeck", "Leaving")

    found = departures(leaving, account(), age=timedelta(minutes=3))

    assert list(found) == ["MemberLeaving"]
    assert found["MemberLeaving"].startswith(f"{LEAVE}; ")
    assert departures(leaving, account(), age=timedelta(minutes=1)) == {}


@pytest.mark.parametrize("namespace", ["hanse-broker-accounts", "hanse-broker"])
def test_an_account_that_a_leave_left_behind_is_told_with_the_command_that_ends_it(
    namespace: str,
) -> None:
    found = departures(record("lubeck", "Left"), account(namespace), age=HOUR)

    assert found == {"AccountRemains": LEAVE}


def test_the_command_that_ends_an_account_names_a_namespace_of_another_name() -> None:
    known = record("lubeck", "Left")
    member = replace(known, metadata=replace(known.metadata, namespace="trade"))

    found = departures(member, account("trade-accounts"), age=HOUR)

    assert found == {
        "AccountRemains": "hanse leave --broker hub --broker-namespace trade --cluster-id lubeck "
        "--context lubeck"
    }


def test_a_cluster_that_was_not_asked_is_not_asked_when_its_account_remains() -> None:
    found = departures(record("lubeck", "Left", abandoned=True), account(), age=HOUR)

    assert found["AccountRemains"] == "hanse leave --broker hub --cluster-id lubeck --force"


@pytest.mark.parametrize(
    ("accounts", "age", "readable"),
    [
        pytest.param((), HOUR, True, id="it is gone"),
        pytest.param((), HOUR, False, id="nobody can say"),
        pytest.param((account(given_up="true"),), HOUR, True, id="it may only read its record"),
        pytest.param((account("other"),), HOUR, True, id="of another fleet"),
        pytest.param((account(),), timedelta(seconds=5), True, id="the command runs"),
    ],
)
def test_who_has_left_in_order_is_not_told(
    accounts: tuple[ServiceAccount, ...], age: timedelta, readable: bool
) -> None:
    assert departures(record("lubeck", "Left"), *accounts, age=age, readable=readable) == {}


def test_the_account_of_a_member_or_of_a_replaced_one_is_as_it_should_be() -> None:
    for phase in ("Joining", "Ready", "Replaced"):
        assert departures(record("lubeck", phase), account(), age=HOUR) == {}


WATCHED = {"ClusterSetMissing", "MemberAbandoned", "MembersMoving", "RangesOverlap"}


ANY = Meta(name="any")


@pytest.mark.parametrize(
    "changed",
    [Node(metadata=ANY), Namespace(metadata=ANY), ServiceAccount(metadata=ANY), RULES],
    ids=lambda one: type(one).__name__,
)
def test_every_kind_that_is_read_concerns_its_cluster(changed: Object) -> None:
    assert list(ClustersView().keys_for(ObjectChange("hub", changed, changed))) == ["hub"]


@pytest.mark.parametrize(("minutes", "overdue"), [(1, False), (60, True)])
def test_what_keeps_an_agent_from_leaving_is_mended_together_with_the_leave(
    minutes: int, overdue: bool
) -> None:
    since = NOW - timedelta(minutes=minutes)
    known = record("lubeck", "Leaving")
    leaving = replace(known, status=replace(known.status, since=since))
    paused = Namespace(metadata=Meta(name="hanse-system", annotations={PAUSED: "true"}))
    beat = lease("lubeck", BROKER_NAMESPACE, "lubeck")

    found = findings(read("hub", leaving, RULES, beat), read("lubeck", paused, agent=600))

    commands = {one.code: one.remedy.commands for one in found}
    assert commands["AgentSilent"] == ("hanse local start agent lubeck",)
    assert commands["AgentPaused"][1:] == ((LEAVE,) if overdue else ())
    assert (found[0].code == "AgentSilent" and bool(found[0].consequences)) == overdue


def test_a_silent_member_that_has_left_is_said_to_be_silent_no_longer() -> None:
    ready, left = record("lubeck", "Ready"), record("lubeck", "Left")
    beat = lease("lubeck", BROKER_NAMESPACE, "lubeck", age=600)
    fleets = [
        build_fleet([read("hub", one, RULES, beat), read("lubeck")], NOW) for one in (ready, left)
    ]
    judgement = Judgement(views(), lambda: fleets[0])
    judgement.refresh()
    assert "ClusterSilent" in {one.code for one in judgement.findings}
    del fleets[0]

    judgement.on_change(ObjectChange("hub", ready, left))
    judgement.refresh()

    assert "ClusterSilent" not in {one.code for one in judgement.findings}


def test_a_member_whose_record_was_deleted_gets_it_again_by_a_join() -> None:
    def heartbeat(holder: str = "rome") -> Lease:
        known = stored(lease("rome", "league", holder))
        return replace(known, metadata=replace(known.metadata, labels={MEMBER: "rome"}))

    def told(*objects: Object) -> list[Finding]:
        found = findings(read("hub", *objects, RULES, agent=None))
        return [one for one in found if one.code == "MemberRecordMissing"]

    rome = replace(record("rome", "Ready"), metadata=Meta(name="rome", namespace="league"))

    (lost,) = told(heartbeat())

    assert str(lost.subject) == "ClusterMember league/rome in hub"
    assert lost.remedy.commands == (
        "hanse join --broker hub --broker-namespace league --cluster-id rome --context rome",
    )
    assert told(heartbeat(), rome) == []
    assert told(heartbeat(holder="")) == [], "it joins"
