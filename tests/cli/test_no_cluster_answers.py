"""Every command reports that no cluster answers, and nothing that it cannot know."""

from pathlib import Path

import pytest

from hanse.cli.root import run

REFUSED = "cannot connect to 127.0.0.1:1: connection refused"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: rome, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {}}]
contexts: [{name: rome, context: {cluster: rome, user: me}}]
current-context: rome
"""
OBJECT = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "web"), f"hanse: rome does not answer: {REFUSED}; start it, or name"),
        (("uninstall",), f"hanse: rome does not answer: {REFUSED}; start it, or name"),
        (("migrate", "-n", "shop"), f"hanse: rome does not answer: {REFUSED}; start it, or"),
        (("networks", "list"), f"hanse: rome does not answer: {REFUSED}; start it, or name"),
        (("join", "--cluster-id", "rome", "--federation", "f"), f"does not answer: {REFUSED}"),
        (("plan", "-f", "web.yaml"), f"hanse: rome: {REFUSED}; see `hanse doctor`"),
        (("doctor",), f"ClusterUnreachable: cluster rome is not reached: {REFUSED}"),
        (("resolve", "web.shop"), REFUSED),
        (("policies",), "no policy is federated in a cluster that answers"),
        (("gslb", "status"), "no cluster that answers has an AMKOCluster in avi-system"),
        (("statefulsets",), f"hanse: no broker was found: rome does not answer ({REFUSED}); start"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_cluster_that_does_not_answer_is_named_with_what_to_do(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    (tmp_path / "web.yaml").write_text(OBJECT)
    monkeypatch.chdir(tmp_path)

    status = run([*arguments, "--kubeconfig", "config"])

    result = capsys.readouterr()
    assert message in result.out + result.err
    assert status == 1
