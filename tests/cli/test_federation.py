"""`hanse join` and `hanse leave` for federations, and the same by kubectl, as the guide says."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanse import app
from hanse.features.federation.manifests import rules_for, supervisor_policies
from tests.cli.programs import CommandResult, RunningFederation, hanse, running

GUIDES = Path(__file__).parents[2] / "docs/guides"
IN_ROME = ("join", "--context", "rome", "--supervises")
BOTH = ("--supervisor", "rome", "--supervisor", "paris")
LEAGUE = ("leave", "--federation", "league")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Three clusters with agents, of which two supervise a federation."""
    arguments = ("--clusters", "rome,paris,oslo", "--no-sample", "--no-federation")
    with running(tmp_path_factory.mktemp("league"), *arguments) as found:
        first = _join(found, "rome", "--supervises")
        assert first.status == 0, first.err
        second = _join(found, "paris", "--supervises", "--supervisor", "rome")
        assert second.status == 0, second.err
        yield found


def _join(fleet: RunningFederation, cluster: str, *more: str) -> CommandResult:
    who = ("--cluster-id", cluster, "--context", cluster)
    return fleet.run_hanse("join", "--federation", "league", *who, *more)


def _leave(fleet: RunningFederation, cluster: str, *more: str) -> CommandResult:
    who = ("--cluster-id", cluster, "--context", cluster)
    return fleet.run_hanse("leave", "--federation", "league", *who, *more)


def _federation(fleet: RunningFederation, cluster: str) -> Any:
    get = ("--context", cluster, "get", "federation", "league", "-o", "json")
    return json.loads(fleet.kubectl(*get).out)


def _soon(check: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not check():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.2)


def _reached(fleet: RunningFederation, cluster: str, *members: str) -> Callable[[], bool]:
    def check() -> bool:
        reported = _federation(fleet, cluster).get("status", {}).get("members") or []
        return {m["clusterID"] for m in reported if m.get("reachable")} == set(members)

    return check


def test_supervisors_reach_each_other_once_both_have_joined(fleet: RunningFederation) -> None:
    for supervisor in ("rome", "paris"):
        _soon(_reached(fleet, supervisor, "rome", "paris"))


def test_a_child_joins_is_led_and_leaves_nothing_behind(fleet: RunningFederation) -> None:
    dry = _join(fleet, "oslo", *BOTH, "--dry-run")
    joined = _join(fleet, "oslo", *BOTH)
    again = _join(fleet, "oslo", *BOTH)

    assert "# rome: would create Secret antrea-plus-system/member-oslo\n" in dry.out
    assert "rome: created Secret antrea-plus-system/member-oslo\n" in joined.out, joined.err
    assert "oslo: created ClusterClaim id.k8s.io\n" in joined.out
    assert again.out.startswith(
        "rome: nothing to change\nparis: nothing to change\noslo: nothing to change\n"
    )
    for supervisor in ("rome", "paris"):
        _soon(_reached(fleet, supervisor, "rome", "paris", "oslo"))
    _soon(lambda: bool(_federation(fleet, "oslo").get("status", {}).get("leaders")))

    left = _leave(fleet, "oslo", *BOTH)

    assert left.out.endswith("oslo has left federation league\n"), left.err
    for supervisor in ("rome", "paris"):
        _soon(_reached(fleet, supervisor, "rome", "paris"))
    names = fleet.kubectl(
        *("--context", "oslo", "get", "federations,clusterroles,clusterrolebindings", "-o", "name")
    )
    assert "hanse-supervisor" not in names.out
    assert "league" not in names.out


