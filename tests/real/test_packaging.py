"""The chart and the manifests with real helm and the dry run of a real API server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanse.cli.manifests.render import render_chart, render_manifests
from hanse.cli.manifests.values import Values
from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import HELM_PROGRAM
from hanse.model.feature_names import FEATURES, FeatureName
from tests.real.conftest import Kubectl

pytestmark = pytest.mark.anyio

KUBE = ("--kube-version", "1.35.0", "--api-versions", "amko.vmware.com/v1alpha1")
VALUES = (
    "--set",
    "clusterId=lubeck",
    "--set",
    "gslb.enabled=true",
    "--set",
    "dashboard.enabled=true",
)


@pytest.fixture(scope="module")
async def helm() -> Path:
    return (await find_or_build((HELM_PROGRAM,), cache_folder()))["helm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as `hanse manifests --render_chart` writes it."""
    made = tmp_path_factory.mktemp("chart") / "hanse"
    for name, text in render_chart().items():
        file = made / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return made


async def run_program(program: Path, *arguments: str) -> tuple[int, str]:
    running = await asyncio.create_subprocess_exec(
        str(program),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await running.communicate()
    return running.returncode or 0, output.decode()


async def test_helm_lint_passes(helm: Path, folder: Path) -> None:
    status, output = await run_program(helm, "lint", "--strict", str(folder), *VALUES)

    assert status == 0, output


async def test_the_chart_and_the_manifests_are_the_same_objects(helm: Path, folder: Path) -> None:
    status, output = await run_program(helm, "template", "hanse", str(folder), *KUBE, *VALUES[:2])

    assert status == 0, output
    by_helm = {_object_key(one): one for one in yaml.safe_load_all(output) if one}
    by_us = yaml.safe_load_all(render_manifests(Values(cluster_id="lubeck")))
    for one in by_us:
        assert _without_helms_mark(by_helm.pop(_object_key(one))) == one
    assert by_helm == {}


@pytest.mark.parametrize("feature", FEATURES)
async def test_a_feature_alone_is_the_same_by_helm_and_by_us(
    helm: Path, folder: Path, feature: FeatureName
) -> None:
    only = ("--set", f"features={{{feature}}}")

    status, output = await run_program(
        helm, "template", "hanse", str(folder), *KUBE, *VALUES[:2], *only
    )

    assert status == 0, output
    by_helm = {_object_key(one) for one in yaml.safe_load_all(output) if one}
    by_us = render_manifests(Values(cluster_id="lubeck", features=[feature]))
    assert by_helm == {_object_key(one) for one in yaml.safe_load_all(by_us)}


async def test_helm_rejects_invalid_values(helm: Path, folder: Path) -> None:
    without, why = await run_program(helm, "template", "hanse", str(folder), *KUBE)
    wrong, output = await run_program(
        helm, "template", "h", str(folder), *KUBE, *VALUES, "--set", "dns.colour=1"
    )

    assert without != 0
    assert "clusterId" in why
    assert wrong != 0
    assert "colour" in output


async def test_a_real_api_server_accepts_every_object(
    helm: Path, folder: Path, real_clusters: RealFleet, kubectl: Kubectl
) -> None:
    _, output = await run_program(helm, "template", "hanse", str(folder), *KUBE, *VALUES)
    objects = [one for one in yaml.safe_load_all(output) if one]
    first = [one for one in objects if one["kind"] in ("Namespace", "CustomResourceDefinition")]
    for these, dry in ((first, ()), (objects, ("--dry-run=server",))):
        applied = await kubectl(
            *(real_clusters.kubeconfig, "lubeck", "apply", "--server-side", "--force-conflicts"),
            *(*dry, "-f", "-"),
            stdin=yaml.safe_dump_all(these),
        )

        assert applied.status == 0, applied.errors


async def test_helm_installs_over_the_objects_of_join(
    helm: Path, folder: Path, real_clusters: RealFleet, kubectl: Kubectl
) -> None:
    """As in the operations guide; a dry run, which checks ownership."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hanse-system"}}
    where = (real_clusters.kubeconfig, "lubeck")
    await kubectl(*where, "apply", "-f", "-", stdin=yaml.safe_dump(space))

    status, output = await run_program(
        *(helm, "install", "hanse", str(folder), "--take-ownership", *VALUES[:2]),
        *("--dry-run=server", "--kubeconfig", str(where[0]), "--kube-context", where[1]),
    )

    assert status == 0, output


def _without_helms_mark(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without the annotation that keeps it on deletion."""
    annotations = {
        n: v for n, v in obj["metadata"].pop("annotations", {}).items() if "helm.sh" not in n
    }
    return {
        **obj,
        "metadata": {**obj["metadata"], **({"annotations": annotations} if annotations else {})},
    }


def _object_key(obj: dict[str, dict[str, str]]) -> tuple[object, ...]:
    meta = obj["metadata"]
    return (obj["kind"], meta.get("namespace", ""), meta["name"])
