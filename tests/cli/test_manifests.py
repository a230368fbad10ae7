"""What an installation is made of: the same in both forms, and no more rights than needed."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hanse import __version__
from hanse.cli.manifests.render import render_chart, render_manifests
from hanse.cli.manifests.values import Values, schema, values_yaml
from hanse.cli.yaml_text import Template, to_yaml
from tests.cli.programs import hanse


def installed(**choices: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of an installation, by kind and name."""
    values = msgspec.convert({"clusterId": "lubeck", **choices}, Values)
    return {
        (one["kind"], one["metadata"]["name"]): one
        for one in yaml.safe_load_all(render_manifests(values, with_crds=False))
    }


def pods() -> list[dict[str, Any]]:
    found = installed()
    names = ("hanse-agent", "hanse-dns")
    return [found["Deployment", name]["spec"]["template"]["spec"] for name in names]


def test_nothing_runs_as_root_or_writes_to_its_own_files() -> None:
    for pod in pods():
        (container,) = pod["containers"]

        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["livenessProbe"]
        assert container["readinessProbe"]


def test_no_role_has_all_rights_to_anything() -> None:
    rules = [
        r for (kind, _), one in installed().items() if kind.endswith("Role") for r in one["rules"]
    ]

    assert rules
    for rule in rules:
        assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])


def test_the_name_server_may_only_read() -> None:
    rules = installed()["ClusterRole", "hanse-dns"]["rules"]

    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_what_is_switched_off_is_not_there() -> None:
    few = installed(dns={"enabled": False}, networkPolicy=False)

    assert ("Deployment", "hanse-dns") not in few
    assert not [kind for kind, _ in few if kind == "NetworkPolicy"]
    assert ("AMKOCluster", "amkocluster-federation") not in few


def test_an_amkocluster_is_made_from_the_values_with_our_version() -> None:
    gslb = {"enabled": True, "isLeader": True, "clusterContext": "one", "clusters": ["one", "two"]}

    made = installed(gslb=gslb)["AMKOCluster", "amkocluster-federation"]

    assert made["metadata"]["namespace"] == "avi-system"
    assert made["spec"] == {
        "isLeader": True,
        "clusterContext": "one",
        "version": __version__,
        "clusters": ["one", "two"],
    }


def test_an_amkocluster_without_a_context_has_the_clusters_name() -> None:
    made = installed(clusterId="lubeck", gslb={"enabled": True})

    assert made["AMKOCluster", "amkocluster-federation"]["spec"]["clusterContext"] == "lubeck"


def test_nothing_is_made_twice_which_helm_would_refuse() -> None:
    values = msgspec.convert({"clusterId": "lubeck", "gslb": {"enabled": True}}, Values)

    made = [
        (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", ""))
        for one in yaml.safe_load_all(render_manifests(values, with_crds=False))
    ]

    assert ("Namespace", "avi-system", "") in made
    assert sorted(made) == sorted(set(made))


def test_every_program_gets_options_that_it_knows(tmp_path: Path) -> None:
    """What a pod's environment and arguments say must be what `hanse` listens to."""
    for pod in pods():
        (container,) = pod["containers"]
        help_text = hanse(container["args"][0], "--help", cwd=tmp_path).out

        for one in container["env"]:
            assert one["name"] in help_text, one["name"]
        for argument in container["args"][1:]:
            assert not argument.startswith("--") or argument.partition("=")[0] in help_text


def test_a_template_replaces_a_value_without_quotes() -> None:
    text = to_yaml([{"a": Template("{{ toJson .Values.b }}"), "c": "{{ plain }}"}])

    assert text == "---\na: {{ toJson .Values.b }}\nc: '{{ plain }}'\n"


def test_every_choice_of_the_chart_is_documented_and_has_a_schema() -> None:
    written = yaml.safe_load(values_yaml(Values()))

    assert written == msgspec.to_builtins(Values())
    assert set(written) == set(schema()["properties"]) - {"global"}
    assert schema()["required"] == ["clusterId"]


def test_a_choice_in_a_template_is_one_that_exists() -> None:
    import re

    values = msgspec.to_builtins(Values())
    for name, text in render_chart().items():
        for path in re.findall(r"\.Values\.([A-Za-z.]+)", text):
            place: Any = values
            for part in path.split("."):
                assert part in place, f"{name}: {path}"
                place = place[part]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "clusterId is not chosen"),
        (("--cluster-id", "Lübeck"), "is not a DNS label"),
        (
            ("--cluster-id", "a", "--set", "dns.enabled=maybe"),
            "dns.enabled: expected bool, got str",
        ),
        (("--cluster-id", "a", "--set", "dns.colour=red"), "there is no value dns.colour"),
        (("--cluster-id", "a", "--set", "dns"), "NAME=VALUE"),
        (("--cluster-id", "a", "--values", "missing.yaml"), "missing.yaml"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_in_one_line(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    result = hanse("manifests", *arguments, cwd=tmp_path)

    assert result.status == 2
    assert says in result.err
    assert result.err.count("\n") == 1


def test_the_chart_is_not_written_over_what_is_there(tmp_path: Path) -> None:
    first = hanse("manifests", "--chart", "hanse", cwd=tmp_path)
    second = hanse("manifests", "--chart", "hanse", cwd=tmp_path)

    assert (first.status, second.status) == (0, 2)
    assert (tmp_path / "hanse" / "Chart.yaml").exists()
    assert "not empty" in second.err
