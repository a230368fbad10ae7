"""Admission of ClusterClaims, ClusterProperties and Federations."""

from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.federation.claims import Claims, read_claims
from hanse.features.federation.feature import Membership
from hanse.features.federation.webhooks import ClusterClaimWebhook, FederationWebhook
from hanse.model.admission import AdmissionRequest, Allow, Deny, Operation
from hanse.model.facts import Phase, Role
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    CLUSTER_SET,
    GROUP,
    SYSTEM,
    ClusterClaim,
    ClusterIdClaim,
    Federation,
    FederationSpec,
    Member,
)
from hanse.model.objects import Meta, Object, Wire, to_wire
from hanse.model.snapshot import Snapshot
from tests.support.builders import cluster, snapshot, stored


def claim(name: str, value: str, about: str = "") -> ClusterClaim:
    return ClusterClaim(metadata=Meta(name=name), value=value, claim=about)


def member(name: str, server: str = "", secret: str = "bergen") -> Member:
    server = server or f"https://{name}.example:6443"
    return Member(id_as_written=name, server=server, secret=secret)


def claimed(name: str) -> Member:
    written = ClusterIdClaim(name=CLUSTER_ID, value=name)
    return Member(id_as_written=written, server=f"https://{name}.test:6443", secret=name)


def federation(*members: Member, name: str = "league", cluster_set: str = "") -> Federation:
    spec = FederationSpec(set_as_written=cluster_set, members=members)
    return Federation(metadata=Meta(name=name), spec=spec)


def observed(*objects: Object, phase: Phase = Phase.SYNCED) -> Snapshot:
    home = cluster("lubeck", Role.LOCAL, phase=phase)
    return snapshot(Membership(), "lubeck", [home], {"lubeck": [stored(o) for o in objects]})


def review(
    operation: Operation, after: Object | None = None, before: Object | None = None
) -> AdmissionRequest:
    obj = after or before
    assert obj is not None
    kind = type(obj).kind
    return AdmissionRequest(
        operation,
        kind.group,
        kind.version,
        kind.name,
        obj.metadata.name,
        object=to_wire(after) if after is not None else {},
        before=to_wire(before) if before is not None else {},
    )


HERE = claim(CLUSTER_ID, "lubeck")


@pytest.mark.parametrize(
    "admission_request",
    [
        pytest.param(review("UPDATE", claim(CLUSTER_ID, "oslo"), HERE), id="changed"),
        pytest.param(review("DELETE", before=HERE), id="deleted"),
        pytest.param(review("UPDATE", claim(CLUSTER_ID, "lubeck", "x"), HERE), id="renamed"),
    ],
)
def test_the_id_of_a_cluster_stays_while_a_federation_exists(
    admission_request: AdmissionRequest,
) -> None:
    decision = ClusterClaimWebhook().review(admission_request, observed(HERE, federation()))

    assert isinstance(decision, Deny)
    assert "Federation league" in decision.message
    assert ClusterClaimWebhook().review(admission_request, observed(HERE)) == Allow()


def test_other_claims_and_labels_of_the_id_may_change() -> None:
    seen = observed(HERE, federation())
    other = claim(CLUSTER_SET, "old")

    assert ClusterClaimWebhook().review(review("DELETE", before=other), seen) == Allow()
    assert ClusterClaimWebhook().review(review("UPDATE", HERE, HERE), seen) == Allow()


def test_a_second_id_beside_the_first_is_refused() -> None:
    twin = claim("twin", "oslo", "ID.k8s.io")

    decision = ClusterClaimWebhook().review(review("CREATE", twin), observed(HERE))

    assert isinstance(decision, Deny)
    assert "'lubeck' already" in decision.message


def test_another_claim_does_not_become_a_second_id() -> None:
    before, after = claim("other", "oslo"), claim("other", "oslo", CLUSTER_ID)

    decision = ClusterClaimWebhook().review(
        review("UPDATE", after, before), observed(HERE, before, federation())
    )

    assert isinstance(decision, Deny)
    assert "this cluster's id is 'lubeck' already" in decision.message


def test_a_second_id_that_slipped_in_counts_for_nothing_and_may_go() -> None:
    twin = claim("aaa", "oslo", CLUSTER_ID)
    last = claim("zzz", "oslo", CLUSTER_ID)
    seen = observed(HERE, twin, last, federation())

    assert read_claims(seen, "lubeck") == Claims("lubeck", "", supervisor=False)
    assert ClusterClaimWebhook().review(review("DELETE", before=twin), seen) == Allow()
    assert isinstance(ClusterClaimWebhook().review(review("DELETE", before=HERE), seen), Deny)


