"""What `hanse status` shows by its options, and how it ends; what `hanse explain` says."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from hanse.model.finding_codes import CODES
from tests.cli.programs import HANSE, RunningFederation, environment, eventually


@contextmanager
def ignored_setting(fleet: RunningFederation) -> Iterator[None]:
    """A risk: an export with an annotation that says nothing."""
    export = ("--context", "bergen", "-n", "shop", "annotate", "serviceexport", "web")
    fleet.kubectl(*export, "services.hanse.dev/weight=much")

    def said() -> str:
        found = fleet.run_hanse("status").out
        return "" if "SettingIgnored" in found else found

    eventually(said)
    try:
        yield
    finally:
        fleet.kubectl(*export, "services.hanse.dev/weight-")
        eventually(lambda: "" if fleet.run_hanse("doctor").status == 0 else "still wrong")


def test_it_fails_on_what_it_is_told_and_on_worse(fleet: RunningFederation) -> None:
    fleet.run_hanse("doctor", "--wait", "60", patience=90)
    assert fleet.run_hanse("status", "--fail-on", "note").status == 0
    with ignored_setting(fleet):
        ends = {
            on: fleet.run_hanse("status", "--fail-on", on).status for on in ("risk", "degraded")
        }
        usual, elsewhere = (
            fleet.run_hanse("status", *options).status
            for options in ((), ("-n", "elsewhere", "--fail-on", "risk"))
        )
        wide = fleet.run_hanse("status", "-o", "wide").out

    assert ends == {"risk": 1, "degraded": 0}
    assert (usual, elsewhere) == (0, 0)
    assert "mend it: kubectl --context bergen" in wide


def test_it_is_printed_again_when_it_changes(fleet: RunningFederation) -> None:
    fleet.run_hanse("doctor", "--wait", "60", patience=90)
    with subprocess.Popen(
        [*HANSE, "status", "--watch"],
        cwd=fleet.folder.parent,
        env=environment(fleet.folder.parent),
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        said = iter(watching.stdout.readline, "")
        try:
            assert next(said).startswith("CLUSTER")
            with ignored_setting(fleet):
                assert any(line.startswith("--- ") for line in said)
                assert "SettingIgnored" in next(said)
        finally:
            watching.terminate()


def test_a_namespace_and_a_form_choose_what_is_shown(fleet: RunningFederation) -> None:
    shop = fleet.run_hanse("status", "-n", "shop").out
    elsewhere = fleet.run_hanse("status", "-n", "elsewhere").out
    document = json.loads(fleet.run_hanse("status", "-o", "json").out)

    assert "shop/web" in shop
    assert "shop/" not in elsewhere
    assert document.keys() == yaml.safe_load(fleet.run_hanse("status", "-o", "yaml").out).keys()
    assert document.keys() == json.loads(fleet.run_hanse("status", "--json").out).keys()


def test_a_code_is_explained_however_it_is_written_and_a_near_one_is_named(
    fleet: RunningFederation,
) -> None:
    told = fleet.run_hanse("explain", "clustersilent")
    missed = fleet.run_hanse("explain", "ClusterSilence")

    assert CODES["ClusterSilent"].meaning in told.out
    assert CODES["ClusterSilent"].resolved in told.out
    assert missed.status != 0
    assert "did you mean ClusterSilent?" in missed.err
    assert all(code in fleet.run_hanse("explain").out for code in CODES)
