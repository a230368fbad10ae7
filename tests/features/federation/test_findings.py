"""What is said of clusters that have left half, or have lost their Federation."""

from datetime import timedelta

from msgspec.structs import replace

from hanse.cli.fleet import ClusterRead
from hanse.features.federation.local_leader import LED
from hanse.features.federation.other_supervisors import LEAVING
from hanse.features.federation.status import DIFFER
from hanse.model.conditions import condition
from hanse.model.findings import Finding
from hanse.model.kinds.federation import (
    CLUSTER_SET,
    SUPERVISOR,
    SYSTEM,
    AbandonedMember,
    ClusterClaim,
    Federation,
    FederationSpec,
    FederationStatus,
    Member,
)
from hanse.model.objects import Meta, Object
from tests.support.builders import annotated, stored
from tests.support.fleet_reads import NOW, findings, lease, read


def claim(about: str, value: str) -> ClusterClaim:
    return stored(ClusterClaim(metadata=Meta(name=about), value=value))


MEMBER = claim(CLUSTER_SET, "league")
SUPERVISES = claim(SUPERVISOR, "true")


def federation(*members: str) -> Federation:
    entries = tuple(
        Member(id_as_written=one, server=f"https://{one}", secret=f"member-{one}")
        for one in members
    )
    spec = FederationSpec(set_as_written="league", members=entries)
    return stored(Federation(metadata=Meta(name="league"), spec=spec))


def told(**clusters: tuple[Object, ...]) -> tuple[Finding, ...]:
    return findings(*(read(name, *objects) for name, objects in clusters.items()))


def test_a_member_without_its_federation_joins_again_by_a_supervisor_that_names_it() -> None:
    rome = (MEMBER, SUPERVISES, federation("rome", "oslo"))

    (found,) = told(rome=rome, oslo=(MEMBER,))

    assert (found.code, str(found.subject)) == ("FederationMissing", "Federation league in oslo")
    assert found.remedy.commands == (
        "hanse join --federation league --cluster-id oslo --context oslo --supervisor rome",
    )


def test_a_supervisor_without_its_federation_joins_again_as_one() -> None:
    paris = (MEMBER, SUPERVISES, federation("rome", "paris"))

    (named,) = told(rome=(MEMBER, SUPERVISES), paris=paris)
    (alone,) = told(rome=(MEMBER, SUPERVISES))

    again = "hanse join --federation league --cluster-id rome --context rome"
    assert named.remedy.commands == (f"{again} --supervisor paris --supervises",)
    assert alone.remedy.commands == (f"{again} --supervises",)


def test_a_cluster_that_nobody_names_any_more_ends_its_leave() -> None:
    (found,) = told(rome=(MEMBER, SUPERVISES, federation("rome")), oslo=(MEMBER,))

    assert found.code == "FederationMissing"
    assert found.remedy.commands == (
        "hanse leave --federation league --cluster-id oslo --context oslo --supervisor rome",
    )


def test_a_cluster_that_claims_nothing_or_has_its_federation_lacks_nothing() -> None:
    assert told(oslo=(MEMBER, federation())) == ()
    assert told(oslo=(claim("id.k8s.io", "oslo"),)) == ()


def test_a_leave_that_was_interrupted_is_told_with_the_command_that_ends_it() -> None:
    rome = (MEMBER, SUPERVISES, federation("rome", "oslo"))

    def oslo(age: timedelta) -> tuple[Object, ...]:
        return (MEMBER, annotated(federation(), {LEAVING: (NOW - age).isoformat()}))

    (found,) = told(rome=rome, oslo=oslo(timedelta(minutes=3)))

    assert (found.code, str(found.subject)) == ("MemberLeaving", "Federation league in oslo")
    assert found.remedy.commands == (
        "hanse leave --federation league --cluster-id oslo --context oslo --supervisor rome",
    )
    assert told(rome=rome, oslo=oslo(timedelta(seconds=30))) == (), "it is under way"


def read_from_context(cluster: str, *objects: Object) -> ClusterRead:
    """A cluster whose context is not called like its id."""
    agent = lease("hanse-agent", "hanse-system", f"{cluster}_0")
    return read(f"kind-{cluster}", agent, *objects, agent=None)


def test_the_remedy_of_lists_that_differ_names_contexts() -> None:
    command = "hanse join --federation league --cluster-id oslo --context {} --supervisor {}"
    text = f"paris names oslo and rome does not: {command.format('oslo', 'paris')}, or let it leave"
    status = FederationStatus(conditions=(condition(DIFFER, True, "ListsDiffer", text),))
    rome = replace(federation("rome"), status=status)

    (found,) = findings(
        read_from_context("rome", MEMBER, SUPERVISES, rome),
        *map(read_from_context, ("oslo", "paris")),
    )

    assert found.remedy.commands == (command.format("kind-oslo", "kind-paris"),)


