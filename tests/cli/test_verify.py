"""`hanse verify`: what is tried, and the causes of failures; its packets are in tests/nodes."""

import pytest
from msgspec.structs import replace

from hanse.cli.verify.attempts import (
    POD,
    SERVICE_ADDRESS,
    TOPICS,
    Attempt,
    DeployedCluster,
    ImportedService,
    Outcome,
    Topic,
    VerifyResult,
    explain,
    plan_attempts,
)
from tests.cli.programs import RunningFederation

NAME = "verify.ns.svc.clusterset.local"
DEPLOYED = (
    DeployedCluster("lubeck", "10.101.0.1", "10.101.0.2", "10.1.0.1"),
    DeployedCluster("bergen", "10.102.0.1", "10.102.0.2", "10.2.0.1"),
)
BY_PODS = ImportedService(("10.1.0.9",), ("bergen", "lubeck"), ("10.101.0.1", "10.102.0.1"))
BY_SERVICES = ImportedService((), ("bergen", "lubeck"), ("10.1.0.1", "10.2.0.1"))
TIMEOUT, UNKNOWN = "dial tcp: i/o timeout", "lookup verify: no such host"


def attempts(
    imported: ImportedService | None = BY_PODS, topics: tuple[Topic, ...] = TOPICS
) -> list[Attempt]:
    return plan_attempts("lubeck", DEPLOYED, imported, ("www.example.org",), "ns", topics)


def results(
    imported: ImportedService | None, *failing: tuple[Topic, str], error: str = TIMEOUT
) -> dict[tuple[str, str, str], VerifyResult]:
    """The results if attempts of these topics to these targets end in the unexpected way."""
    outcomes = [
        Outcome(a, a.expects_answer != ((a.topic, a.target) in failing), error)
        for a in attempts(imported)
    ]
    found = explain(outcomes, {"lubeck": imported})
    return {(r.topic, r.target, r.subject): r for r in found}


def test_addresses_names_services_policies_and_hosts_are_tried() -> None:
    assert {(a.topic, a.target) for a in attempts()} == {
        *((topic, cluster) for topic in ("routes", "policies") for cluster in ("lubeck", "bergen")),
        ("names", NAME),
        ("services", NAME),
        ("services", "10.1.0.9"),
        ("hosts", "www.example.org"),
    }
    by_cluster = {a.target for a in attempts(BY_SERVICES) if a.topic == "services"}
    assert by_cluster == {NAME, f"lubeck.{NAME}", f"bergen.{NAME}"}


def test_routes_alone_need_no_hanse() -> None:
    assert {a.topic for a in attempts(None, ("routes", "services"))} == {"routes"}


@pytest.mark.parametrize(
    ("imported", "status"), [(BY_PODS, "warning"), (BY_SERVICES, "failed"), (None, "warning")]
)
def test_a_service_range_must_be_routed_only_where_it_is_published(
    imported: ImportedService | None, status: str
) -> None:
    found = results(imported, ("routes", "bergen"))

    assert found["routes", "bergen", "pod address"].status == "failed"
    assert found["routes", "bergen", "Service address"].status == status
    assert found["routes", "lubeck", "Service address"].status == "ok"


def test_a_missing_route_is_the_cause_of_a_service_that_fails() -> None:
    found = results(BY_PODS, ("routes", "bergen"), ("services", "10.1.0.9"))

    route, service = (
        found["routes", "bergen", "pod address"],
        found["services", "10.1.0.9", "clusterset IP"],
    )
    assert route.message == "no route from lubeck to the pod range of bergen"
    assert service.message == "the pod address in bergen is not reached from lubeck"


@pytest.mark.parametrize(
    ("deployed", "remedy"),
    [
        (DEPLOYED, "route it to the nodes of bergen"),
        ((replace(DEPLOYED[1], node="192.0.2.2"),), "ip route replace 10.102.0.1 via 192.0.2.2 #"),
        (
            (replace(DEPLOYED[1], node="192.0.2.2", pod_range="10.102.0.0/24"),),
            "ip route replace 10.102.0.0/24 via 192.0.2.2 #",
        ),
    ],
    ids=["no node is known", "no range is known", "both are known"],
)
def test_the_remedy_of_a_missing_route_is_the_route(
    deployed: tuple[DeployedCluster, ...], remedy: str
) -> None:
    [route] = explain([route_outcome("lubeck", "bergen", POD, False)], {}, deployed)

    assert route.remedy.startswith(remedy)


