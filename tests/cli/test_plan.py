"""`hanse plan` against a running federation: what is told, and that nothing is changed."""

import json
import shutil
from pathlib import Path

import pytest

from hanse.cli.root import run
from hanse.kube.client_config import ClientConfig, ServerEndpoint
from hanse.local.kubeconfig import Context, write_kubeconfig
from tests.cli.programs import RunningFederation, hanse
from tests.support.toy import OFFER, Toy

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")

PRICES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: prices, namespace: shop}
data: {bread: "3"}
"""
PORT = """\
apiVersion: v1
kind: Namespace
metadata: {name: port}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: berths, namespace: port}
---
apiVersion: sea.example.com/v1
kind: Ship
metadata: {name: kogge}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 99999}]}
"""


def test_a_plan_shows_what_would_change_and_changes_nothing(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(PRICES)

    def change() -> tuple[str, str]:
        result = fleet.run_hanse("plan", "-f", str(file), "--context", "bergen", "--json")
        (row,) = json.loads(result.out)["changes"]
        assert result.status == 0
        return row["cluster"], row["change"]

    assert change() == ("bergen", "create")
    assert change() == ("bergen", "create")

    fleet.kubectl("--context", "bergen", "apply", "-f", str(file))
    assert change() == ("bergen", "unchanged")

    file.write_text(PRICES.replace("3", "4"))
    assert change() == ("bergen", "update")


def test_a_plan_shows_what_would_be_refused_and_in_which_file(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    file = tmp_path / "port.yaml"
    file.write_text(PORT)

    result = fleet.run_hanse("plan", "-f", str(file), "--json")

    rows = {row["kind"]: row for row in json.loads(result.out)["changes"]}
    assert result.status == 1
    assert {kind: row["change"] for kind, row in rows.items()} == {
        "Namespace": "create",
        "ConfigMap": "create",
        "Ship": "refused",
        "Service": "refused",
    }
    assert rows["Ship"]["why"].startswith(
        f"{file}:9: the cluster does not serve sea.example.com/v1"
    )
    assert rows["Service"]["why"].startswith(f"{file}:13: ")
    assert fleet.kubectl("get", "namespace", "port").status == 1


def test_a_plan_asks_every_agent_what_it_would_do(
    fleet: RunningFederation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("hanse.app.composition.features", lambda: (Toy(),))
    fleet.kubectl("--context", "broker", "create", "namespace", "toy")
    file = tmp_path / "offer.yaml"
    file.write_text(PRICES.replace("name: prices", f"name: bread, labels: {{{OFFER}: 'yes'}}"))

    status = run(["plan", "-f", str(file), "--kubeconfig", str(fleet.kubeconfig), "--json"])

    assert status == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert {(row["cluster"], row["name"], row["by"]) for row in changes} >= {
        ("lubeck", "bread", "you"),
        ("broker", "shop.bread.lubeck", "lubeck"),
        ("hamburg", "copy-of-bread", "hamburg"),
        ("bergen", "copy-of-bread", "bergen"),
    }


JOINS = """\
apiVersion: v1
kind: Service
metadata:
  name: tolls
  namespace: shop
  annotations: {svc.global.federated.antreaplus.vmware.com: tolls}
spec: {ports: [{name: http, port: 80}]}
"""


def test_a_plan_shows_what_leaders_would_do_in_their_members(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    file = tmp_path / "joins.yaml"
    file.write_text(JOINS)
    for supervisor in ("lubeck", "hamburg"):
        fleet.kubectl(
            *("--context", supervisor, "wait", "federations", "--all", "--timeout=120s"),
            "--for=jsonpath={.status.members[2].leader}",
        )

    result = fleet.run_hanse("plan", "-f", str(file), "--context", "bergen", "--json")

    changes = json.loads(result.out)["changes"]
    served = {
        (row["cluster"], row["change"], row["namespace"])
        for row in changes
        if (row["kind"], row["name"]) == ("Service", "tolls") and row["by"] != "you"
    }
    home = "antrea-plus-system"
    assert served == {(c, "create", home) for c in ("lubeck", "hamburg", "bergen")}
    assert {row["by"] for row in changes} <= {"you", "lubeck", "hamburg"}, "a child leads nobody"
    assert fleet.kubectl("get", "service", "tolls", "-n", home).status == 1


def test_a_few_bytes_that_stand_for_millions_of_values_are_refused_with_their_line(
    tmp_path: Path,
) -> None:
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(["a0: &a0 [x]", *lines, ""]))

    result = hanse("plan", "-f", "bomb.yaml", cwd=tmp_path)

    assert file.stat().st_size < 700
    assert result.status == 2
    assert result.err == (
        "hanse: bomb.yaml:5: aliases add more than 10000 values; write them out\n"
    )


@pytest.mark.parametrize(
    ("current", "error"),
    [
        ("", "the kubeconfig has no current context; name one with --context"),
        ("rome", "no context 'rome' in the kubeconfig; there is: lubeck"),
    ],
    ids=["none", "unknown"],
)
def test_a_plan_without_a_usable_current_context_says_what_to_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], current: str, error: str
) -> None:
    file, kubeconfig = tmp_path / "prices.yaml", tmp_path / "config"
    file.write_text(PRICES)
    lubeck = Context("lubeck", ClientConfig(ServerEndpoint("https://127.0.0.1:1")))
    write_kubeconfig(kubeconfig, [lubeck])
    text = kubeconfig.read_text().replace(
        "current-context: lubeck", f"current-context: '{current}'"
    )
    kubeconfig.write_text(text)

    status = run(["plan", "-f", str(file), "--kubeconfig", str(kubeconfig)])

    assert status == 2
    assert capsys.readouterr().err == f"hanse: {error}\n"
