"""The support bundle: what helps is in it, and no secret."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hanse.cli.clusters import ReadFailure, select_clusters
from hanse.cli.gather.bundle import gather
from hanse.cli.gather.redaction import redact, redact_text
from hanse.cli.root import run
from hanse.cli.settings import GlobalOptions
from hanse.kube.client_config import ClientConfig, ServerEndpoint
from hanse.local.kubeconfig import Context, write_kubeconfig
from tests.cli.programs import RunningFederation

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {TOKEN}",
        f"the token {TOKEN} is old",
        "password=hunter22 given",
        "https://admin:hunter22@avi.example/api",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter22\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_text_keeps_no_secret(text: str) -> None:
    kept = redact_text(text)

    assert "hunter22" not in kept
    assert TOKEN not in kept


def test_an_object_keeps_its_shape_and_no_secret() -> None:
    secret: dict[str, Any] = {
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"token": "aGk="},
    }
    listed = {"metadata": {"name": "b"}, "type": "Opaque", "data": {"any": "aGk="}}
    variables = [{"name": "AVI_PASSWORD", "value": "hunter22"}, {"name": "ZONE", "value": "x"}]
    pod = {"kind": "Pod", "metadata": {"managedFields": []}, "spec": {"env": variables}}

    assert redact(secret)["data"] == {"token": "<redacted>"}
    assert redact({"items": [listed]})["items"][0]["data"] == {"any": "<redacted>"}
    assert redact(pod) == {
        "kind": "Pod",
        "metadata": {},
        "spec": {
            "env": [{"name": "AVI_PASSWORD", "value": "<redacted>"}, {"name": "ZONE", "value": "x"}]
        },
    }


@pytest.fixture
def lubeck(tmp_path: Path) -> Path:
    """The kubeconfig of a cluster that does not answer."""
    file = tmp_path / "config"
    endpoint = ServerEndpoint("https://127.0.0.1:1")
    write_kubeconfig(file, [Context("lubeck", ClientConfig(endpoint))])
    return file


@pytest.mark.anyio
async def test_a_cluster_that_takes_too_long_says_so_in_the_bundle(
    lubeck: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: Any, **__: Any) -> list[ReadFailure]:
        return [ReadFailure("lubeck", TimeoutError())]

    monkeypatch.setattr("hanse.cli.gather.bundle.read_clusters", read)

    files = await gather(select_clusters(GlobalOptions(kubeconfig=lubeck)))

    assert files == {"lubeck/unread.txt": b"no answer within 120 s"}


@pytest.mark.parametrize("exists", [False, True], ids=["new", "overwritten"])
def test_a_bundle_is_its_owners_alone_and_not_only_once_it_is_written(
    lubeck: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    place = tmp_path / "bundle.tar.gz"
    if exists:
        place.write_bytes(b"")
        place.chmod(0o644)

    monkeypatch.setattr(Path, "chmod", lambda *_: pytest.fail("too late"))

    assert run(["gather", "--kubeconfig", str(lubeck), "-o", str(place)]) == 0
    assert place.stat().st_mode & 0o777 == 0o600
    with tarfile.open(place) as archive:
        assert any(name.endswith("lubeck/unread.txt") for name in archive.getnames())


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_a_bundle_has_findings_objects_and_versions_of_all_and_no_token(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    given = fleet.kubectl(
        "--context", "lubeck", "-n", "antrea-plus-system", "get", "secrets", "-o", "json"
    )
    tokens = [one["data"]["token"] for one in json.loads(given.out)["items"] if one.get("data")]
    place = tmp_path / "bundle.tar.gz"

    ended = fleet.run_hanse("gather", "-o", str(place))

    assert ended.status == 0, ended.err
    with tarfile.open(place) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        texts = [found.read() for m in archive.getmembers() if (found := archive.extractfile(m))]
    assert {"findings.json", "version.txt", "broker/objects/clustersets.hanse.dev.json"} <= names
    assert {"lubeck/objects/secrets.json", "bergen/objects/services.json"} <= names
    assert tokens
    assert not [token for token in tokens for text in texts if token.encode() in text]
    assert place.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("local", "kill", "b"), {"bergen", "broker"}),
        (("status", "--context", "l"), {"lubeck"}),
        (("status", "--namespace", "sh"), {"shop"}),
        (("export", "--namespace", "shop", "w"), {"web"}),
        (("resolve", "web.g"), {"web.global.test"}),
        (("statefulsets", "accept", "s"), {"shop/store"}),
        (("explain", "ClusterU"), {"ClusterUnreachable"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_shell_completes_names(
    fleet: RunningFederation, words: tuple[str, ...], expected: set[str]
) -> None:
    typed = {
        "_HANSE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("hanse", *words)),
        "COMP_CWORD": str(len(words)),
    }

    ended = fleet.run_hanse(env=typed)

    assert {line.partition(",")[2] for line in ended.out.splitlines()} == expected
