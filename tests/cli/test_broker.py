"""`hanse broker init`, on a cluster that is not yet a broker."""

from collections.abc import Iterator

import pytest
import yaml

from tests.cli.programs import CommandResult, RunningFederation, running


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Two clusters; the first is made a second broker, the other is left as it is."""
    arguments = ("--clusters", "rome,paris", "--no-sample")
    with running(tmp_path_factory.mktemp("fleet"), *arguments) as found:
        yield found


@pytest.fixture(scope="module")
def made(fleet: RunningFederation) -> CommandResult:
    """What was told when rome became a broker."""
    return fleet.run_hanse("broker", "init", "--context", "rome", "--profile", "kep-1645")


def test_it_prints_all_that_it_created_and_the_next_step(made: CommandResult) -> None:
    assert made.status == 0, made.err
    assert "rome: created Namespace hanse-broker\n" in made.out
    assert "rome: created ValidatingAdmissionPolicy hanse-broker-slices\n" in made.out
    assert "rome: created Role hanse-broker/hanse-broker:member\n" in made.out
    assert made.out.endswith("  hanse join --broker rome --cluster-id ID --context CLUSTER\n")


def test_the_fleet_follows_the_profile_asked_for(
    fleet: RunningFederation, made: CommandResult
) -> None:
    found = fleet.kubectl("get", "clusterset", "default", "-o", "jsonpath={.spec.profile}")

    assert found.out == "kep-1645"


def test_making_it_again_changes_nothing(fleet: RunningFederation, made: CommandResult) -> None:
    again = fleet.run_hanse("broker", "init", "--context", "rome")

    assert again.out.startswith("rome: nothing to change\n")


def test_what_was_changed_by_hand_is_put_right(
    fleet: RunningFederation, made: CommandResult
) -> None:
    fleet.kubectl(
        "-n", "hanse-broker", "patch", "role", "hanse-broker:member", "-p", '{"rules":[]}'
    )

    again = fleet.run_hanse("broker", "init", "--context", "rome")

    assert again.out.startswith("rome: changed Role hanse-broker/hanse-broker:member\n")


def test_a_settled_fleet_does_not_change_its_rules_in_passing(
    fleet: RunningFederation, made: CommandResult
) -> None:
    result = fleet.run_hanse("broker", "init", "--context", "rome", "--profile", "lighthouse")

    assert result.status == 2
    assert result.err.startswith("hanse: ClusterSet default on rome follows kep-1645; to change")


def test_a_dry_run_prints_manifests_and_writes_nothing(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("broker", "init", "--context", "paris", "--dry-run")

    assert result.status == 0, result.err
    kinds = [document["kind"] for document in yaml.safe_load_all(result.out) if document]
    bound = kinds.count("ValidatingAdmissionPolicyBinding")
    assert bound == kinds.count("ValidatingAdmissionPolicy") > 0
    assert "ClusterSet" in kinds
    assert fleet.kubectl("--context", "paris", "get", "namespace", "hanse-broker").status == 1


def test_a_cluster_of_which_only_a_share_is_left_is_made_to_leave(
    fleet: RunningFederation, made: CommandResult
) -> None:
    shares = {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "StatefulSetShares",
        "metadata": {"name": "store", "namespace": "default"},
        "spec": {"shares": [{"name": "riga", "replicas": 2}]},
    }
    applied = fleet.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(shares))
    assert applied.status == 0, applied.err

    forced, again, mistyped, unforced = (
        fleet.run_hanse("leave", "--broker", "rome", "--cluster-id", cluster, *more)
        for cluster, *more in (
            ("riga", "--force"),
            ("riga", "--force"),
            ("rigga", "--force"),
            ("rigga", "--context", "paris"),
        )
    )

    assert forced.out.startswith("riga was made to leave rome")
    assert again.status == 0, again.err
    assert (mistyped.status, mistyped.out) == (2, "")
    assert (unforced.status, unforced.err) == (2, mistyped.err)
    assert mistyped.err == "hanse: rigga is no member of rome and never was one; there is: riga\n"
    phase = ("clustermember", "riga", "-o", "jsonpath={.status.phase}")
    assert fleet.kubectl("-n", "hanse-broker", "get", *phase).out == "Left"


def test_a_definition_of_somebody_else_is_left_to_them(fleet: RunningFederation) -> None:
    name = "serviceimports.multicluster.x-k8s.io"
    theirs = '{"spec":{"names":{"categories":["all"]}}}'
    fleet.kubectl("--context", "paris", "patch", "crd", name, "--type=merge", "-p", theirs)

    result = fleet.run_hanse("broker", "init", "--context", "paris", "--dry-run")

    assert f"# paris: would leave to its owner CustomResourceDefinition {name}\n" in result.out


def test_a_cluster_that_does_not_answer_is_named_with_the_remedy(fleet: RunningFederation) -> None:
    fleet.run_hanse("local", "kill", "paris")
    try:
        result = fleet.run_hanse("broker", "init", "--context", "paris")
    finally:
        fleet.run_hanse("local", "start", "paris")

    assert result.status == 1
    assert result.err.startswith("hanse: paris does not answer: cannot connect to 127.0.0.1:")
    assert result.err.endswith("; start it, or name another context\n")
