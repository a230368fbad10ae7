"""The console: a fleet for people with their own tokens, each with what they may see."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.programs import HANSE, RunningFederation, environment, eventually
from tests.support.ports import free_ports

RIGHTS = """# YAML
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: looks, namespace: shop}
rules: [{apiGroups: [""], resources: [services], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: looks, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: looks}
subjects: [{kind: ServiceAccount, name: anna, namespace: shop}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: looks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: bert, namespace: shop}]
"""

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


class Console:
    def __init__(self, address: str) -> None:
        self.address = address

    def board(self, token: str) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.address}/api/board", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@pytest.fixture(scope="module")
def console(fleet: RunningFederation) -> Iterator[Console]:
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [*HANSE, "console", "--listen", f"127.0.0.1:{port}", "--people-of", "lubeck"],
        cwd=fleet.folder.parent,
        env=environment(fleet.folder, {"KUBECONFIG": str(fleet.kubeconfig)}),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield Console(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def people(fleet: RunningFederation) -> dict[str, str]:
    """Tokens of somebody who sees the shop, somebody who sees all, and somebody with no right."""

    def kubectl(*arguments: str, stdin: str = "") -> str:
        ended = fleet.kubectl("--context", "lubeck", "-n", "shop", *arguments, stdin=stdin)
        assert ended.status == 0, ended.err
        return ended.out.strip()

    for name in ("anna", "bert", "carl"):
        kubectl("create", "serviceaccount", name)
    kubectl("create", "-f", "-", stdin=RIGHTS)
    return {name: kubectl("create", "token", name) for name in ("anna", "bert", "carl")}


def items(console: Console, token: str) -> dict[str, dict[str, Any]]:
    """What somebody sees, once clusters have been read."""
    until = time.monotonic() + 60
    shown: dict[str, dict[str, Any]] = {}
    while True:
        try:
            shown = console.board(token)["sections"]
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 503:  # a busy server, which is asked again
                raise
            shown = {}
        if len(shown.get("clusters", {})) >= 4 or time.monotonic() > until:
            return shown
        time.sleep(0.3)


def sections(console: Console, token: str) -> dict[str, set[str]]:
    """The keys of what somebody sees."""
    return {name: set(shown) for name, shown in items(console, token).items()}


def test_rights_decide_what_is_shown(console: Console, people: dict[str, str]) -> None:
    def sees_everything() -> str:
        bert = sections(console, people["bert"])
        all_of_it = (
            bert["clusters"] == {"lubeck", "hamburg", "bergen", "broker"}
            and "shop/web" in bert["services"]
            and "antrea-plus-system/web" in bert["federated"]
            and bert["networks"]
        )
        return "" if all_of_it else str(bert)

    eventually(sees_everything)
    anna = sections(console, people["anna"])
    carl = sections(console, people["carl"])

    assert anna["services"] == {"shop/web"}
    assert not anna["federated"]
    assert not anna["networks"]
    assert anna["clusters"] == {"lubeck", "hamburg", "bergen", "broker"}
    assert not carl["services"]


@pytest.mark.parametrize("token", ["", "nobody", "eyJhbGciOiJub25lIn0.e30."])
def test_who_has_no_token_of_the_cluster_sees_nothing(console: Console, token: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        console.board(token)

    assert refused.value.code == 401
    refused.value.close()


def test_what_only_who_reads_every_cluster_can_check_is_shown_and_its_remedy_mends(
    console: Console, fleet: RunningFederation, people: dict[str, str]
) -> None:
    def unguarded() -> list[dict[str, Any]]:
        found = items(console, people["bert"])["findings"].values()
        return [one for one in found if one["code"] == "BrokerUnguarded"]

    binding = ("validatingadmissionpolicybinding", "hanse-broker-imports")
    assert fleet.kubectl("--context", "broker", "delete", *binding).status == 0

    eventually(lambda: "" if unguarded() else "it is not shown")
    (command,) = unguarded()[0]["remedy"]["commands"]
    assert fleet.run_hanse(*command.split()[1:]).status == 0
    eventually(lambda: "it is still shown" if unguarded() else "")


def test_a_cluster_that_is_gone_is_shown_as_it_was_with_its_age(
    console: Console, people: dict[str, str], fleet: RunningFederation
) -> None:
    sections(console, people["bert"])

    fleet.run_hanse("local", "kill", "bergen")
    try:
        until = time.monotonic() + 60
        while (
            "ago" not in (bergen := items(console, people["bert"])["clusters"]["bergen"])["reason"]
        ):
            assert time.monotonic() < until, bergen
            time.sleep(0.3)
        shown = items(console, people["bert"])
    finally:
        fleet.run_hanse("local", "start", "bergen")
        fleet.run_hanse("doctor", "--wait", "60", patience=90)

    assert bergen["state"] == "bad"
    assert bergen["exports"] == 1, "what it had is known"
    found = [one for one in shown["findings"].values() if one["subject"]["name"] == "bergen"]
    assert [one["code"] for one in found] == ["ClusterUnreachable"]
