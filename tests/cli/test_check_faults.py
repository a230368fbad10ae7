"""`hanse check --pre` names each fault that is planted in clusters, and what it prints mends it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanse.model.naming import ZONE
from tests.cli.programs import RunningFederation, running

CONTEXTS = ("lubeck", "bergen", "broker")
CIDR = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {"name": "planted"},
}
COREFILE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "coredns", "namespace": "kube-system"},
}
FOREIGN = "serviceexports.multicluster.x-k8s.io"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Clusters without Hanse."""
    options = ("--no-agents", "--no-sample", "--clusters", "lubeck,bergen")
    with running(tmp_path_factory.mktemp("bare"), *options) as federation:
        yield federation


def check(bare: RunningFederation, *arguments: str, status: int = 0) -> dict[str, Any]:
    """The results by cluster and check, of a run that ends with this status."""
    ended = bare.run_hanse("check", "--pre", "--broker", "broker", "--json", *arguments)
    assert ended.status == status, ended.out + ended.err
    return {f"{r['cluster']}: {r['check']}": r for r in json.loads(ended.out)["checks"]}


def apply(bare: RunningFederation, context: str, manifest: dict[str, Any]) -> None:
    result = bare.kubectl("--context", context, "apply", "-f", "-", stdin=json.dumps(manifest))
    assert result.status == 0, result.err


def test_service_ranges_that_overlap(bare: RunningFederation) -> None:
    theirs = check(bare)["bergen: service ranges"]["message"]
    apply(bare, "lubeck", {**CIDR, "spec": {"cidrs": [theirs]}})

    found = check(bare, status=1)["lubeck, bergen: overlaps"]

    assert f"service range {theirs} of lubeck overlaps service range" in found["message"]
    assert "publish pods: --profile kep-1645" in found["remedy"]
    check(bare, "--profile", "kep-1645", status=0)
    bare.kubectl("--context", "lubeck", "delete", "servicecidr", "planted")
    assert check(bare)["lubeck, bergen: overlaps"]["status"] == "ok"


def test_credentials_without_rights(bare: RunningFederation, tmp_path: Path) -> None:
    account = ("--context", "lubeck", "-n", "default")
    bare.kubectl(*account, "create", "serviceaccount", "installer")
    token = bare.kubectl(*account, "create", "token", "installer").out.strip()
    config = yaml.safe_load(bare.kubeconfig.read_text())
    user = next(c["context"]["user"] for c in config["contexts"] if c["name"] == "lubeck")
    next(one for one in config["users"] if one["name"] == user)["user"] = {"token": token}
    weak = tmp_path / "kubeconfig"
    weak.write_text(yaml.safe_dump(config))

    found = check(bare, "--kubeconfig", str(weak), status=1)["lubeck: rights"]

    assert found["message"].startswith("these credentials may not create")
    assert found["remedy"] == "kubectl --context lubeck auth can-i --list"
    grant = ("create", "clusterrolebinding", "installer", "--clusterrole=cluster-admin")
    bare.kubectl("--context", "lubeck", *grant, "--serviceaccount=default:installer")
    assert check(bare, "--kubeconfig", str(weak))["lubeck: rights"]["status"] == "ok"


def test_a_missing_stub(bare: RunningFederation) -> None:
    apply(bare, "lubeck", {**COREFILE, "data": {"Corefile": ".:53 {\n}\n"}})

    found = check(bare)["lubeck: DNS stub"]

    assert found["remedy"] == "after the installation add what `hanse dns corefile ADDRESS` prints"
    printed = bare.run_hanse("dns", "corefile", "10.1.0.53").out
    apply(bare, "lubeck", {**COREFILE, "data": {"Corefile": ".:53 {\n}\n" + printed}})
    found = check(bare)["lubeck: DNS stub"]
    assert (found["message"], found["remedy"]) == (f"ConfigMap coredns forwards {ZONE}", "")


def test_an_api_server_that_does_not_answer(bare: RunningFederation) -> None:
    bare.run_hanse("local", "kill", "bergen")

    found = check(bare, status=1)["bergen: API server"]

    assert found["status"] == "failed"
    assert found["remedy"] == "kubectl --context bergen cluster-info"
    bare.run_hanse("local", "start", "bergen")
    assert check(bare)["bergen: API server"]["status"] == "ok"


def test_nodes_that_are_not_ready(bare: RunningFederation) -> None:
    [name, *_] = bare.kubectl("--context", "lubeck", "get", "nodes", "-o", "name").out.split()
    ready = ("--context", "lubeck", "wait", name, "--timeout=90s")
    bare.kubectl("--context", "lubeck", "annotate", name, "sim.hanse.dev/ready=false")
    bare.kubectl(*ready, "--for=condition=Ready=false")

    found = check(bare, status=1)["lubeck: nodes"]

    assert "1 of 3 nodes are not ready" in found["message"]
    assert found["remedy"] == "kubectl --context lubeck describe nodes"
    bare.kubectl("--context", "lubeck", "annotate", name, "sim.hanse.dev/ready-")
    bare.kubectl(*ready, "--for=condition=Ready")
    assert check(bare)["lubeck: nodes"]["status"] == "ok"


def test_definitions_of_another_controller(bare: RunningFederation) -> None:
    definitions = bare.run_hanse("crds").out
    [theirs] = [d for d in yaml.safe_load_all(definitions) if d["metadata"]["name"] == FOREIGN]
    theirs["spec"]["names"]["categories"] = ["theirs"]
    apply(bare, "lubeck", theirs)

    found = check(bare)["lubeck: other controllers"]

    assert found["status"] == "warning"
    assert "another controller may write ServiceImports" in found["message"]
    bare.kubectl("--context", "lubeck", "delete", "crd", FOREIGN)
    assert check(bare)["lubeck: other controllers"]["status"] == "ok"
