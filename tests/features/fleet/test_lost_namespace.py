"""The finding that a broker has lost the namespace of what clusters share."""

from typing import Any, Literal

import pytest
from msgspec.structs import replace

from hanse.app.views import examine
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.features.services.feature import Services
from hanse.kube.watch_events import Listed
from hanse.model.broker_namespace import GIVEN_UP, MEMBER
from hanse.model.facts import HeartbeatState, Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace, NamespaceStatus, ServiceAccount
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.stateful import Share, StatefulSetShares, StatefulSetSharesSpec
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import Watch
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

MISSING = "BrokerNamespaceMissing"


def namespaces(*names: str) -> tuple[Namespace, ...]:
    return tuple(stored(Namespace(metadata=Meta(name=name))) for name in names)


def account(namespace: str, given_up: str = "false") -> ServiceAccount:
    meta = Meta(
        name="lubeck",
        namespace=namespace,
        labels={MEMBER: "lubeck"},
        annotations={GIVEN_UP: given_up},
    )
    return stored(ServiceAccount(metadata=meta))


def broker(*objects: Object, unread: tuple[type[Object], ...] = ()) -> MultiClusterSnapshot:
    """A broker with these objects, as a person reads it."""
    kinds = (ClusterSet, Namespace, ServiceAccount, StatefulSetShares)
    known: tuple[Object, ...] = (stored(ClusterSet(metadata=Meta(name="default"))), *objects)
    lists: dict[Watch, Listed[Any]] = {
        Watch(Role.LOCAL, kind): Listed(tuple(o for o in known if isinstance(o, kind)), "1")
        for kind in kinds
        if kind not in unread
    }
    return build_fleet([ClusterRead("hub", lists)], EPOCH)


def remedies(fleet: MultiClusterSnapshot) -> dict[str, str]:
    return {one.code: str(one.remedy) for one in examine(fleet).findings}


def test_a_lost_namespace_is_told_with_the_command_that_makes_it_again() -> None:
    found = remedies(broker(account("hanse-broker-accounts"), *namespaces("hanse-broker-accounts")))

    assert found == {MISSING: "hanse broker init --context hub"}


def test_the_command_names_a_namespace_of_another_name() -> None:
    found = remedies(broker(account("trade-accounts"), *namespaces("trade-accounts")))

    assert found == {MISSING: "hanse broker init --context hub --namespace trade"}


def test_a_namespace_that_is_being_deleted_is_as_good_as_gone() -> None:
    (ending,) = namespaces("hanse-broker")
    ending = replace(ending, status=NamespaceStatus(phase="Terminating"))

    assert remedies(broker(account("hanse-broker-accounts"), ending)).keys() == {MISSING}


@pytest.mark.parametrize(
    "fleet",
    [
        broker(*namespaces("payments-accounts")),
        broker(account("hanse-broker-accounts"), *namespaces("hanse-broker")),
        broker(account("hanse-broker"), *namespaces("hanse-broker")),
        broker(account("hanse-broker-accounts", given_up="true")),
        broker(account("hanse-broker-accounts"), unread=(Namespace,)),
    ],
    ids=["accounts of others", "it is there", "accounts in it", "nobody is a member", "not read"],
)
def test_a_namespace_that_nobody_needs_or_nobody_read_is_not_told(
    fleet: MultiClusterSnapshot,
) -> None:
    assert remedies(fleet) == {}


def test_replicas_whose_reports_went_with_it_are_not_known_instead_of_down() -> None:
    spec = StatefulSetSharesSpec(shares=(Share(name="lubeck", replicas=3),))
    shares = stored(
        StatefulSetShares(metadata=Meta(name="store", namespace="shop"), spec=spec),
    )

    examination = examine(
        broker(account("hanse-broker-accounts"), shares, *namespaces("hanse-broker-accounts"))
    )

    (found,) = examination.findings
    assert (found.code, found.severity) == (MISSING, "degraded")
    assert [lost.summary for lost in found.consequences] == [
        "how many replicas of StatefulSet shop/store are ready is not known in lubeck"
    ]
    item = examination.items["statefulsets"]["shop/store"]
    assert (item.told, item.parts[0].text) == ("?/3 ready", "?/3")


@pytest.mark.parametrize(("phase", "told"), [("Active", False), ("Terminating", True)])
def test_an_agent_tells_it_by_the_namespace_of_its_own_lease(
    phase: Literal["Active", "Terminating"], told: bool
) -> None:
    (shared,) = namespaces("hanse-broker")
    clusters = [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER)]
    objects = {"broker": [replace(shared, status=NamespaceStatus(phase=phase))]}
    renewal = HeartbeatState("broker", False, EPOCH, namespace="hanse-broker")
    agent = snapshot(Services("hanse-broker"), "lubeck", clusters, objects, [renewal])

    found = remedies(MultiClusterSnapshot({"lubeck": agent}))

    assert (MISSING in found) is told
