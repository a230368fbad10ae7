"""A broker that is set up, uninstalled and set up again on one API server.

An API server keeps what it has learned of policies and their parameters while it runs: these tests
show that the second broker is judged by its own members, not by those of the first.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanse.local.real.fleet import RealFleet
from tests.real.conftest import Kubectl
from tests.real.joined_fleet import (
    ACCOUNTS_NAMESPACE,
    BROKER_NAMESPACE,
    JoinedFleet,
    stateful_set,
)

pytestmark = pytest.mark.anyio

ATTEMPTS = 40


async def _until_refused(fleet: JoinedFleet, name: str) -> str:
    """What the API server answers once it refuses a StatefulSet of this name."""
    submitted = stateful_set(name, {})
    for _ in range(ATTEMPTS):  # an API server learns of new members and policies late
        refused = await fleet.on("broker", "create", "--dry-run=server", "-f", "-", stdin=submitted)
        if refused.status:
            return refused.errors
        await asyncio.sleep(0.5)
    return "it was let in"


def _record(cluster: str) -> str:
    made: dict[str, Any] = {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "ClusterMember",
        "metadata": {"name": cluster, "namespace": BROKER_NAMESPACE},
        "spec": {"clusterID": cluster, "uid": "any"},
    }
    return msgspec.json.encode(made).decode()


async def _lose_namespace(fleet: JoinedFleet, *init: str) -> dict[str, list[str]]:
    """Let the namespace be deleted and made again, after one of two members was made to leave.

    Returns whether each may renew its Lease and read its record, and what the record says.
    """
    await fleet.join("lubeck")
    force = ("leave", "--broker", "broker", "--cluster-id", "lubeck", "--force")
    forced = await fleet.hanse(*force, "--broker-namespace", BROKER_NAMESPACE)
    deleted = await fleet.on("broker", "delete", "namespace", BROKER_NAMESPACE)
    again = await fleet.hanse(*init)
    for done in (forced, deleted, again):
        assert done.status == 0, done.errors
    found = {}
    for cluster in ("hamburg", "lubeck"):
        user = f"--as=system:serviceaccount:{ACCOUNTS_NAMESPACE}:{cluster}"
        asked = (("patch", f"leases/{cluster}"), ("get", f"clustermembers/{cluster}"))
        answers = [
            await fleet.on("broker", "-n", BROKER_NAMESPACE, "auth", "can-i", *what, user)
            for what in asked
        ]
        found[cluster] = [answer.output.strip() for answer in answers]
    get = ("-n", BROKER_NAMESPACE, "get", "clustermember", "lubeck", "-o")
    record = await fleet.on("broker", *get, "jsonpath={.status.phase} {.status.abandoned}")
    phase, abandoned = record.output.split()
    return {**found, phase: [abandoned]}


async def test_a_broker_that_is_set_up_again_judges_names_by_its_new_members(
    real_clusters: RealFleet, kubectl: Kubectl, tmp_path: Path
) -> None:
    fleet = JoinedFleet(real_clusters, tmp_path, kubectl)
    init = ("broker", "init", "--context", "broker", "--namespace", BROKER_NAMESPACE)
    uninstall = ("uninstall", "--context", "broker", "--yes", "--force")
    name = "s" * 45
    first = await fleet.hanse(*init)
    await fleet.on("broker", "create", "-f", "-", stdin=_record("lubeck-before"))
    before = await _until_refused(fleet, name)
    gone = await fleet.hanse(*uninstall)
    second = await fleet.hanse(*init)
    joined = await fleet.join("hamburg")

    after = await _until_refused(fleet, name)
    lost = await _lose_namespace(fleet, *init)

    left = [await fleet.hanse("uninstall", "--context", "hamburg", "--yes", "--force")]
    left.append(await fleet.hanse(*uninstall))
    for done in (first, gone, second, joined, *left):
        assert done.status == 0, done.errors
    assert lost == {"hamburg": ["yes", "yes"], "lubeck": ["no", "yes"], "Left": ["true"]}
    assert f"it becomes '{name}-lubeck-before'" in before
    assert f"it becomes '{name}-hamburg', 53 characters" in after
