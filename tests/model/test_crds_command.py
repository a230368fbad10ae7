"""`hanse crds` prints what `kubectl apply` takes, and says what is wrong in one line."""

import json

import pytest
import yaml
from click.testing import CliRunner, Result

from hanse.cli.crds import command
from hanse.model.crds import crds, placeholder_crds


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_all_definitions_are_printed_as_yaml_documents() -> None:
    said = run()

    assert said.exit_code == 0
    assert tuple(yaml.safe_load_all(said.stdout)) == crds()


def test_the_yaml_is_formatted_for_users() -> None:
    said = run()
    lines = said.stdout.splitlines()

    assert "&id" not in said.stdout
    assert not [line for line in lines if len(line) > 120 and "rule:" not in line]
    assert "\n          description: Somebody with namespaces" in said.stdout
    assert "\n    shortNames: [ne, net]\n" in said.stdout


def test_json_is_one_list() -> None:
    said = json.loads(run("--json").stdout)

    assert said["kind"] == "List"
    assert tuple(said["items"]) == crds()


@pytest.mark.parametrize("name", ["Network", "networks", "net", "networks.arktos.futurewei.com"])
def test_one_kind_goes_by_any_of_its_names(name: str) -> None:
    (crd,) = yaml.safe_load_all(run("--kind", name).stdout)

    assert crd["spec"]["names"]["kind"] == "Network"


def test_several_kinds_can_be_asked_for() -> None:
    found = yaml.safe_load_all(run("--kind", "gdp", "--kind", "gc").stdout)

    kinds = {crd["spec"]["names"]["kind"] for crd in found}
    assert kinds == {"GlobalDeploymentPolicy", "GSLBConfig"}


def test_stand_ins_are_printed_when_asked_for() -> None:
    assert tuple(yaml.safe_load_all(run("--stand-ins").stdout)) == placeholder_crds()


def test_an_unknown_kind_is_named_with_those_there_are() -> None:
    said = run("--kind", "Netwrk")

    assert said.exit_code == 2
    assert said.stdout == ""
    assert "There is no kind 'Netwrk'" in said.stderr
    assert "Network," in said.stderr
