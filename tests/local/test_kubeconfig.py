"""Kubeconfig files of local clusters."""

import base64
from pathlib import Path

import pytest
import yaml

from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.local.kubeconfig import Context, write_kubeconfig, write_private_file

LUBECK = Context(
    "lubeck",
    ClientConfig(
        ServerEndpoint("https://127.0.0.1:1", ca=b"CA"), Identity(certificate=b"CERT", key=b"KEY")
    ),
)
BROKER = Context(
    "broker",
    ClientConfig(ServerEndpoint("https://127.0.0.1:2", ca=b"CA2"), Identity(token="secret")),
    user="agent",
)


def test_the_first_cluster_is_the_current_context(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "kubeconfig", [LUBECK, BROKER])

    written = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert written["current-context"] == "lubeck"
    assert [one["name"] for one in written["contexts"]] == ["lubeck", "broker"]


def test_each_context_has_its_own_server_authority_and_user(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "kubeconfig", [LUBECK, BROKER])

    written = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    users = {one["name"]: one["user"] for one in written["users"]}
    clusters = {one["name"]: one["cluster"] for one in written["clusters"]}
    context = {one["name"]: one["context"] for one in written["contexts"]}
    assert users[context["broker"]["user"]] == {"token": "secret"}
    assert base64.b64decode(users[context["lubeck"]["user"]]["client-key-data"]) == b"KEY"
    assert clusters["broker"]["server"] == "https://127.0.0.1:2"
    assert base64.b64decode(clusters["broker"]["certificate-authority-data"]) == b"CA2"


def test_a_kubeconfig_is_readable_by_its_owner_alone_even_over_an_open_one(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)

    write_kubeconfig(path, [LUBECK])

    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["kubeconfig"]


@pytest.mark.parametrize("folder", ["missing", "taken"])
def test_a_file_that_cannot_be_created_is_named_itself(tmp_path: Path, folder: str) -> None:
    (tmp_path / "taken").write_text("a file")
    path = tmp_path / folder / "kubeconfig"

    with pytest.raises(OSError, match="kubeconfig") as failed:
        write_private_file(path, b"")

    assert failed.value.filename == str(path)