def route_outcome(source: str, target: str, subject: str, answered: bool) -> Outcome:
    """The outcome of a route that is needed."""
    return Outcome(Attempt("routes", source, target, subject, ()), answered, TIMEOUT)


def test_pods_that_are_reached_without_their_service_lack_a_proxy() -> None:
    outcomes = [
        route_outcome("bergen", "bergen", POD, True),
        route_outcome("bergen", "bergen", SERVICE_ADDRESS, False),
        route_outcome("lubeck", "bergen", POD, True),
        route_outcome("lubeck", "bergen", SERVICE_ADDRESS, False),
        Outcome(Attempt("services", "bergen", "10.2.0.9", "clusterset IP", ()), False, TIMEOUT),
    ]

    found = explain(outcomes, {"lubeck": BY_PODS, "bergen": BY_PODS})

    failed = [r for r in found if r.status == "failed"]
    assert len(failed) == 3
    assert {r.remedy for r in failed} == {
        "kubectl --context bergen -n kube-system rollout restart daemonset kube-proxy"
    }


def test_connections_that_arrive_the_other_way_only_are_dropped_on_purpose() -> None:
    outcomes = [
        route_outcome("lubeck", "bergen", POD, False),
        route_outcome("lubeck", "bergen", SERVICE_ADDRESS, False),
        route_outcome("bergen", "lubeck", POD, True),
    ]

    *dropped, _ = explain(outcomes, {})

    for result in dropped:
        assert result.message.startswith("bergen drops connections of pods of lubeck")
        assert "policies and firewalls of bergen" in result.remedy


def test_pods_that_do_not_reach_their_own_cluster_have_no_network() -> None:
    [route] = explain([route_outcome("lubeck", "lubeck", POD, False)], {})

    assert route.message == "pods of lubeck do not reach each other"


def test_the_remedy_of_a_missing_stub_names_the_address_of_our_dns() -> None:
    attempt = Attempt("names", "lubeck", NAME, "name", ("lookup", NAME))
    here = replace(DEPLOYED[0], dns="10.1.0.53")

    [name] = explain([Outcome(attempt, False, UNKNOWN)], {"lubeck": BY_PODS}, [here])

    assert name.remedy == "add what `hanse dns corefile 10.1.0.53` prints to its Corefile"


def test_a_name_that_nobody_knows_is_a_missing_dns_stub() -> None:
    found = results(BY_PODS, ("names", NAME), ("services", NAME), error=UNKNOWN)

    for key in (("names", NAME, "name"), ("services", NAME, "name")):
        assert found[key].message == "the DNS of lubeck does not forward clusterset.local"
        assert "hanse dns corefile" in found[key].remedy


def test_a_service_that_is_not_imported_is_told_first() -> None:
    missing = ImportedService(missing="there is no ServiceImport; does its agent run?")
    found = results(missing, ("names", NAME), error=UNKNOWN)

    assert found["names", NAME, "name"].message.startswith("not imported in lubeck: there is no")


def test_policies_that_nobody_enforces_are_a_warning_and_those_that_others_pass_a_failure() -> None:
    unenforced = results(BY_PODS, ("policies", "lubeck"))["policies", "lubeck", "isolated pod"]
    assert (unenforced.status, unenforced.message) == (
        "warning",
        "the network of lubeck does not enforce NetworkPolicies",
    )
    outcomes = [
        Outcome(Attempt("policies", source, "bergen", "isolated pod", (), False), passed, "bergen")
        for source, passed in (("bergen", False), ("lubeck", True))
    ]
    own, others = explain(outcomes, {"lubeck": None, "bergen": None})
    assert (own.status, others.status) == ("ok", "failed")


def test_clusters_without_containers_and_bad_input_get_one_line(fleet: RunningFederation) -> None:
    for arguments, text in (
        (("--image", "x"), "no node of lubeck runs containers"),
        ((), "has no Deployment hanse-system/hanse-agent to take the image from"),
        (("--clusters", "rome"), "--clusters: no context 'rome'"),
        (("--clusters", ","), "--clusters names no context"),
        (("--only", "magic"), "--only: name some of routes"),
    ):
        result = fleet.run_hanse("verify", *arguments)
        assert result.status == 2, result.err
        assert text in result.err
        assert result.err.count("\n") == 1
