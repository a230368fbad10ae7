"""What spans clusters in `hanse status`, as views have it."""

import pytest
from msgspec.structs import replace

from hanse.app.views import examine
from hanse.cli.fleet import build_fleet
from hanse.cli.status.features import json_document, print_tables
from hanse.model.conditions import condition
from hanse.model.kinds.core import Service, ServiceStatus
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    GlobalServiceStatus,
    MemberHealth,
)
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.stateful import (
    Refusal,
    Replica,
    Share,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import Meta, Object
from tests.support.fleet_reads import NOW, findings, read


def broker() -> tuple[Object, ...]:
    """A broker with a set that one cluster runs, and another one refuses."""
    refusal = Refusal(field="workloads.namespaces", reason="namespace shop is not selected")
    ready = (Replica(name="store-bergen-0", ready=True),)
    store = StatefulSetPartSpec(namespace="shop", name="store", cluster="bergen", replicas=ready)
    refusing = replace(store, cluster="lubeck", replicas=(), refused=refusal, most=0)
    return (
        ClusterSet(metadata=Meta(name="default")),
        StatefulSetShares(
            metadata=Meta(name="store", namespace="shop"),
            spec=StatefulSetSharesSpec(shares=(Share(name="bergen", replicas=1),)),
        ),
        *(
            StatefulSetPart(
                metadata=Meta(name=f"store-{one.cluster}", namespace="hanse-broker"), spec=one
            )
            for one in (store, refusing)
        ),
    )


def host() -> GlobalService:
    member = GlobalMember(cluster="bergen", address="192.0.2.1", weight=3, priority=20)
    health = MemberHealth(cluster="bergen", address="192.0.2.1", up=True)
    return GlobalService(
        metadata=Meta(name="web.global.test", namespace="avi-system"),
        spec=GlobalServiceSpec(host="web.global.test", members=(member,)),
        status=GlobalServiceStatus(up="1/1", members=(health,)),
    )


def test_sets_and_hosts_are_shown_with_the_part_of_each_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet = build_fleet([read("hub", *broker(), agent=None), read("bergen", host())], NOW)
    items = examine(fleet).items

    print_tables(items, "", wide=True)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    document = json_document(items, "")

    assert "Algorithm:" in shown[-1]
    assert ["shop/store", "1/1", "ready", "bergen", "1/1"] in [line[:5] for line in shown]
    assert ["web.global.test", "1/1", "up", "bergen", "192.0.2.1,"] in [line[:5] for line in shown]
    (store,) = document["statefulSets"]
    assert [(part["cluster"], part["ready"], part["all"]) for part in store["parts"]] == [
        ("bergen", 1, 1)
    ]
    assert [one["code"] for one in store["findings"]] == ["SetRefused"]
    assert [one["name"] for one in document["globalHosts"]] == ["web.global.test"]
    assert json_document(items, "shop")["globalHosts"] == []


def test_a_set_with_a_dot_in_its_name_is_shown_with_its_namespace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shares = StatefulSetSharesSpec(shares=(Share(name="bergen", replicas=1),))
    dotted = StatefulSetShares(metadata=Meta(name="web.v1", namespace="shop"), spec=shares)
    fleet = build_fleet([read("hub", *broker()[:1], dotted, agent=None)], NOW)

    print_tables(examine(fleet).items, "", wide=False)

    assert "shop/web.v1 " in capsys.readouterr().out


def test_what_a_service_says_of_itself_is_a_finding() -> None:
    bad = condition("Federated", False, "ExternalName", "it has no endpoints")
    service = Service(
        metadata=Meta(name="web", namespace="shop"), status=ServiceStatus(conditions=(bad,))
    )

    [found] = findings(read("bergen", service))

    assert (found.code, found.summary) == (
        "NotFederated",
        "Service shop/web in bergen: it has no endpoints",
    )
