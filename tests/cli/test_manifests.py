"""What an installation is made of: the same in both forms, and no more rights than needed."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml

from hanse import __version__
from hanse.cli.manifests.render import render_chart, render_manifests
from hanse.cli.manifests.values import Values, schema, values_yaml
from hanse.cli.yaml_text import Template, to_yaml
from hanse.model.feature_names import FEATURES, FeatureName, with_required
from tests.cli.programs import hanse


def objects(**choices: Any) -> list[dict[str, Any]]:
    """The objects of an installation."""
    values = msgspec.convert({"clusterId": "lubeck", **choices}, Values)
    return list(yaml.safe_load_all(render_manifests(values, with_crds=False)))


def installed(**choices: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of an installation, by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one for one in objects(**choices)}


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


@pytest.mark.parametrize("account", ["hanse-dns", "hanse-guard", "hanse-console"])
def test_name_servers_guards_and_the_console_may_only_read(account: str) -> None:
    found = objects(networks={"guard": True}, console={"enabled": True})
    roles = [o for o in found if o["kind"].endswith("Role") and o["metadata"]["name"] == account]

    assert roles
    rules = [rule for role in roles for rule in role["rules"]]
    verbs = {(verb, *rule["resources"]) for rule in rules for verb in rule["verbs"]}
    asked = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
    told = {(verb, "leases") for verb in ("create", "delete", "patch")}
    assert {verb for verb, _ in verbs - asked - told} <= {"get", "list", "watch"}
    assert (told <= verbs) is (account == "hanse-guard"), "that the rules of their node hold"
    if account == "hanse-guard":  # not where those are by which agents are elected
        (role,) = (role for role in roles if "leases" in str(role))
        assert role["metadata"]["namespace"] == "hanse-guards"
    assert asked <= verbs or account != "hanse-console", "who people are, and what they may see"


def guard_pod(**networks: Any) -> dict[str, Any]:
    """The pod of a guard with values of networks."""
    found = installed(networks={"guard": True, **networks})
    pod: dict[str, Any] = found["DaemonSet", "hanse-guard"]["spec"]["template"]["spec"]
    return pod


def test_guards_have_nothing_of_their_node_but_its_network_by_default() -> None:
    """A node with a read-only root has no folder of CNI plugins that kubelet could make."""
    pod = guard_pod()
    [container] = pod["containers"]

    assert "volumes" not in pod
    assert "volumeMounts" not in container
    assert not [one for one in container["env"] if "CNI" in one["name"]]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert pod == guard_pod(cni=False)


def test_guards_that_are_plugins_have_the_folders_of_cni_by_the_paths_of_the_node() -> None:
    pod = guard_pod(cni=True, cniPlugins="/usr/lib/cni")
    [container] = pod["containers"]

    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts == {one["name"]: one["hostPath"]["path"] for one in pod["volumes"]}
    assert {*mounts.values()} == {"/etc/cni/net.d", "/usr/lib/cni", "/var/lib/hanse-cni"}
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["HANSE_CNI_CONFIG"] == "/etc/cni/net.d"
    assert environment["HANSE_CNI_PLUGINS"] == "/usr/lib/cni"
    added = container["securityContext"]["capabilities"]["add"]
    assert added == ["NET_ADMIN", "DAC_OVERRIDE"], "folders may belong to another user"


def test_the_chart_of_guards_is_right_for_values_of_a_release_without_cni() -> None:
    """As `helm upgrade --reuse-values` has them: what is missing is neither true nor a text."""
    chart = render_chart()
    plain, plugin = chart["templates/guard.yaml"], chart["templates/guard-cni.yaml"]

    has = '(has "networks" .Values.features)'
    conditions = [text.splitlines()[0] for text in (plain, plugin)]
    assert conditions == [
        f"{{{{- if and .Values.networks.guard (not .Values.networks.cni) {has} }}}}",
        f"{{{{- if and .Values.networks.guard .Values.networks.cni {has} }}}}",
    ]
    assert "networks.cni" not in "".join(plain.splitlines()[1:])
    used = [line.split(": ", 1)[1] for line in plugin.splitlines()[1:] if "networks.cni" in line]
    assert {*used} == {
        '{{ .Values.networks.cniConfig | default "/etc/cni/net.d" | quote }}',
        '{{ .Values.networks.cniPlugins | default "/opt/cni/bin" | quote }}',
    }


def test_what_is_switched_off_is_not_there() -> None:
    few = installed(dns={"enabled": False}, networkPolicy=False, egress={"enabled": False})

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


def test_a_services_only_installation_has_the_kinds_rights_and_namespaces_of_services(
    tmp_path: Path,
) -> None:
    result = hanse("manifests", "--cluster-id", "a", "--features", "services", cwd=tmp_path)

    found = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(result.out)]
    by_kind = {kind: {n for k, n in found if k == kind} for kind, _ in found}
    assert by_kind["Namespace"] == {"hanse-system"}
    assert by_kind["CustomResourceDefinition"] == {
        "acceptancepolicies.hanse.dev",
        "serviceexports.multicluster.x-k8s.io",
        "serviceimports.multicluster.x-k8s.io",
    }
    assert by_kind["ClusterRole"] == {
        *("hanse-agent", "hanse-agent-services"),
        *("hanse-dns", "hanse-dns-services"),
    }


def test_rights_alone_replace_no_workload_and_define_no_kind(tmp_path: Path) -> None:
    whole, rights = (
        list(yaml.safe_load_all(hanse("manifests", "--cluster-id", "a", *more, cwd=tmp_path).out))
        for more in ((), ("--rights",))
    )

    assert {one["kind"] for one in rights} == {
        *("Namespace", "ServiceAccount"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    }
    roles = [one for one in whole if "Role" in one["kind"] and "dns" not in one["metadata"]["name"]]
    assert [one for one in roles if one not in rights] == []


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_brings_only_its_own_roles(feature: str) -> None:
    roles = {n for k, n in installed(features=[feature]) if k.endswith("Role")}
    on = {*with_required([feature]), "admission"}

    assert {n.removeprefix("hanse-agent-") for n in roles if n.startswith("hanse-agent-")} <= on
    assert f"hanse-agent-{feature}" in roles


def test_our_pods_connect_to_dns_and_api_servers_and_to_no_metadata_service() -> None:
    spec = installed(features=["services"])["NetworkPolicy", "hanse-egress"]["spec"]
    names, servers = spec["egress"]

    assert spec["policyTypes"] == ["Egress"]
    assert spec["podSelector"] == {"matchLabels": {"app.kubernetes.io/part-of": "hanse"}}
    assert {one["port"] for one in names["ports"]} == {53, 5353}
    assert [one["port"] for one in servers["ports"]] == [443, 6443, 8443]
    assert "169.254.0.0/16" in servers["to"][0]["ipBlock"]["except"]
    for pod in ("hanse-agent", "hanse-dns"):
        template = installed()["Deployment", pod]["spec"]["template"]
        assert template["metadata"]["labels"]["app.kubernetes.io/part-of"] == "hanse"


def test_only_probes_of_global_names_reach_other_ports() -> None:
    assert ("NetworkPolicy", "hanse-probes") not in installed(features=["services"])
    assert ("NetworkPolicy", "hanse-probes") in installed(features=["gslb"])


def test_the_broker_alone_can_be_allowed() -> None:
    broker = {"ipBlock": {"cidr": "192.0.2.7/32"}}
    chosen = installed(egress={"to": [broker], "ports": [{"protocol": "TCP", "port": 16443}]})

    egress = chosen["NetworkPolicy", "hanse-egress"]["spec"]["egress"]
    assert egress[1] == {"to": [broker], "ports": [{"protocol": "TCP", "port": 16443}]}


def test_webhooks_that_are_off_need_no_rights() -> None:
    names = {n for _, n in installed(features=["networks"], webhooks={"enabled": False})}

    assert "hanse-agent-admission" not in names


def test_every_feature_can_be_named_in_the_values() -> None:
    assert get_args(FeatureName) == FEATURES


def test_rights_are_explained_with_the_feature_and_the_reason(tmp_path: Path) -> None:
    result = hanse("manifests", "--explain", "--features", "services,gslb", cwd=tmp_path)

    sections = [line for line in result.out.splitlines() if line.startswith("# ")]
    assert sections == ["# every agent", "# services", "# gslb"]
    assert "kubeconfigs of sites" in result.out
    assert "deployments" not in result.out


def test_an_unknown_feature_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    by_option = hanse("manifests", "--explain", "--features", "dns", cwd=tmp_path)
    by_value = hanse("manifests", "--cluster-id", "a", "--set", "features=[dns]", cwd=tmp_path)

    assert by_option.status == by_value.status == 2
    assert "--features: there is no feature 'dns'; choose of services, " in by_option.err
    assert "features[0]: invalid enum value 'dns'" in by_value.err
