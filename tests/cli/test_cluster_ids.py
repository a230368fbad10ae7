"""A cluster is known by its id, whatever its context is called and whether its agent runs."""

import pytest
from msgspec.structs import replace

from hanse.cli.doctor.checks import CheckedFleet, ChecksView
from hanse.cli.fleet import ClusterRead, build_fleet, identified
from hanse.model.clusterset import CLUSTER_UID
from hanse.model.findings import Finding
from hanse.model.kinds.core import Namespace, ServiceAccount
from hanse.model.kinds.federation import ClusterClaim
from hanse.model.kinds.hanse import ClusterMember, ClusterMemberSpec, ClusterMemberStatus
from hanse.model.objects import Meta, Object
from tests.support.fleet_reads import NOW, findings, lease, read

SYSTEM = Namespace(metadata=Meta(name="kube-system", uid="u-1"))
RECORD = ClusterMember(
    metadata=Meta(name="bergen", namespace="hanse-broker"),
    spec=ClusterMemberSpec(cluster_id="bergen", uid="u-1"),
    status=ClusterMemberStatus(phase="Ready", since=NOW),
)
SILENT = lease("bergen", "hanse-broker", "bergen", age=41)
CLAIM = ClusterClaim(metadata=Meta(name="id.k8s.io"), value="bergen")
RELEASED = lease("hanse-agent", "hanse-system", "")


def fleet(*objects: Object, context: str = "admin@b") -> tuple[ClusterRead, ...]:
    """A cluster without a holder of its agent's Lease, and its broker."""
    member = read(context, SYSTEM, *objects, agent=None)
    return identified((member, read("hub", RECORD, SILENT, agent=None)))


@pytest.mark.parametrize("objects", [(), (RELEASED,), (CLAIM,)])
def test_a_member_whose_agent_is_gone_is_told_once_by_its_id(objects: tuple[Object, ...]) -> None:
    found = [one for one in findings(*fleet(*objects), local=False) if one.severity == "degraded"]

    assert [str(one.subject) for one in found] == ["Cluster bergen"]
    assert found[0].code in ("AgentMissing", "AgentSilent")
    assert "admin@b" not in found[0].summary
    assert all("--context admin@b" in command for command in found[0].remedy.commands)


def test_an_agent_that_is_gone_is_installed_again_under_its_id() -> None:
    (member, _) = fleet(CLAIM)

    (found,) = findings(member, local=False)

    assert "hanse manifests --cluster-id bergen | kubectl --context admin@b" in str(found.remedy)


def test_a_record_of_a_member_that_has_left_identifies_nobody() -> None:
    left = ClusterMember(
        metadata=RECORD.metadata,
        spec=RECORD.spec,
        status=ClusterMemberStatus(phase="Left", since=NOW),
    )

    (member, _) = identified((read("b", SYSTEM, agent=None), read("hub", left, agent=None)))

    assert member.cluster == "b"


def test_a_record_of_another_cluster_is_the_cause_of_a_silent_member() -> None:
    other = replace(RECORD, spec=ClusterMemberSpec(cluster_id="bergen", uid="u-2"))
    member = read("admin@b", SYSTEM, lease("hanse-agent", "hanse-system", "bergen_0"), agent=None)

    (found,) = findings(member, read("hub", other, SILENT, agent=None), local=False)[:1]

    assert (found.code, str(found.subject)) == ("MemberMismatch", "Cluster bergen")
    patch, restart = found.remedy.commands
    kubectl = "kubectl --context hub -n hanse-broker patch clustermember bergen --type merge"
    assert patch == f"""{kubectl} -p '{{"spec":{{"uid":"u-1"}}}}'"""
    assert restart.endswith(
        "--context admin@b -n hanse-system rollout restart deployment/hanse-agent"
    )


LUBECK = ClusterMember(
    metadata=Meta(name="lubeck", namespace="hanse-broker"),
    spec=ClusterMemberSpec(cluster_id="lubeck", uid="u-2"),
    status=ClusterMemberStatus(phase="Ready", since=NOW),
)
OF_LUBECK = lease("hanse-agent", "hanse-system", "lubeck_0")
RENEWED = lease("lubeck", "hanse-broker", "lubeck_0")


