"""`hanse gslb` and the guide to global load balancing, against a federation that runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.programs import Running, Said, hanse, running

GUIDE = Path(__file__).parents[2] / "docs/guides/gslb.md"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("fleet"), "--clusters", "rome,paris") as found:
        yield found


def _status(fleet: Running) -> dict[str, object]:
    said = fleet.beside("gslb", "status", "--json")
    found: dict[str, object] = json.loads(said.out)
    return found


def _eventually_in_step(fleet: Running) -> dict[str, object]:
    for _ in range(30):
        found = _status(fleet)
        if not found["problems"]:
            return found
    raise AssertionError(found)


def test_status_tells_who_leads_and_who_is_in_step(fleet: Running) -> None:
    found = _eventually_in_step(fleet)

    assert found["leaders"] == ["rome"]
    clusters = found["clusters"]
    assert isinstance(clusters, list)
    assert [(c["name"], c["inStep"]) for c in clusters] == [("rome", None), ("paris", True)]


def test_a_promotion_is_refused_while_a_leader_can_be_reached(fleet: Running) -> None:
    said = fleet.beside("gslb", "promote", "paris")

    assert (said.status, said.out) == (2, "")
    assert said.err == (
        "hanse: rome leads and can be reached; run `hanse gslb demote rome` first\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("promote", "oslo"),
            "there is no context 'oslo' in the kubeconfig; there is: rome, paris",
        ),
        (("promote", "rome", "--controller-ip", "x"), "--controller-ip 'x' is no IP address"),
        (("promote", "broker"), "broker has no AMKOCluster in avi-system; create it first"),
    ],
)
def test_bad_input_is_one_line_with_the_remedy(
    fleet: Running, arguments: tuple[str, ...], words: str
) -> None:
    said = fleet.beside("gslb", *arguments)

    assert said.status == 2
    assert words in said.err
    assert said.err.count("\n") == 1


def test_a_dry_run_changes_nothing(fleet: Running) -> None:
    said = fleet.beside("gslb", "demote", "rome", "--dry-run")

    assert said.out.startswith("would make rome a follower\n")
    assert _status(fleet)["leaders"] == ["rome"]


def test_the_walk_through_the_guide_works(tmp_path: Path) -> None:
    (tmp_path / "walk.sh").write_text("set -eu\n" + _commands("On your machine"))

    said: Said = hanse("up", "--exec", "timeout 50 bash walk.sh", cwd=tmp_path)

    assert said.status == 0, said.out + said.err
    assert "6 198.19.0.1" in said.out
    assert "2 198.19.1.1" in said.out
    assert "make hamburg the leader" in said.out
    assert "oslo is no member cluster of the GSLBConfig" in said.out
    assert "lubeck and hamburg lead both" in said.out


def _commands(heading: str) -> str:
    """The shell blocks below a heading, one after the other."""
    (section,) = re.findall(
        rf"^## {heading}\n(.*?)(?=^## )", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def test_the_account_of_leaders_may_write_in_one_namespace_alone(tmp_path: Path) -> None:
    said = hanse("gslb", "rights", "--account", "boss", cwd=tmp_path)

    documents = list(yaml.safe_load_all(said.out))
    assert [d["kind"] for d in documents] == [
        *("Namespace", "ServiceAccount", "ClusterRole", "Role"),
        *("ClusterRoleBinding", "RoleBinding"),
    ]
    everywhere = next(d for d in documents if d["kind"] == "ClusterRole")
    verbs = {
        verb
        for rule in everywhere["rules"]
        if rule["resources"] != ["events"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch"}
    assert documents[-1]["subjects"][0]["name"] == "boss"