def test_commands_have_nothing_of_a_cluster_that_a_shell_would_run() -> None:
    """Names of members and values of claims are whatever people of one cluster wrote there."""
    command = "hanse join --federation league --cluster-id oslo"
    text = (
        f"paris names oslo and rome does not: {command} && rm -r ~ | sh $(id)\nid, or let it leave"
    )
    status = FederationStatus(conditions=(condition(DIFFER, True, "ListsDiffer", text),))

    (differing,) = told(rome=(MEMBER, SUPERVISES, replace(federation("rome"), status=status)))
    (missing,) = told(rome=(claim(CLUSTER_SET, "league; id"), SUPERVISES))

    assert differing.remedy.commands == (command,)
    assert missing.remedy.commands == (
        "hanse join --federation 'league; id' --cluster-id rome --context rome --supervises",
    )


def test_a_context_with_a_space_is_one_argument_of_a_command() -> None:
    rome = (MEMBER, SUPERVISES, federation("rome", "oslo"))
    in_context = replace(read("oslo", MEMBER), context="oslo (test)")

    (found,) = findings(read("rome", *rome), in_context)

    assert "--context 'oslo (test)' --supervisor rome" in found.remedy.commands[0]


def test_the_advice_about_a_member_that_was_given_up_names_its_context() -> None:
    status = FederationStatus(abandoned=(AbandonedMember(cluster_id="oslo"),))
    rome = replace(federation("rome"), status=status)

    (found,) = findings(
        read_from_context("rome", MEMBER, SUPERVISES, rome), read_from_context("oslo")
    )

    assert "`hanse uninstall --context kind-oslo`" in found.remedy.advice


def without_leader(name: str = "league") -> Federation:
    """A child's own Federation, of which no supervisor renews the Lease."""
    status = FederationStatus(conditions=(condition(LED, False, "NoLeader", "nobody leads"),))
    return replace(federation(), metadata=Meta(name=name), status=status)


def test_supervisors_that_are_dead_or_do_not_run_explain_why_a_child_has_no_leader() -> None:
    child = (MEMBER, without_leader())
    silent = read("rome", MEMBER, SUPERVISES, federation("rome", "paris", "oslo"), agent=300)
    held = lease("oslo", SYSTEM, "paris_league", 300)

    one_dead = findings(
        silent, ClusterRead("paris", failure="connection refused"), read("oslo", *child)
    )
    all_dead = findings(
        ClusterRead("paris", failure="connection refused"), read("oslo", *child, held)
    )

    unheld = findings(ClusterRead("rome", failure="refused"), read("oslo", *child))

    for found in (one_dead, all_dead, unheld):
        assert "LeaderMissing" not in [one.code for one in found]
        told = [str(lost.subject) for one in found for lost in one.consequences]
        assert "Federation league in oslo" in told
    assert [one.code for one in one_dead] == ["AgentSilent", "ClusterUnreachable"]


def test_a_dead_child_does_not_explain_why_another_has_no_leader() -> None:
    rome = read("rome", MEMBER, SUPERVISES, federation("rome", "oslo", "bonn"))
    bonn = read("bonn", MEMBER, federation(), agent=300)

    found = findings(rome, bonn, read("oslo", MEMBER, without_leader()))

    (leaderless,) = (one for one in found if one.code == "LeaderMissing")
    again = "hanse join --federation league --cluster-id oslo --context oslo --supervisor rome"
    assert again in leaderless.remedy.advice
    assert "edit" not in leaderless.remedy.advice


def test_a_member_that_lost_its_claims_with_its_federation_is_told_by_its_supervisor() -> None:
    rome = (MEMBER, SUPERVISES, federation("rome", "oslo", "bonn"))

    (found,) = told(rome=rome, oslo=(claim("id.k8s.io", "oslo"),), bonn=(MEMBER, federation()))

    assert (found.code, str(found.subject)) == ("FederationMissing", "Federation league in oslo")
    assert found.remedy.commands == (
        "hanse join --federation league --cluster-id oslo --context oslo --supervisor rome",
    )
    assert "hanse leave --federation league --cluster-id oslo" in found.remedy.advice
    (supervisor,) = told(rome=rome, oslo=(SUPERVISES,), bonn=(MEMBER, federation()))
    assert supervisor.remedy.commands == (f"{found.remedy.commands[0]} --supervises",)