def test_tokens_are_never_printed(fleet: RunningFederation) -> None:
    result = _join(fleet, "paris", "--supervises", "--supervisor", "rome", "--dry-run")

    assert result.status == 0, result.err
    assert "\ndata:" not in result.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ("join", "--cluster-id", "oslo", "--context", "oslo"),
            "name what to join: --broker CONTEXT, or --federation NAME, or both",
            id="nothing to join",
        ),
        pytest.param(
            ("join", "--federation", "league", "--cluster-id", "oslo", "--context", "oslo"),
            "name the supervisors with --supervisor, or let this one be with --supervises",
            id="no supervisor",
        ),
        pytest.param(
            ("join", "--federation", "league", "--cluster-id", "Oslo", "--supervises"),
            "--cluster-id: cluster id 'Oslo' is not a DNS label",
            id="a bad id",
        ),
        pytest.param(
            (*IN_ROME, "--federation", "other", "--cluster-id", "rome"),
            "rome belongs to 'league'",
            id="another federation",
        ),
        pytest.param(
            (*IN_ROME, "--federation", "league", "--cluster-id", "roma"),
            "rome says that it is 'rome'",
            id="another id",
        ),
        pytest.param(
            (*IN_ROME, "--federation", "league", "--cluster-id", "rome", "--supervisor", "oslo"),
            "oslo is no supervisor",
            id="a supervisor that is none",
        ),
        pytest.param(
            ("join", "--broker", "broker", "--cluster-id", "oslo", "--supervises"),
            "go with --federation NAME",
            id="half a wish",
        ),
        pytest.param(
            ("join", "--broker", "broker", "--cluster-id", "paris", "--context", "rome"),
            "rome says that it is 'rome'",
            id="another's id at the broker",
        ),
        pytest.param(
            ("leave", "--federation", "league", "--cluster-id", "oslo", "--force"),
            "--force needs --supervisor CONTEXT",
            id="forgotten by nobody",
        ),
        pytest.param(
            (*LEAGUE, "--cluster-id", "oslo", "--context", "paris", *BOTH),
            "paris says that it is 'paris'",
            id="a member that is another",
        ),
        pytest.param(
            (*LEAGUE, "--cluster-id", "oslo", "--context", "paris", *BOTH, "--dry-run"),
            "paris says that it is 'paris'",
            id="a member that is another, tried",
        ),
        pytest.param(
            (*LEAGUE, "--cluster-id", "paris", "--context", "rome", "--supervisor", "paris"),
            "rome says that it is 'rome'",
            id="a supervisor in the place of a member",
        ),
        pytest.param(
            ("leave", "--federation", "nope", "--cluster-id", "rome", "--context", "rome"),
            "there is no Federation 'nope' in rome, which belongs to 'league'",
            id="a federation that is another",
        ),
        pytest.param(
            ("leave", "--federation", "nope", "--cluster-id", "oslo", *BOTH, "--force"),
            "there is no Federation 'nope' in rome",
            id="given up by a federation that is not there",
        ),
        pytest.param(
            (*LEAGUE, "--cluster-id", "atlantis", *BOTH, "--force"),
            "Federation 'league' has no member 'atlantis'",
            id="given up and never a member",
        ),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    fleet: RunningFederation, arguments: tuple[str, ...], sentence: str
) -> None:
    result = fleet.run_hanse(*arguments)

    assert result.status == 2
    assert sentence in result.err
    assert result.err.count("\n") == 1
    listed = [m["clusterID"] for m in _federation(fleet, "rome")["spec"]["members"]]
    assert {"rome", "paris"} <= set(listed)


def test_a_cluster_whose_supervisors_lost_their_account_can_leave(fleet: RunningFederation) -> None:
    assert _join(fleet, "oslo", *BOTH).status == 0
    _soon(lambda: bool(_federation(fleet, "oslo").get("status", {}).get("leaders")))
    account = ("delete", "serviceaccount", "hanse-supervisor", "-n", "antrea-plus-system")
    assert fleet.kubectl("--context", "oslo", *account).status == 0

    left = _leave(fleet, "oslo", *BOTH)
    again = _leave(fleet, "oslo", *BOTH)

    assert left.out.endswith("oslo has left federation league\n"), left.err
    assert again.status == 2
    assert again.err.startswith("hanse: there is no Federation 'league' in oslo")


def _commands() -> str:
    """The shell blocks of the guide's walk by kubectl, one after the other."""
    text = (GUIDES / "federation.md").read_text()
    (walk,) = re.findall(r"^## By kubectl alone\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", walk, re.MULTILINE | re.DOTALL))


def test_the_guide_forms_grows_and_shrinks_a_federation_by_kubectl_alone(tmp_path: Path) -> None:
    shutil.copy(GUIDES / "federation-supervisor.yaml", tmp_path)
    (tmp_path / "walk.sh").write_text("set -eu\n" + _commands())

    result = hanse(
        *("up", "--no-sample", "--no-federation", "--exec", "bash walk.sh"), cwd=tmp_path
    )

    assert result.status == 0, result.out + result.err
    assert "bergen is led by" in result.out
    assert "bergen has left" in result.out
    assert "hanse join" not in _commands()


def test_the_guides_role_grants_what_supervisors_need_and_no_more() -> None:
    watches = [watch for one in app.features() for watch in one.watches]
    wanted: dict[str, list[Any]] = {}
    for rule in rules_for(watches, "CLUSTER_ID"):
        wanted.setdefault(rule.namespace, []).append(rule.wire())
    text = (GUIDES / "federation-supervisor.yaml").read_text()
    written = [d for d in yaml.safe_load_all(text) if d["kind"] in ("ClusterRole", "Role")]

    found = {d["metadata"].get("namespace", ""): d["rules"] for d in written}

    assert found == wanted, "write it anew: python -m tests.cli.test_federation"
    policies = [m.wire for m in supervisor_policies(app.supervisor_rules(), "CLUSTER_ID")]
    held = [d for d in yaml.safe_load_all(text) if d["kind"].startswith("ValidatingAdmission")]
    assert held == policies, "write it anew: python -m tests.cli.test_federation"


def _write_role() -> None:
    """Write the guide's manifest from what features need now."""
    from hanse.features.federation.manifests import account

    watches = [watch for one in app.features() for watch in one.watches]
    objects = account(rules_for(watches, "CLUSTER_ID"))
    policies = supervisor_policies(app.supervisor_rules(), "CLUSTER_ID")
    made = [m.wire for m in (*objects, *policies)]
    text = "# The account of supervisors in a member; put its id in the place of CLUSTER_ID.\n"
    text += yaml.safe_dump_all(made, sort_keys=False, width=100)
    (GUIDES / "federation-supervisor.yaml").write_text(text)


if __name__ == "__main__":
    _write_role()
