"""Connections to members, and the preference of their leaders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.features.federation.claims import read_claims
from hanse.features.federation.members import ABANDONED, connection_intents, server_url_error
from hanse.features.federation.other_supervisors import DISSOLVE, differing_lists
from hanse.model.connections import (
    AbandonedCluster,
    ClusterConnection,
    ConnectionIntent,
    LeavingCluster,
    ReleasedCluster,
    ServerCredentials,
    UnknownClusters,
)
from hanse.model.facts import InvalidConnection, Role
from hanse.model.kinds.about import ClusterProperty, ClusterPropertySpec
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    DOMAINS,
    SUPERVISOR,
    FederationStatus,
    MemberState,
)
from hanse.model.objects import Meta, Object
from tests.features.federation.builders import (
    FEATURE,
    HERE,
    PEM,
    SUPERVISES,
    claim,
    federation,
    observed,
    secret,
)
from tests.support.builders import annotated, cluster, snapshot, stored


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    ("value", "supervises"), [("true", True), ("", True), ("false", False), ("False", False)]
)
def test_a_supervisor_claims_it_in_any_spelling(domain: str, value: str, supervises: bool) -> None:
    claims = read_claims(observed(claim(f"supervisor.{domain}", value)), HERE)

    assert claims is not None
    assert claims.supervisor is supervises


def test_a_claim_may_be_named_by_its_field_in_capitals_and_by_a_property() -> None:
    property_ = ClusterProperty(
        metadata=Meta(name="cluster.clusterset.k8s.io"), spec=ClusterPropertySpec(value="lubeck")
    )
    snapshot_ = observed(claim("anything", "league", "clusterSet.k8s.io"), property_)

    claims = read_claims(snapshot_, HERE)

    assert claims is not None
    assert (claims.cluster_id, claims.cluster_set) == ("lubeck", "league")


def test_every_member_has_a_connection_and_the_local_one_needs_no_secret() -> None:
    snapshot_ = observed(*SUPERVISES, federation(HERE, "bergen"), secret("bergen", b"hush\n"))

    local_objects, bergen, unknown = connection_intents(snapshot_)

    assert isinstance(local_objects, ClusterConnection)
    assert isinstance(bergen, ClusterConnection)
    assert bergen.credentials == ServerCredentials("https://bergen.example:6443", PEM, "hush")
    assert (bergen.roles, bergen.runs_election) == (frozenset({Role.MEMBER}), True)
    assert unknown == UnknownClusters(), "whether bergen supervises is not known yet"


def test_a_cluster_that_is_no_supervisor_has_no_connections() -> None:
    assert (
        connection_intents(
            observed(
                claim(CLUSTER_ID, HERE),
                federation("bergen"),
                secret("bergen"),
                clusters=[cluster(HERE, Role.LOCAL)],
            )
        )
        == ()
    )


def test_an_invalid_entry_is_reported_by_its_field_and_hides_no_other() -> None:
    snapshot_ = observed(*SUPERVISES, federation("oslo", "bergen"), secret("bergen"))

    oslo, bergen, *_ = connection_intents(snapshot_)

    assert isinstance(oslo, InvalidConnection)
    assert (oslo.field, oslo.reason) == ("spec.members[0].secret", "SecretMissing")
    assert isinstance(bergen, ClusterConnection)


def test_an_agent_whose_id_is_not_the_claimed_one_makes_no_connection() -> None:
    snapshot_ = observed(
        claim(CLUSTER_ID, "rome"), claim(SUPERVISOR, ""), federation("bergen"), secret("bergen")
    )

    intent, *others = connection_intents(snapshot_)

    assert isinstance(intent, InvalidConnection)
    assert (intent.cluster, intent.reason) == ("bergen", "ClusterIDMismatch")
    assert others == [UnknownClusters()], "whether bergen supervises is not known yet"


def test_abandoned_clusters_are_named_unless_they_are_members() -> None:
    membership = annotated(federation("bergen"), {ABANDONED: "bergen, oslo"})

    assert AbandonedCluster("oslo") in connection_intents(
        observed(*SUPERVISES, membership, secret("bergen"))
    )
    assert AbandonedCluster("bergen") not in connection_intents(
        observed(*SUPERVISES, membership, secret("bergen"))
    )


CONNECTED = (
    cluster(HERE, Role.LOCAL, Role.MEMBER),
    cluster("bergen", Role.MEMBER),
    cluster("hamburg", Role.MEMBER),
)


def supervised_by_hamburg(*members: str) -> dict[str, tuple[Object, ...]]:
    return {"hamburg": (stored(claim(SUPERVISOR, "true")), stored(federation(*members)))}


def test_who_supervises_no_longer_releases_the_members_of_another_supervisor() -> None:
    objects = supervised_by_hamburg(HERE, "hamburg")

    intents = connection_intents(observed(clusters=CONNECTED, objects=objects))

    assert {i.cluster for i in intents if isinstance(i, ReleasedCluster)} == {HERE, "hamburg"}
    (kept,) = [i for i in intents if isinstance(i, InvalidConnection)]
    assert (kept.cluster, kept.reason) == ("bergen", "NoSuccessor")


@pytest.mark.parametrize(
    ("named_here", "missing", "by"),
    [
        ((HERE, "hamburg"), "bergen", "--supervisor hamburg"),
        ((HERE, "bergen"), "hamburg", f"--supervises --supervisor {HERE}"),
    ],
    ids=["a child", "a supervisor"],
)
def test_the_remedy_of_different_lists_names_a_supervisor_that_is_another_cluster(
    named_here: tuple[str, ...], missing: str, by: str
) -> None:
    objects = supervised_by_hamburg(HERE, "hamburg", "bergen")
    own = stored(federation(*named_here))

    (found,) = differing_lists(own, observed(*SUPERVISES, own, clusters=CONNECTED, objects=objects))

    assert f"--cluster-id {missing} --context {missing} {by}, or let it leave" in found


def test_the_last_supervisor_keeps_its_members() -> None:
    intents = connection_intents(observed(clusters=CONNECTED))

    assert all(isinstance(intent, InvalidConnection) for intent in intents)
    assert len(intents) == 3


FORMER = FederationStatus(
    members=(
        MemberState(cluster_id="bergen", server="https://bergen.example", secret="member-bergen"),
        MemberState(cluster_id="hamburg", secret="member-hamburg", supervisor=True),
    )
)


@pytest.mark.parametrize(
    ("named_by_hamburg", "fate"),
    [
        pytest.param(("hamburg", "bergen"), ReleasedCluster, id="another names it"),
        pytest.param(("hamburg",), LeavingCluster, id="nobody names it"),
        pytest.param(None, ClusterConnection, id="nobody knows whether another names it"),
    ],
)
def test_a_member_that_is_removed_is_left_only_if_no_other_supervisor_names_it(
    named_by_hamburg: tuple[str, ...] | None, fate: type[ConnectionIntent]
) -> None:
    here = (*SUPERVISES, federation("hamburg", status=FORMER), secret("bergen"), secret("hamburg"))
    known = supervised_by_hamburg(*named_by_hamburg) if named_by_hamburg is not None else {}
    clusters = CONNECTED if named_by_hamburg is not None else CONNECTED[:2]

    intents = connection_intents(observed(*here, clusters=clusters, objects=known))

    found = [i for i in intents if cluster_of(i) == "bergen"]
    assert [type(i) for i in found] == [fate]


@pytest.mark.parametrize("supervises", ["true", "false"])
@pytest.mark.parametrize("dissolve", ["true", "false"])
@pytest.mark.parametrize("named", [("hamburg",), ()], ids=["a list", "no list"])
def test_while_the_id_is_claimed_wrongly_every_connection_is_kept_as_it_is(
    supervises: str, dissolve: str, named: tuple[str, ...]
) -> None:
    membership = annotated(federation(*named, status=FORMER), {DISSOLVE: dissolve})
    here = (claim(CLUSTER_ID, "rome"), claim(SUPERVISOR, supervises), membership)
    known = supervised_by_hamburg("hamburg", "oslo")

    *intents, unknown = connection_intents(observed(*here, clusters=CONNECTED, objects=known))

    assert {cluster_of(i) for i in intents} >= {"bergen", "hamburg", "oslo"}
    assert {type(i) for i in intents} == {InvalidConnection}
    assert unknown == UnknownClusters()


def test_a_federation_that_is_dissolved_leaves_every_member() -> None:
    dissolved = annotated(federation(HERE, "bergen"), {DISSOLVE: "true"})

    intents = connection_intents(observed(*SUPERVISES, dissolved, secret("bergen")))

    assert [cluster_of(i) for i in intents] == [HERE, "bergen"]
    assert all(isinstance(intent, LeavingCluster) for intent in intents)


def cluster_of(intent: ConnectionIntent) -> str:
    """The cluster that an intent is about; empty for those about none."""
    match intent:
        case LeavingCluster(connection):
            return connection.cluster
        case UnknownClusters():
            return ""
        case _:
            return intent.cluster


NAMES = st.lists(
    st.sampled_from(["a", "b", "c", "d", "e", "f", "g", HERE]), min_size=1, max_size=8, unique=True
)


@given(NAMES, st.data())
def test_supervisors_agree_on_who_leads_whom_and_share_children_evenly(
    names: list[str], data: st.DataObject
) -> None:
    supervisors = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    first: dict[str, list[str]] = {}
    for local in supervisors:
        claims = {
            name: (
                stored(claim(CLUSTER_ID, name)),
                *((stored(claim(SUPERVISOR, "")),) if name in supervisors else ()),
            )
            for name in names
        }
        states = [
            cluster(n, *((Role.LOCAL, Role.MEMBER) if n == local else (Role.MEMBER,)))
            for n in names
        ]
        local_objects = (
            *claims[local],
            stored(federation(*names)),
            *(stored(secret(n)) for n in names),
        )
        snapshot_ = snapshot(FEATURE, local, states, {**claims, local: local_objects})
        for way in connection_intents(snapshot_):
            assert isinstance(way, ClusterConnection)
            if not way.preferred_leaders:
                first.setdefault(way.cluster, []).append(local)

    assert {c: len(leaders) for c, leaders in first.items()} == dict.fromkeys(names, 1)
    children = [first[n][0] for n in names if n not in supervisors]
    counts = [children.count(s) for s in supervisors]
    assert max(counts) - min(counts) <= 1
    assert all(first[s] == [s] for s in supervisors)


@given(st.text(max_size=40))
def test_no_text_breaks_the_validation_of_urls(text: str) -> None:
    assert server_url_error(text) or text.startswith(("http", "HTTP"))
