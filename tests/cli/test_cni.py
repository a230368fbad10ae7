"""`hanse cni` by the CNI protocol, over a real cluster of the embedded kind and a real delegate."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hanse.features.networks.cni import CniError, merge_cni_args, parse_config, parse_pod
from tests.cli.programs import HANSE, RunningFederation, environment

DELEGATE = """#!/bin/sh
cat > "$0.stdin"
echo "$CNI_ARGS" > "$0.args"
echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.5/24"}]}'
"""
NETWORK = """
apiVersion: arktos.futurewei.com/v1
kind: Network
metadata: {name: acme.default}
spec: {type: mizar, tenant: acme}
"""
RUNTIMES = "IgnoreUnknown=1;K8S_POD_NAMESPACE=pods;K8S_POD_NAME=web"


@pytest.fixture(scope="module")
def _pod(fleet: RunningFederation) -> Iterator[None]:
    """The pod of a tenant that runtimes ask for, and one of nobody's; both have arguments."""
    given = "arktos.futurewei.com/cni-args=IPV4=12.34.56.78;VPCID=mizar-12345"
    for namespace in ("pods", "plain"):
        fleet.kubectl("create", "namespace", namespace)
        fleet.kubectl("-n", namespace, "run", "web", "--image", "none")
        fleet.kubectl("-n", namespace, "annotate", "pod", "web", given)
    fleet.kubectl("label", "namespace", "pods", "arktos.futurewei.com/tenant=acme")
    fleet.kubectl("apply", "-f", "-", stdin=NETWORK)
    yield
    fleet.kubectl("delete", "network", "acme.default")
    fleet.kubectl("delete", "namespace", "pods", "plain")


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    program = tmp_path / "delegate"
    program.write_text(DELEGATE)
    program.chmod(0o755)
    return tmp_path


def call(
    fleet: RunningFederation, plugins: Path, command: str, args: str = RUNTIMES, **config: Any
) -> tuple[int, dict[str, Any]]:
    """Call the plugin as a runtime does; gives its status and answer."""
    request = {
        "cniVersion": "1.0.0",
        "name": "pods",
        "type": "hanse",
        "kubeconfig": str(fleet.kubeconfig),
        "context": "lubeck",
        "delegate": {"type": "delegate", "mtu": 1400},
        **config,
    }
    more = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": "/var/run/netns/c1",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(plugins),
        "CNI_ARGS": args,
    }
    ended = subprocess.run(
        [*HANSE, "cni"],
        input=json.dumps(request),
        env=environment(plugins, more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.usefixtures("_pod")
def test_a_pods_arguments_reach_the_delegate_and_its_answer_the_runtime(
    fleet: RunningFederation, plugins: Path
) -> None:
    status, answer = call(fleet, plugins, "ADD")

    assert status == 0
    assert answer["ips"] == [{"address": "10.0.0.5/24"}]
    args = (plugins / "delegate.args").read_text().strip()
    assert args == f"{RUNTIMES};IPV4=12.34.56.78;VPCID=mizar-12345"
    request = json.loads((plugins / "delegate.stdin").read_text())
    assert request == {"cniVersion": "1.0.0", "name": "pods", "type": "delegate", "mtu": 1400}


@pytest.mark.usefixtures("_pod")
def test_a_pod_of_no_tenant_cannot_take_an_address_or_vpc_by_its_annotation(
    fleet: RunningFederation, plugins: Path
) -> None:
    status, answer = call(fleet, plugins, "ADD", RUNTIMES.replace("=pods", "=plain"))

    assert (status, answer["code"]) == (1, 11)
    assert "pod plain/web is in no network; remove its annotation" in answer["msg"]
    assert not (plugins / "delegate.args").exists()


def test_a_pod_that_is_gone_can_still_be_taken_down(
    fleet: RunningFederation, plugins: Path
) -> None:
    gone = RUNTIMES.replace("web", "gone")

    assert call(fleet, plugins, "DEL", gone)[0] == 0
    status, answer = call(fleet, plugins, "ADD", gone)

    assert status == 1
    assert answer["code"] == 11
    assert "pod pods/gone is not there" in answer["msg"]


@pytest.mark.usefixtures("_pod")
def test_errors_are_reported_as_the_protocol_defines(
    fleet: RunningFederation, plugins: Path
) -> None:
    status, answer = call(fleet, plugins, "ADD", delegate={"type": "missing"})

    assert status == 1
    assert answer == {
        "cniVersion": "1.0.0",
        "code": 7,
        "msg": f"plugin missing is not in {plugins}; install it there",
    }
    assert call(fleet, plugins, "DANCE")[1]["code"] == 4
    assert "1.0.0" in call(fleet, plugins, "VERSION")[1]["supportedVersions"]


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (b"{", 7),
        (b"{}", 7),
        (b'{"cniVersion": "9.9.9", "delegate": {"type": "x"}}', 1),
        (b'{"delegate": {"type": "../x"}}', 7),
        (b'{"delegate": {}}', 7),
    ],
)
def test_a_bad_configuration_has_its_code(config: bytes, code: int) -> None:
    with pytest.raises(CniError) as caught:
        parse_config(config)

    assert caught.value.code == code


def test_a_pod_cannot_say_what_only_runtimes_say() -> None:
    assert merge_cni_args("A=1", "K8SX=2;B=3") == "A=1;B=3"
    assert merge_cni_args("", "") == ""
    with pytest.raises(CniError, match="is not key=value"):
        merge_cni_args("A=1", "B;C=1")
    assert parse_pod("IgnoreUnknown=1") is None
