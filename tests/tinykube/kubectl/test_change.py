"""`kubectl apply`, `edit`, `patch`, `replace`, `label` and other updates."""

import pytest

from tests.tinykube.kubectl.command import Kubectl
from tests.tinykube.kubectl.objects import configmap, crd, deployment, ship


@pytest.fixture
async def ships(kubectl: Kubectl) -> Kubectl:
    await kubectl("apply", "-f", "-", stdin=crd())
    await kubectl("wait", "--for=condition=Established", "crd/ships.sea.example.com")
    await kubectl("apply", "-f", "-", stdin=ship(cargo=["salt"], replicas=1))
    return kubectl


async def test_apply_creates_changes_and_removes(kubectl: Kubectl) -> None:
    first = await kubectl("apply", "-f", "-", stdin=configmap("c", {"a": "1", "b": "2"}))
    again = await kubectl("apply", "-f", "-", stdin=configmap("c", {"a": "1", "b": "2"}))
    await kubectl("patch", "cm/c", "--type=merge", "-p", '{"data":{"other":"kept"}}')
    changed = await kubectl("apply", "-f", "-", stdin=configmap("c", {"a": "9"}))

    assert [output.split()[-1] for output in (first, again, changed)] == [
        "created",
        "unchanged",
        "configured",
    ]
    assert (await kubectl.read("cm/c"))["data"] == {"a": "9", "other": "kept"}


async def test_apply_merges_lists_by_their_keys(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=deployment("web"))
    await kubectl("set", "env", "deployment/web", "MODE=fast")
    sidecar = '{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"l"}]}}}}'
    await kubectl("patch", "deployment/web", "-p", sidecar)

    output = await kubectl.warns("apply", "-f", "-", stdin=deployment("web", image="nginx:2"))
    containers = (await kubectl.read("deployment/web"))["spec"]["template"]["spec"]["containers"]

    assert "warning" not in output.lower()
    assert {one["name"]: one["image"] for one in containers} == {"web": "nginx:2", "log": "l"}
    assert next(one for one in containers if one["name"] == "web")["env"] == [
        {"name": "MODE", "value": "fast"}
    ]


async def test_apply_of_a_custom_resource(ships: Kubectl) -> None:
    await ships("apply", "-f", "-", stdin=ship(masts=4))

    assert (await ships.read("ship/anna"))["spec"] == {"masts": 4, "rig": "gaff"}


async def test_diff_shows_what_would_change(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=configmap("c", {"a": "1"}))

    code, output, _ = await kubectl._run(("diff", "-f", "-"), configmap("c", {"a": "2"}), {})

    assert code == 1
    assert '+  a: "2"' in output


async def test_replace(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=configmap("c", {"a": "1"}))

    output = await kubectl("replace", "-f", "-", stdin=configmap("c", {"b": "2"}))

    assert output == "configmap/c replaced\n"
    assert (await kubectl.read("cm/c"))["data"] == {"b": "2"}


async def test_edit(kubectl: Kubectl, ships: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=deployment("web"))

    await kubectl("edit", "deployment/web", EDITOR="sed -i s/nginx:1/nginx:7/")
    await ships("edit", "ship/anna", EDITOR="sed -i s/salt/wool/")

    found = await kubectl.read("deployment/web")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:7"
    assert (await ships.read("ship/anna"))["spec"]["cargo"] == ["wool"]


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("json", '[{"op":"add","path":"/data/b","value":"2"}]'),
        ("merge", '{"data":{"b":"2"}}'),
        ("strategic", '{"data":{"b":"2"}}'),
    ],
)
async def test_patch_of_each_kind(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("apply", "-f", "-", stdin=configmap("c", {"a": "1"}))

    await kubectl("patch", "cm/c", f"--type={kind}", "-p", patch)

    assert (await kubectl.read("cm/c"))["data"] == {"a": "1", "b": "2"}


async def test_patch_of_a_status(ships: Kubectl) -> None:
    patch = '{"status":{"state":"out"},"spec":{"masts":9}}'

    await ships("patch", "ship/anna", "--subresource=status", "--type=merge", "-p", patch)

    found = await ships.read("ship/anna")
    assert (found["spec"]["masts"], found["status"]["state"]) == (3, "out")


async def test_label_and_annotate(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=configmap("c"))

    await kubectl("label", "cm/c", "a=1", "b=2")
    await kubectl("label", "cm/c", "a-")
    taken = await kubectl.fails("label", "cm/c", "b=3")
    await kubectl("label", "cm/c", "b=3", "--overwrite")
    await kubectl("annotate", "cm", "--all", "why=because")

    metadata = (await kubectl.read("cm/c"))["metadata"]
    assert metadata["labels"] == {"b": "3"}
    assert metadata["annotations"]["why"] == "because"
    assert "--overwrite is false" in taken


async def test_scale_and_set_image(ships: Kubectl) -> None:
    await ships("apply", "-f", "-", stdin=deployment("web"))

    await ships("scale", "deployment/web", "--replicas=5")
    refused = await ships.fails("scale", "deployment/web", "--current-replicas=9", "--replicas=1")
    await ships("set", "image", "deployment/web", "web=nginx:3")
    await ships("scale", "ship/anna", "--replicas=4")

    spec = (await ships.read("deployment/web"))["spec"]
    assert spec["replicas"] == 5
    assert spec["template"]["spec"]["containers"][0]["image"] == "nginx:3"
    assert (await ships.read("ship/anna"))["spec"]["replicas"] == 4
    assert "Expected replicas to be 9, was 5" in refused


async def test_expose(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=deployment("web"))

    await kubectl("expose", "deployment/web", "--port=80", "--target-port=8080")

    spec = (await kubectl.read("service/web"))["spec"]
    assert spec["selector"] == {"app": "web"}
    assert spec["ports"][0]["targetPort"] == 8080


async def test_server_side_apply_is_refused(kubectl: Kubectl) -> None:
    output = await kubectl.fails("apply", "--server-side", "-f", "-", stdin=configmap("c"))

    assert "Server-side apply not available on the server" in output
