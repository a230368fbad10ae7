"""Definitions of 0.1.0 become those of this version, however they were applied; objects stay.

The list of a Federation's members was one of type map, and is none any more: its ids may be claims.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hanse.local.real.fleet import RealFleet
from hanse.model.crds import crd_of
from hanse.model.kinds.federation import Federation
from tests.cli.programs import HANSE
from tests.real.conftest import Kubectl
from tests.real.earlier_version import earlier_source

NAME = "federations.antreaplus.vmware-tanzu.com"
SERVER_SIDE = ("--server-side", "--field-manager=kubectl")
GUIDE = ("apply", "--server-side", "--force-conflicts")
ESTABLISHED = ("wait", "crd", NAME, "--for=condition=Established", "--timeout=30s")
FEDERATION = """
apiVersion: antreaplus.vmware-tanzu.com/v1alpha1
kind: Federation
metadata: {name: league}
spec:
  clusterSet: league
  members:
  - {clusterID: lubeck, server: "https://lubeck:6443", secret: member-lubeck}
  - {clusterID: bergen, server: "https://bergen:6443", secret: member-bergen}
"""
CLAIMS = FEDERATION.replace("clusterID: bergen", "clusterID: {name: id.k8s.io, value: bergen}")


@pytest.fixture(scope="module")
async def broker(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealFleet]:
    """A single API server."""
    async with RealFleet(tmp_path_factory.mktemp("upgrade"), binaries, names=()) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return earlier_source(tmp_path_factory.mktemp("earlier"))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(("apply",), ("apply",), id="applied"),
        pytest.param(("apply", *SERVER_SIDE), GUIDE, id="as the guide has it"),
        pytest.param(("hanse",), ("hanse",), id="by hanse"),
        pytest.param(("hanse",), GUIDE, id="by hanse, then as the guide has it"),
    ],
)
async def test_federations_stay_and_their_ids_may_be_claims_after_the_upgrade(
    broker: RealFleet,
    kubectl: Kubectl,
    earlier: Path,
    first: tuple[str, ...],
    then: tuple[str, ...],
) -> None:
    async def on(*arguments: str, stdin: str = "") -> str:
        done = await kubectl(broker.kubeconfig, "broker", *arguments, stdin=stdin)
        assert done.status == 0, f"{arguments}: {done.errors}"
        return done.output

    async def define(how: tuple[str, ...], source: Path | None) -> None:
        if how == ("hanse",):
            _run(broker, source, "broker", "init", "--context", "broker")
        else:
            await on(*how, "-f", "-", stdin=_run(broker, source, "crds"))
        await on(*ESTABLISHED)

    await define(first, earlier)
    for by, options in (("anna", ("--server-side", "--field-manager=anna")), ("bert", ())):
        text = FEDERATION.replace("league", f"league-{by}")
        await on("apply", *options, "-f", "-", stdin=text)
    refused = await kubectl(broker.kubeconfig, "broker", "apply", "-f", "-", stdin=CLAIMS)

    await define(then, None)

    wanted = crd_of(Federation)["spec"]["versions"]
    defined: Any = json.loads(await on("get", "crd", NAME, "-o", "json"))
    assert refused.status != 0
    assert defined["spec"]["versions"] == wanted
    for by, options in (("anna", ("--server-side", "--field-manager=anna")), ("bert", ())):
        name = f"league-{by}"
        get = ("get", "federation", name, "-o", "jsonpath={.spec.members[*].clusterID}")
        assert await on(*get) == "lubeck bergen"
        await on("apply", *options, "-f", "-", stdin=CLAIMS.replace("league", name))
        assert "bergen" in (claims := await on(*get))
        assert "id.k8s.io" in claims
    await on("delete", "federations", "--all")
    await _delete_definitions(broker, kubectl)


async def test_a_server_adds_nothing_that_would_be_removed_again(broker: RealFleet) -> None:
    init = ("broker", "init", "--context", "broker")
    _run(broker, None, *init)

    assert "broker: nothing to change" in _run(broker, None, *init)


async def _delete_definitions(fleet: RealFleet, kubectl: Kubectl) -> None:
    """Delete all CRDs; a change of one has the server retry now what it could not clean up."""
    on = partial(kubectl, fleet.kubeconfig, "broker")
    await on("delete", "crd", "--all", "--wait=false")
    for again in count():
        if not (await on("get", "crd", "-o", "name")).output:
            return
        await on("annotate", "crd", "--all", "--overwrite", f"again={again}")
        await asyncio.sleep(1)


def _run(fleet: RealFleet, source: Path | None, *arguments: str) -> str:
    """Run a command of this version, or of another source."""
    variables = {**os.environ, "KUBECONFIG": str(fleet.kubeconfig)}
    if source is not None:
        variables["PYTHONPATH"] = str(source)
    done = subprocess.run(
        [*HANSE, *arguments], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
