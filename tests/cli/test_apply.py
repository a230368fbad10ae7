"""Applying manifests: what is created, changed and left."""

from copy import deepcopy

import pytest

from hanse import __version__
from hanse.cli.apply import OUR_CATEGORY, Effect, apply, read_existing
from hanse.features.services.manifests import broker_policies
from hanse.features.services.write_rules import MEMBER_RULES
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.model.crds import RELEASE
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.manifests import (
    CLUSTER_ROLE,
    SERVICE_ACCOUNT,
    Manifest,
    crd_manifests,
    manifest,
    namespace,
)
from hanse.model.objects import Wire
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio

ACCOUNT = manifest(SERVICE_ACCOUNT, "rome", "league", labels={"a": "b"})


def _definition(**limits: int) -> Manifest:
    """Defines Ships with a field that has these limits."""
    field: Wire = {"type": "object", "properties": {"flag": {"type": "string", **limits}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": field}}
    names = {"plural": "ships", "kind": "Ship", "categories": [OUR_CATEGORY]}
    spec: Wire = {"group": "sea.org", "scope": "Namespaced", "names": names, "versions": [version]}
    return manifest(CustomResourceDefinition.kind, "ships.sea.org", body={"spec": spec})


def _role(**limits: list[str]) -> Manifest:
    """Lets whoever has it read Services."""
    rule = {"apiGroups": [""], "resources": ["services"], "verbs": ["get"], **limits}
    return manifest(CLUSTER_ROLE, "captain", body={"rules": [rule]})


class _Older(InProcessTransport):
    """A server from before admission policies."""

    async def send(self, request: Request) -> Response:
        if "validatingadmissionpolic" in request.path:
            return Response(404, b'{"kind":"Status","code":404,"reason":"NotFound"}')
        return await super().send(request)


def _client(transport: type[InProcessTransport] = InProcessTransport) -> Client:
    return Client(transport(ApiServer("rome", clock=WallClock())))


async def _effects(client: Client, *wanted: Manifest, dry_run: bool = False) -> list[Effect]:
    return [one.effect for one in await apply(client, wanted, dry_run=dry_run)]


async def test_what_is_not_there_is_made_and_the_second_time_nothing_is() -> None:
    client = _client()

    assert await _effects(client, namespace("league"), ACCOUNT) == [Effect.CREATED, Effect.CREATED]
    assert await _effects(client, namespace("league"), ACCOUNT) == [Effect.UNCHANGED] * 2


async def test_a_dry_run_prints_the_same_and_creates_nothing() -> None:
    client = _client()

    assert await _effects(client, namespace("league"), dry_run=True) == [Effect.CREATED]
    assert await _effects(client, namespace("league"), dry_run=True) == [Effect.CREATED]


async def test_drift_is_corrected_and_what_others_added_is_kept() -> None:
    client = _client()
    theirs: Wire = {"metadata": {"labels": {"a": "changed", "theirs": "kept"}}}
    await apply(client, [namespace("league")])

    settled = namespace("league")
    await client.patch(Namespace, "league", "", theirs)
    marked = Manifest(
        settled.kind, {**settled.wire, "metadata": {"name": "league", "labels": {"a": "b"}}}
    )

    assert await _effects(client, settled) == [Effect.UNCHANGED]
    assert await _effects(client, marked) == [Effect.CHANGED]
    labels = (await client.read(Namespace, "league")).metadata.labels
    assert (labels["a"], labels["theirs"]) == ("b", "kept")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_definition(maxLength=3), _definition(), id="limit of a field"),
        pytest.param(_role(resourceNames=["web"]), _role(), id="narrower right"),
    ],
)
async def test_what_a_manifest_no_longer_has_is_removed(before: Manifest, after: Manifest) -> None:
    client = _client()
    await apply(client, [before])

    assert await _effects(client, after) == [Effect.CHANGED]
    assert await _effects(client, after) == [Effect.UNCHANGED]


@pytest.mark.parametrize(
    ("release", "effect"),
    [
        ("99.0.0", Effect.NEWER),
        ("0.1.0", Effect.CHANGED),
        ("main", Effect.CHANGED),
        (__version__, Effect.CHANGED),
    ],
)
async def test_definitions_of_a_newer_release_are_left_as_they_are(
    release: str, effect: Effect
) -> None:
    [ours] = crd_manifests([ServiceExport])
    other = deepcopy(ours.wire)
    other["metadata"]["annotations"][RELEASE] = release
    other["spec"]["names"]["shortNames"] = ["another"]
    client = _client()
    await apply(client, [Manifest(ours.kind, other)])

    assert await _effects(client, ours) == [effect]

    found = await read_existing(client, ours)
    assert found is not None
    left = found["spec"]["names"]["shortNames"] == ["another"]
    assert left is (effect is Effect.NEWER)


async def test_an_older_server_does_without_admission_policies() -> None:
    wanted = broker_policies(MEMBER_RULES, "league")

    assert set(await _effects(_client(_Older), *wanted)) == {Effect.UNSERVED}
