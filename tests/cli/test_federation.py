"""`hanse join` and `hanse leave` for federations, and the same by kubectl, as the guide says."""

import json
import re
import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanse import app
from hanse.features.federation.manifests import rules_for, supervisor_policies
from tests.cli.league import BOTH, ONE, federation_of, join, leave, reached, running_league
from tests.cli.programs import RunningFederation, hanse, soon

GUIDES = Path(__file__).parents[2] / "docs/guides"
IN_ROME = ("join", "--context", "rome", "--supervises")
LEAGUE = ("leave", "--federation", "league")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Three clusters with agents, of which two supervise a federation."""
    with running_league(tmp_path_factory.mktemp("league")) as found:
        yield found


def test_supervisors_reach_each_other_once_both_have_joined(fleet: RunningFederation) -> None:
    for supervisor in ("rome", "paris"):
        soon(reached(fleet, supervisor, "rome", "paris"))


def test_a_child_joins_is_led_and_leaves_nothing_behind(fleet: RunningFederation) -> None:
    wrong = ("--cluster-id", "wrong", "--context", "oslo", *ONE)
    refused = fleet.run_hanse("join", "--federation", "league", *wrong)
    dry = join(fleet, "oslo", *ONE, "--dry-run")
    joined = join(fleet, "oslo", *ONE)
    again = join(fleet, "oslo", *BOTH)

    assert refused.status == 2
    assert "an agent runs in oslo as 'oslo'; use that --cluster-id" in refused.err
    assert "# rome: would create Secret antrea-plus-system/member-oslo\n" in dry.out
    for supervisor in ("rome", "paris"):
        made = f"{supervisor}: created Secret antrea-plus-system/member-oslo\n"
        assert made in joined.out, joined.err
    assert "oslo: created ClusterClaim id.k8s.io\n" in joined.out
    assert again.out.startswith(
        "paris: nothing to change\nrome: nothing to change\noslo: nothing to change\n"
    )
    for supervisor in ("rome", "paris"):
        soon(reached(fleet, supervisor, "rome", "paris", "oslo"))
    soon(lambda: bool(federation_of(fleet, "oslo").get("status", {}).get("leaders")))

    left = leave(fleet, "oslo", *ONE)

    assert left.out.endswith("oslo has left federation league\n"), left.err
    for supervisor in ("rome", "paris"):
        soon(reached(fleet, supervisor, "rome", "paris"))
    names = fleet.kubectl(
        *("--context", "oslo", "get", "federations,clusterroles,clusterrolebindings", "-o", "name")
    )
    assert "hanse-supervisor" not in names.out
    assert "league" not in names.out


def test_what_is_written_as_a_claim_stays_so_when_a_cluster_joins_and_leaves(
    fleet: RunningFederation,
) -> None:
    spec = federation_of(fleet, "rome")["spec"]
    claims = {
        "clusterSet": {"name": "clusterSet.k8s.io", "value": "league"},
        "members": [
            {**one, "clusterID": {"name": "id.k8s.io", "value": one["clusterID"]}}
            for one in spec["members"]
        ],
    }
    patch = ("--type", "merge", "-p")
    fleet.kubectl(
        *(
            "--context",
            "rome",
            "patch",
            "federation",
            "league",
            *patch,
            json.dumps({"spec": claims}),
        )
    )

    joined = join(fleet, "oslo", *BOTH)
    with_oslo = federation_of(fleet, "rome")["spec"]
    again = join(fleet, "oslo", *BOTH)
    of_paris = federation_of(fleet, "paris")["spec"]
    left = leave(fleet, "oslo", *BOTH)

    assert (joined.status, left.status) == (0, 0), joined.err + left.err
    assert with_oslo["clusterSet"] == claims["clusterSet"]
    assert with_oslo["members"][:2] == claims["members"]
    assert with_oslo["members"][2]["clusterID"] == "oslo"
    assert "rome: nothing to change\n" in again.out
    assert [one["clusterID"] for one in of_paris["members"]] == ["rome", "paris", "oslo"]
    assert federation_of(fleet, "rome")["spec"] == claims
    fleet.kubectl(
        *("--context", "rome", "patch", "federation", "league", *patch, json.dumps({"spec": spec}))
    )


def test_tokens_are_never_printed(fleet: RunningFederation) -> None:
    result = join(fleet, "paris", "--supervises", "--supervisor", "rome", "--dry-run")

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
        pytest.param(
            (*LEAGUE, "--cluster-id", "atlantis", "--context", "broker", "--supervisor", "rome"),
            "Federation 'league' has no member 'atlantis'; there is: ",
            id="left and never a member",
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
    listed = [m["clusterID"] for m in federation_of(fleet, "rome")["spec"]["members"]]
    assert {"rome", "paris"} <= set(listed)


def test_a_cluster_whose_supervisors_lost_their_account_can_leave(fleet: RunningFederation) -> None:
    assert join(fleet, "oslo", *BOTH).status == 0
    soon(lambda: bool(federation_of(fleet, "oslo").get("status", {}).get("leaders")))
    for supervisor in ("rome", "paris"):
        name = f"serviceaccount/hanse-supervisor-{supervisor}"
        account = ("delete", name, "-n", "antrea-plus-system")
        assert fleet.kubectl("--context", "oslo", *account).status == 0

    left = leave(fleet, "oslo", *BOTH)
    again = leave(fleet, "oslo", *BOTH)

    assert left.out.endswith("oslo has left federation league\n"), left.err
    assert again.status == 0, "whoever was killed at the last step must be able to repeat it"
    assert again.out.endswith("oslo has left federation league\n"), again.err


SYSTEM = ("-n", "antrea-plus-system")


def _names(fleet: RunningFederation, cluster: str, *what: str) -> list[str]:
    """The names of objects in a cluster."""
    found = fleet.kubectl("--context", cluster, "get", *what, "-o", "name")
    assert found.status == 0, found.err
    return found.out.split()


def _federate(fleet: RunningFederation, *clusters: str) -> None:
    """Let a Service of each cluster join a federated one."""
    annotation = "svc.global.federated.antreaplus.vmware.com=web"
    for cluster in clusters:
        at = ("--context", cluster)
        assert fleet.kubectl(*at, "create", "service", "clusterip", "web", "--tcp=80").status == 0
        assert fleet.kubectl(*at, "annotate", "service", "web", annotation).status == 0


def _federated_addresses(fleet: RunningFederation, *clusters: str) -> list[str]:
    """The ClusterIPs of the federated Service in clusters."""
    get = ("get", "service", "web", *SYSTEM, "-o", "jsonpath={.spec.clusterIP}")
    return [fleet.kubectl("--context", c, *get).out for c in clusters]


def test_a_supervisor_leaves_nothing_behind_and_the_last_one_dissolves_the_federation(
    fleet: RunningFederation,
) -> None:
    assert join(fleet, "oslo", *ONE).status == 0
    _federate(fleet, "paris", "oslo")
    soon(lambda: all(_federated_addresses(fleet, "rome", "paris", "oslo")))
    before = _federated_addresses(fleet, "rome", "oslo")
    secret = ("--context", "paris", "get", "secret", "member-oslo", *SYSTEM)
    token = b64decode(fleet.kubectl(*secret, "-o", "jsonpath={.data.token}").out).decode()
    as_paris = ("--context", "oslo", f"--token={token}", "get", "clusterclaims")
    assert fleet.kubectl(*as_paris).status == 0

    left = leave(fleet, "paris")
    again = leave(fleet, "paris")
    last = leave(fleet, "rome")

    assert left.out.endswith("paris has left federation league\n"), left.err
    assert again.status == 2, "there is nothing to resume"
    assert "rome is the last supervisor of league" in last.err
    assert _names(fleet, "paris", "secrets,serviceaccounts", *SYSTEM) == ["serviceaccount/default"]
    owned = ("services,endpointslices,configmaps", "-A", "-l", "hanse.dev/owner")
    assert _names(fleet, "paris", *owned) == []
    for cluster in ("rome", "oslo"):
        accounts = _names(fleet, cluster, "serviceaccounts", *SYSTEM)
        assert "serviceaccount/hanse-supervisor-paris" not in accounts
    assert fleet.kubectl(*as_paris).status != 0, "its token is revoked"
    assert _federated_addresses(fleet, "rome", "oslo") == before

    ended = fleet.run_hanse("dissolve", "--federation", "league", "--context", "rome")

    assert ended.out.endswith("federation league has ended\n"), ended.err
    for cluster in ("rome", "oslo"):
        assert _names(fleet, cluster, *owned) == []
        assert _names(fleet, cluster, "federations") == []
        assert _names(fleet, cluster, "clusterclaims") == [
            "clusterclaim.antreaplus.vmware-tanzu.com/id.k8s.io"
        ]
        assert _names(fleet, cluster, "secrets,serviceaccounts", *SYSTEM) == [
            "serviceaccount/default"
        ]


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
    for rule in rules_for(watches, "CLUSTER_ID", "SUPERVISOR_ID"):
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
    from hanse.features.federation.manifests import account_manifests

    watches = [watch for one in app.features() for watch in one.watches]
    objects = account_manifests(rules_for(watches, "CLUSTER_ID", "SUPERVISOR_ID"), "SUPERVISOR_ID")
    policies = supervisor_policies(app.supervisor_rules(), "CLUSTER_ID")
    made = [m.wire for m in (*objects, *policies)]
    text = (
        "# The account of a supervisor in a member, and what holds it there; put their ids in the "
        "place of\n# SUPERVISOR_ID and CLUSTER_ID.\n"
    )
    text += yaml.safe_dump_all(made, sort_keys=False, width=100)
    (GUIDES / "federation-supervisor.yaml").write_text(text)


if __name__ == "__main__":
    _write_role()
