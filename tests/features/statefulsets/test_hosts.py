"""What a host cluster has of its set while the broker does not take its changes."""

import msgspec
import pytest

from hanse.features.statefulsets.names import CLUSTER, SET
from hanse.model.facts import WriteOutcome, WriteResult
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import (
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    StatefulSetTemplate,
)
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import ClusterObjectRef, Meta, object_ref
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange
from hanse.runtime.ownership import Owner, with_owner
from tests.features.statefulsets.given import BROKER, FEATURE, HERE, SHOP, plan, record, snapshot_of
from tests.scenarios.statefulsets import spec_of
from tests.support.builders import namespace, stored
from tinykube.virtual_time import EPOCH

MIRROR = Key("mirror", "store", SHOP)


def federated_set(replicas: int) -> FederatedStatefulSet:
    template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(replicas)))
    spec = FederatedStatefulSetSpec(template=template)
    return FederatedStatefulSet(metadata=Meta(name="store", namespace=SHOP), spec=spec)


def keeps_shares(copied_by: str, result: WriteResult) -> bool:
    """Whether the host keeps its shares after a change of its set could not be written."""
    hosted, shares = stored(federated_set(5)), record(lubeck=3)
    copy = stored(with_owner(federated_set(3), Owner("statefulsets", MIRROR, copied_by)))
    ref = ClusterObjectRef(BROKER, object_ref(hosted))
    failed = WriteOutcome(ref, result, "no", EPOCH)
    at_broker = (stored(namespace(SHOP)), copy, record(lubeck=3))

    planned = plan(MIRROR, snapshot_of(*at_broker, here=[hosted, shares], facts=[failed]))

    assert planned.patches[0].change["status"]["conditions"][0]["reason"] == "NotPassedOn"
    return ClusterObjectRef(HERE, object_ref(shares)) in planned.kept or any(
        isinstance(d.object, StatefulSetShares) and d.where == HERE for d in planned.desired
    )


@pytest.mark.parametrize("result", ["Refused", "Forbidden"])
def test_a_change_that_the_broker_refuses_takes_nothing_from_the_host(result: WriteResult) -> None:
    assert keeps_shares(HERE, result)


def test_a_host_has_no_shares_of_a_set_that_another_host_copied() -> None:
    assert not keeps_shares("bergen", "Foreign")


@pytest.mark.parametrize("annotated", [True, False], ids=["another set", "no cluster any more"])
def test_a_load_balancer_at_the_broker_concerns_the_sets_of_both_its_labels(
    annotated: bool,
) -> None:
    def balancer(of: str, annotations: dict[str, str]) -> Service:
        meta = Meta(name="lb", namespace=SHOP, labels={SET: of}, annotations=annotations)
        return stored(Service(metadata=meta))

    before = balancer("store", {CLUSTER: "bergen"})
    after = balancer("other", {CLUSTER: "bergen"} if annotated else {})
    change = ObjectChange(BROKER, before, after)

    assert MIRROR in set(FEATURE.keys_for(change, snapshot_of(here=[federated_set(2)])))
