"""Items are pure functions of snapshots."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from hanse.features.fleet.view import ClustersView, LinksView
from hanse.features.services.feature import Services as Feature
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SOURCE_CLUSTER, WEIGHT
from hanse.features.services.view import ServicesView
from hanse.model.conditions import condition
from hanse.model.facts import (
    ClusterState,
    HolderState,
    Leadership,
    LeaseLiveness,
    Phase,
    Role,
    WriteOutcome,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Event, ObjectReference, Secret
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ImportedPort,
    ServiceExport,
    ServiceExportStatus,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.ownership import OWNER
from hanse.model.snapshot import FactChange, ObjectChange
from hanse.model.view import View
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.timeline import DUPLICATE_WINDOW, MAX_ENTRIES, Timeline
from hanse.web.dashboard.viewers import Viewer, filter_update
from tests.support.builders import cluster, snapshot

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SHOP = "shop"


def web(*exporters: str) -> ServiceImport:
    return ServiceImport(
        metadata=Meta(name="web", namespace=SHOP, labels={OWNER: "services"}),
        spec=ServiceImportSpec(type="ClusterSetIP", ports=(ImportedPort(port=80, name="http"),)),
        status=ServiceImportStatus(clusters=tuple(ExportingCluster(cluster=c) for c in exporters)),
    )


def export(*item: Any) -> ServiceExport:
    return ServiceExport(
        metadata=Meta(name="web", namespace=SHOP), status=ServiceExportStatus(conditions=item)
    )


def endpoint_slice(source: str, *ready: bool, weight: str = "") -> EndpointSlice:
    return EndpointSlice(
        metadata=Meta(
            name=f"web-{source}",
            namespace=SHOP,
            labels={SERVICE_NAME: "web", SOURCE_CLUSTER: source, MANAGED_BY: DOMAIN},
            annotations={WEIGHT: weight} if weight else {},
        ),
        address_type="IPv4",
        endpoints=tuple(
            Endpoint(addresses=(f"10.0.0.{n}",), conditions=EndpointConditions(ready=is_ready))
            for n, is_ready in enumerate(ready, 1)
        ),
    )


GOOD = (condition("Valid", True, "Valid"), condition("Ready", True, "Exported"))


def multi_snapshot(**objects_by_cluster: list[Object]) -> MultiClusterSnapshot:
    """Each cluster as its own agent sees it, beside a broker."""
    fleet = [cluster("broker", Role.BROKER)]
    return MultiClusterSnapshot(
        {
            name: snapshot(Feature(), name, [cluster(name, Role.LOCAL), *fleet], {name: objects})
            for name, objects in objects_by_cluster.items()
        }
    )


def render_item(section: View, key: str, snapshots: MultiClusterSnapshot) -> Any:
    return msgspec.json.decode(msgspec.json.encode(section.render(key, snapshots)))


def test_a_service_shows_who_exports_it_and_what_is_ready_there() -> None:
    snapshots = multi_snapshot(
        lubeck=[
            export(*GOOD),
            web("lubeck", "bergen"),
            endpoint_slice("lubeck", True, True, weight="3"),
        ],
        bergen=[export(*GOOD), web("lubeck", "bergen"), endpoint_slice("bergen", True, False)],
    )

    item = render_item(ServicesView(), "shop/web", snapshots)

    assert list(ServicesView().keys(snapshots)) == ["shop/web"]
    assert item["ports"] == [{"port": 80, "name": "http"}]
    assert [(e["cluster"], e["ready"], e["all"], e["weight"]) for e in item["exporters"]] == [
        ("bergen", 1, 2, ""),
        ("lubeck", 2, 2, "3"),
    ]
    assert item["state"] == "good"


def test_a_conflict_is_shown_with_the_message_of_each_cluster() -> None:
    conflict = condition("Conflict", True, "PortConflict", "bergen has 81")
    snapshots = multi_snapshot(
        lubeck=[export(*GOOD, conflict), web("lubeck"), endpoint_slice("lubeck", True)]
    )

    item = render_item(ServicesView(), "shop/web", snapshots)

    assert item["problems"] == [
        {"cluster": "lubeck", "reason": "PortConflict", "message": "bergen has 81"}
    ]
    assert item["state"] == "warn"


def test_a_service_that_nobody_exports_or_imports_is_not_shown() -> None:
    assert ServicesView().render("shop/web", multi_snapshot(lubeck=[])) is None


def test_a_cluster_is_shown_as_its_own_agent_sees_it_and_others_by_who_looks() -> None:
    snapshots = multi_snapshot(lubeck=[export(*GOOD), web("lubeck")])

    lubeck, broker = (render_item(ClustersView(), name, snapshots) for name in ("lubeck", "broker"))

    assert (lubeck["agent"], lubeck["exports"], lubeck["imports"]) == (True, 1, 1)
    assert (broker["agent"], broker["roles"], broker["state"]) == (False, ["broker"], "good")
    assert [link["source"] for link in render_item(LinksView(), "broker", snapshots)["links"]] == [
        "lubeck"
    ]


def test_a_cluster_that_is_reached_twice_is_shown_once() -> None:
    fleet = [cluster("lubeck", Role.LOCAL), cluster("gslb/bergen", Role.SITE)]
    snapshots = MultiClusterSnapshot({"lubeck": snapshot(Feature(), "lubeck", fleet, {})})
    both = MultiClusterSnapshot(
        {"lubeck": snapshot(Feature(), "lubeck", [*fleet, cluster("bergen", Role.MEMBER)], {})}
    )

    assert snapshots.clusters == ("lubeck", "gslb/bergen")
    assert both.clusters == ("lubeck", "bergen")
    for section in (ClustersView(), LinksView()):
        assert section.render("gslb/bergen", snapshots) is not None
        assert section.render("gslb/bergen", both) is None, "although a fact about it wakes it"


def test_a_cluster_whose_lease_ran_out_is_bad_although_it_answers() -> None:
    snapshots = multi_snapshot(lubeck=[], bergen=[])
    dead = LeaseLiveness("broker", "hanse-broker", "bergen", "bergen", HolderState.SILENT, NOW)
    snapshots.by_agent["lubeck"]._facts.put(dead)

    assert (
        render_item(ClustersView(), "bergen", snapshots)["reason"]
        == "its Lease on broker has run out"
    )
    assert render_item(ClustersView(), "bergen", snapshots)["state"] == "bad"


def test_only_changed_items_are_rendered_again_and_sent_only_if_they_differ() -> None:
    snapshots = multi_snapshot(
        lubeck=[export(*GOOD), web("lubeck"), endpoint_slice("lubeck", True)]
    )
    items = ItemCache([ClustersView(), ServicesView()], lambda: snapshots)

    first, second = items.refresh(), items.refresh()
    items.on_change(ObjectChange("lubeck", web("lubeck"), web("lubeck", "bergen")))
    woken_in_vain = items.refresh()
    snapshots = multi_snapshot(lubeck=[])
    items.on_change(ObjectChange("lubeck", web("lubeck"), None))
    gone = items.refresh()

    assert set(first.put) == {"clusters", "services"}
    assert not second
    assert not woken_in_vain
    assert gone.gone == {"services": ("shop/web",)}


def test_a_long_board_is_read_in_turns() -> None:
    names = [f"web-{n}" for n in range(30)]
    exports = [ServiceExport(metadata=Meta(name=n, namespace=SHOP)) for n in names]
    items = ItemCache([ServicesView()], lambda: multi_snapshot(lubeck=list(exports)))

    turns = 0
    while items.stale:
        items.refresh(limit=10)
        turns += 1

    assert turns == 3
    assert len(items.all_items().put["services"]) == 30


def test_the_timeline_shows_users_changes_and_agents_conditions() -> None:
    line = Timeline(NOW)
    new = Meta(name="web", namespace=SHOP, creation_timestamp=NOW)
    changes = [
        ObjectChange("lubeck", None, ServiceExport(metadata=new)),
        ObjectChange("lubeck", export(), export(*GOOD)),
        ObjectChange("lubeck", endpoint_slice("lubeck", True), endpoint_slice("lubeck", False)),
        ObjectChange("lubeck", export(*GOOD), None),
    ]

    item = [h for change in changes for h in line.on_change("lubeck", change, NOW)]

    assert [(h.what, h.kind, h.text) for h in item] == [
        ("created", "ServiceExport", ""),
        ("told", "ServiceExport", "Valid True, Valid"),
        ("told", "ServiceExport", "Ready True, Exported"),
        ("changed", "EndpointSlice", "1 → 0 ready"),
        ("deleted", "ServiceExport", ""),
    ]


def test_earlier_objects_and_secrets_are_not_shown() -> None:
    line = Timeline(NOW)
    old = Meta(name="web", creation_timestamp=datetime(2020, 1, 1, tzinfo=UTC))

    assert (
        line.on_change("lubeck", ObjectChange("lubeck", None, ServiceExport(metadata=old)), NOW)
        == ()
    )
    assert line.on_change("lubeck", ObjectChange("lubeck", Secret(metadata=old), None), NOW) == ()


def event(reason: str, message: str, type_: str = "Normal") -> Event:
    about = ObjectReference(kind="ServiceExport", namespace=SHOP, name="web")
    meta = Meta(name="web.1", namespace=SHOP)
    return Event(metadata=meta, involved_object=about, reason=reason, message=message, type=type_)


def test_an_event_is_shown_on_its_object_under_the_clusters_own_name() -> None:
    line = Timeline(NOW)
    refused = event("Refused", "the name is taken", "Warning")

    (item,) = line.on_change("lubeck", ObjectChange("gslb/bergen", None, refused), NOW)

    assert (item.where, item.what, item.state) == ("bergen", "event", "warn")
    assert (item.kind, item.namespace, item.name) == ("ServiceExport", SHOP, "web")
    assert item.text == "Refused: the name is taken"


@pytest.mark.parametrize("event_first", [False, True])
def test_a_condition_and_an_event_with_the_same_message_are_shown_once(event_first: bool) -> None:
    line = Timeline(NOW)
    conflict = condition("Conflict", True, "PortConflict", "bergen has 81")
    changes = [
        ObjectChange("lubeck", export(*GOOD), export(*GOOD, conflict)),
        ObjectChange("lubeck", None, event("PortConflict", "bergen has 81")),
    ]

    item = [
        happening.text
        for change in (reversed(changes) if event_first else changes)
        for happening in line.on_change("lubeck", change, NOW)
    ]
    later = line.on_change("lubeck", changes[1], NOW + 2 * DUPLICATE_WINDOW)

    assert len(item) == 1
    assert len(later) == 1


def test_a_connection_for_a_purpose_is_reported_under_the_clusters_own_name() -> None:
    fine = ClusterState("gslb/bergen", frozenset({Role.SITE}), Phase.SYNCED, NOW)
    lost = ClusterState("gslb/bergen", frozenset({Role.SITE}), Phase.UNREACHABLE, NOW, "no answer")

    (item,) = Timeline(NOW).on_change("lubeck", FactChange(fine, lost), NOW)

    assert item.where == "bergen"
    assert item.text == "Unreachable for the agent of lubeck: no answer (for gslb)"


def test_a_write_that_fails_is_shown_in_the_namespace_of_its_object() -> None:
    place = ClusterObjectRef("gslb/bergen", object_ref(export()))
    failed = FactChange(None, WriteOutcome(place, "Refused", "the quota is used up", NOW))

    (item,) = Timeline(NOW).on_change("lubeck", failed, NOW)
    update = msgspec.json.encode({"timeline": [item]})

    assert (item.where, item.kind, item.namespace, item.name) == (
        "bergen",
        "ServiceExport",
        SHOP,
        "web",
    )
    assert item.text == "Refused: the quota is used up"
    assert b"quota" in filter_update(update, Viewer("ann", frozenset({SHOP})))
    assert b"quota" not in filter_update(update, Viewer("bob", frozenset({"bank"})))


def test_the_timeline_forgets_what_is_long_past() -> None:
    line = Timeline(NOW)
    for number in range(2 * MAX_ENTRIES):
        line.on_change("lubeck", ObjectChange("lubeck", None, event("Told", str(number))), NOW)

    assert [line.kept[0].text, len(line.kept)] == [f"Told: {MAX_ENTRIES}", MAX_ENTRIES]


def test_the_timeline_shows_when_a_cluster_is_lost_and_who_leads() -> None:
    line = Timeline(NOW)
    fine = ClusterState("bergen", frozenset({Role.MEMBER}), Phase.SYNCED, NOW)
    lost = ClusterState("bergen", frozenset({Role.MEMBER}), Phase.UNREACHABLE, NOW, "no answer")
    leads = Leadership("bergen", "lubeck_local", 3, ours=True)

    item = [
        h.text
        for fact in (FactChange(fine, lost), FactChange(None, leads))
        for h in line.on_change("lubeck", fact, NOW)
    ]

    assert item == ["Unreachable for the agent of lubeck: no answer", "led by lubeck"]