@pytest.mark.parametrize("records", [(LUBECK, RECORD, SILENT), (LUBECK,)])
def test_an_agent_under_the_id_of_another_cluster_hides_none_and_is_named(
    records: tuple[Object, ...],
) -> None:
    theirs = Namespace(metadata=Meta(name="kube-system", uid="u-2"))
    hub = read("hub", *records, RENEWED, agent=None)
    lubeck = read("lubeck", theirs, OF_LUBECK, agent=None)
    bergen = read("bergen", SYSTEM, OF_LUBECK, agent=None)

    for several in ((lubeck, bergen, hub), (bergen, lubeck, hub)):
        reads = identified(several)
        (found,) = (one for one in findings(*reads, local=False) if one.severity == "degraded")

        assert {one.context: one.cluster for one in reads}["bergen"] == "bergen"
        assert (found.code, str(found.subject)) == ("MemberMismatch", "Cluster bergen")
        assert "the agent of bergen runs under the id lubeck" in found.summary
        assert found.remedy.commands == ()
        assert "hanse manifests --cluster-id bergen" in found.remedy.advice


def test_two_contexts_of_a_cluster_are_one_cluster() -> None:
    hub = read("hub", RECORD, lease("bergen", "hanse-broker", "bergen_0"), agent=None)
    agent = lease("hanse-agent", "hanse-system", "bergen_0")
    bergen, again = (read(one, SYSTEM, agent, agent=None) for one in ("bergen", "viewer@bergen"))

    reads = identified((bergen, again, hub))

    assert [one.cluster for one in reads[:2]] == ["bergen", "bergen"]
    assert "MemberMismatch" not in {one.code for one in findings(*reads, local=False)}


def test_a_record_that_was_edited_is_put_right_also_while_the_lease_has_not_run_out() -> None:
    other = replace(RECORD, spec=ClusterMemberSpec(cluster_id="bergen", uid="u-2"))
    renewed = lease("bergen", "hanse-broker", "bergen")
    meta = replace(renewed.metadata, annotations={CLUSTER_UID: "u-1"})
    hub = read("hub", other, replace(renewed, metadata=meta), agent=None)
    member = read("bergen", SYSTEM, lease("hanse-agent", "hanse-system", "bergen_0"), agent=None)

    (found,) = (o for o in findings(member, hub, local=False) if o.code == "MemberMismatch")

    assert '{"spec":{"uid":"u-1"}}' in found.remedy.commands[0]


def test_an_agent_does_not_take_the_record_of_a_cluster_that_lives() -> None:
    hub = read("hub", LUBECK, RENEWED, agent=None)
    bergen = read("bergen", SYSTEM, OF_LUBECK, agent=None)

    (found,) = (o for o in findings(bergen, hub, local=False) if o.code == "MemberMismatch")

    assert "the agent of context bergen runs under the id lubeck, which is" in found.summary
    assert found.remedy.commands == ()


def checks(*reads: ClusterRead) -> tuple[Finding, ...]:
    snapshot = build_fleet(reads, NOW)
    return (
        ChecksView(lambda: CheckedFleet((), reads, NOW), local=False).render("", snapshot).findings
    )


def test_what_is_checked_is_about_ids_and_what_mends_it_names_contexts() -> None:
    account = ServiceAccount(
        metadata=Meta(
            name="bergen", namespace="hanse-broker-accounts", labels={"hanse.dev/member": ""}
        )
    )
    hub = read(
        "admin@hub", RECORD, account, lease("hanse-agent", "hanse-system", "hub_0"), agent=None
    )
    member = read("admin@b", lease("hanse-agent", "hanse-system", "bergen_0"), agent=None)

    (found,) = (one for one in checks(hub, member) if one.code == "LeaseMissing")

    assert str(found.subject) == "Lease hanse-broker/bergen in hub"
    assert found.remedy.commands == (
        "hanse join --broker admin@hub --cluster-id bergen --context admin@b",
    )
