"""A host's API server asks its agent about FederatedStatefulSets before it takes them."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from hanse.app import BROKER
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.webhooks import FederatedStatefulSetWebhook
from hanse.kube.errors import ApiError
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.hanse import (
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    StatefulSetTemplate,
)
from hanse.model.objects import ClusterObjectRef, Meta, ref_of
from hanse.model.verdict import Hook
from hanse.runtime.preview import preview
from tests.scenarios.city import refusal
from tests.scenarios.shipyard import Shipyard, headless, spec_of
from tests.support.stage import Features, Stage

HOST = "hamburg"


@pytest.fixture
def features() -> Features:
    return lambda: (StatefulSets(BROKER_NAMESPACE),)


@pytest.fixture
def hooks() -> tuple[Hook, ...]:
    return (FederatedStatefulSetWebhook(BROKER_NAMESPACE),)


@pytest.fixture
async def guarded(stage: Stage) -> AsyncIterator[Shipyard]:
    """A fleet whose hosts ask: what must be refused is refused already."""
    shipyard = Shipyard(stage)
    await shipyard.open()
    await stage.start_agents()
    await stage.eventually(shipyard.all_have_joined())

    async def asked() -> None:
        bad = shipyard.person(HOST).create(submitted(stage, "no.label"), dry_run=True)
        assert "cannot be part of its pods' host names" in await refusal(bad)

    await stage.eventually(asked)
    yield shipyard
    for actor in list(stage.actors):
        await stage.kill_agent(actor)
    await shipyard.close()


def submitted(stage: Stage, name: str = "store", **marks: str) -> FederatedStatefulSet:
    template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(3)))
    notes = {
        f"federation.kubernetes.io/statefulset-{n.replace('_', '-')}": v for n, v in marks.items()
    }
    meta = Meta(name=name, namespace=stage.shop, annotations=notes)
    return FederatedStatefulSet(metadata=meta, spec=FederatedStatefulSetSpec(template=template))


async def test_what_no_cluster_could_run_is_refused_and_what_stands_goes_on(
    guarded: Shipyard,
) -> None:
    stage, person = guarded.stage, guarded.person(HOST)
    with pytest.raises(ApiError, match="'yes' is not 'true' or 'false'"):
        await person.create(submitted(stage, lb_needed="yes"))
    with pytest.raises(ApiError, match="52 leave room for the revision"):
        await person.create(submitted(stage, "a" * 50))
    await person.create(headless("etcd", stage.shop))
    await person.create(submitted(stage))
    await stage.eventually(guarded.shares(bergen=1, hamburg=1, lubeck=1))

    async def edit(**spec: Any) -> None:
        change = {"spec": {"template": {"spec": spec}}}
        await person.patch(FederatedStatefulSet, "store", stage.shop, change)

    with pytest.raises(ApiError, match="updates to statefulset spec for fields other than"):
        await edit(serviceName="other")
    await edit(replicas=4)

    await stage.eventually(guarded.shares(bergen=2, hamburg=1, lubeck=1))


@pytest.mark.virtual
async def test_what_would_be_told_of_a_set_is_seen_before_it_is_submitted(
    guarded: Shipyard,
) -> None:
    wish = {"federation.kubernetes.io/statefulset-preferences": "lubeck"}
    meta = Meta(name="store", namespace=guarded.stage.shop, annotations=wish)
    bad = StatefulSet(metadata=meta, spec=spec_of(3))

    would = preview(guarded.stage.agent("bergen").engine, [(BROKER, bad)])

    assert "JSON is malformed" in would.warnings[ClusterObjectRef(BROKER, ref_of(bad))]
