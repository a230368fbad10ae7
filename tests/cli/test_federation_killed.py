"""Members leave a federation although the command was killed."""

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.cli.league import ONE, federation_of, join, reached, running_league
from tests.cli.programs import HANSE, RunningFederation, environment, soon

LEAVE = ("leave", "--federation", "league", "--cluster-id", "oslo", "--context", "oslo", *ONE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Three clusters with agents, of which two supervise a federation."""
    with running_league(tmp_path_factory.mktemp("league")) as found:
        yield found


def test_a_leave_that_was_killed_at_any_point_goes_on_when_it_is_repeated(
    fleet: RunningFederation,
) -> None:
    assert join(fleet, "oslo", *ONE).status == 0
    for supervisor in ("rome", "paris"):
        soon(reached(fleet, supervisor, "rome", "paris", "oslo"))

    for seconds in (0.7, 1.1, 1.6, 2.2):
        process = subprocess.Popen(
            [*HANSE, *LEAVE],
            cwd=fleet.folder.parent,
            env=environment(fleet.folder.parent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(seconds)
        process.kill()
        process.wait()
    left = fleet.run_hanse(*LEAVE, patience=180)

    assert left.status == 0, left.err
    assert left.out.endswith("oslo has left federation league\n")
    for supervisor in ("rome", "paris"):
        soon(reached(fleet, supervisor, "rome", "paris"))
        get = ("--context", supervisor, "-n", "antrea-plus-system", "get", "secrets", "-o", "name")
        assert "secret/member-oslo" not in fleet.kubectl(*get).out
    kinds = "federations,clusterroles,clusterrolebindings,clusterclaims"
    names = fleet.kubectl("--context", "oslo", "get", kinds, "-o", "name").out
    assert "hanse-supervisor" not in names
    assert "league" not in names
    assert "clusterset.k8s.io" not in names


def test_a_join_takes_back_a_leave_that_was_killed(fleet: RunningFederation) -> None:
    assert join(fleet, "oslo", *ONE).status == 0
    began = ("hanse.dev/leaving=2026-05-01T12:00:00Z", "hanse.dev/dissolve=true")
    fleet.kubectl("--context", "oslo", "annotate", "federation", "league", *began)

    assert join(fleet, "oslo", *ONE).status == 0

    assert not federation_of(fleet, "oslo")["metadata"].get("annotations")
