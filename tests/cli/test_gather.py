"""The support bundle: what helps is in it, and no secret."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hanse.cli.gather.redaction import redact, redact_text
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