def test_before_federations_were_read_the_answer_is_to_try_again() -> None:
    seen = observed(HERE, phase=Phase.CONNECTING)

    verdicts = [
        ClusterClaimWebhook().review(review("DELETE", before=HERE), seen),
        FederationWebhook().review(review("CREATE", federation()), seen),
    ]

    assert [v.code for v in verdicts if isinstance(v, Deny)] == [503, 503]


def test_a_cluster_has_one_federation() -> None:
    decision = FederationWebhook().review(
        review("CREATE", federation(name="second")), observed(federation())
    )

    assert isinstance(decision, Deny)
    assert decision.message.startswith("metadata.name: Federation league exists")


@pytest.mark.parametrize(
    ("members", "field"),
    [
        pytest.param((member("Bergen"),), "spec.members[0].clusterID", id="no label"),
        pytest.param(
            (member("oslo"), member("oslo", "https://b.example")),
            "spec.members[1].clusterID",
            id="twice",
        ),
        pytest.param(
            (member("bergen"), claimed("bergen")),
            "spec.members[1].clusterID",
            id="twice, once as a claim",
        ),
        pytest.param((claimed("Bergen"),), "spec.members[0].clusterID", id="no label as a claim"),
        pytest.param((member("broker"),), "spec.members[0].clusterID", id="the broker's name"),
        pytest.param((member("oslo", "ftp://x"),), "spec.members[0].server", id="no http"),
        pytest.param((member("oslo", "https://"),), "spec.members[0].server", id="no host"),
        pytest.param((member("oslo", "https://a:0"),), "spec.members[0].server", id="no port"),
        pytest.param((member("oslo", "https://a:x"),), "spec.members[0].server", id="bad port"),
        pytest.param((member("oslo", "http://a.example"),), "spec.members[0].server", id="plain"),
        pytest.param(
            (member("oslo", "https://u:p@a.example"),), "spec.members[0].server", id="a password"
        ),
        pytest.param(
            (member("oslo", "https://a.example"), member("rome", "https://a.example/")),
            "spec.members[1].server",
            id="one server for two",
        ),
    ],
)
def test_a_bad_member_is_refused_by_its_field(members: tuple[Member, ...], field: str) -> None:
    decision = FederationWebhook().review(review("CREATE", federation(*members)), observed())

    assert isinstance(decision, Deny)
    assert decision.message.startswith(f"{field}: ")


def test_another_cluster_set_than_was_claimed_is_refused() -> None:
    seen = observed(claim(CLUSTER_SET, "league"))

    decision = FederationWebhook().review(review("CREATE", federation(cluster_set="other")), seen)

    assert isinstance(decision, Deny)
    assert decision.message.startswith("spec.clusterSet: ")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(None, "does not exist", id="none"),
        pytest.param({}, "no key token", id="no token"),
        pytest.param({"token": b"a\nb"}, "not one line", id="two lines"),
        pytest.param({"token": b"t", "ca.crt": b"x"}, "no certificate", id="no PEM"),
    ],
)
def test_an_unusable_secret_is_a_warning(data: Any, text: str) -> None:
    secret = Secret(metadata=Meta(name="bergen", namespace=SYSTEM), data=data or {})
    seen = observed(*([secret] if data is not None else []))

    decision = FederationWebhook().review(review("CREATE", federation(member("bergen"))), seen)

    assert isinstance(decision, Allow)
    (warning,) = decision.warnings
    assert warning.startswith("spec.members[0].secret: ")
    assert text in warning


def test_an_invalid_federation_may_be_labelled() -> None:
    bad = federation(member("Bergen"))

    assert FederationWebhook().review(review("UPDATE", bad, bad), observed(bad)) == Allow()


def test_webhooks_have_rules_for_what_they_review() -> None:
    assert {a.groups for h in (ClusterClaimWebhook(), FederationWebhook()) for a in h.rules} == {
        (GROUP,),
        ("about.k8s.io",),
    }


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterSet": 5}, id="a set that is a number"),
        pytest.param({"members": [{"clusterID": 5, "server": "x", "secret": "x"}]}, id="an id"),
    ],
)
def test_an_id_or_a_set_that_is_no_text_is_refused_with_the_ways_to_write_it(spec: Wire) -> None:
    request = replace(
        review("CREATE", federation()), object={"metadata": {"name": "league"}, "spec": spec}
    )

    decision = FederationWebhook().review(request, observed())

    assert isinstance(decision, Deny)
    assert "; write a string, or a claim with name and value" in decision.message
