"""The condition `Published` of sets, and names that a foreign DNSEndpoint has."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from hanse.features.publishing.feature import Publishing
from hanse.features.publishing.options import NAME_SERVER, PublishingOptions, ServerOptions
from hanse.features.services.zone import ServiceZone
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone import StatefulSetZone
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.apps import StatefulSet, StatefulSetStatus
from hanse.model.kinds.coordination import Lease, LeaseMeta
from hanse.model.kinds.core import ObservedCondition
from hanse.model.kinds.externaldns import DNSEndpoint, DNSEndpointSpec, DNSRecord
from hanse.model.kinds.hanse import (
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    StatefulSetTemplate,
)
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.names import PublishedName
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import ObjectChange, Snapshot, Writes
from hanse.runtime.ownership import Owner, with_owner
from tests.dns.builders import endpoint_slice, imported
from tests.features.statefulsets.test_zone import HOME, SHARES, SPACE, WIDE, parts, shares
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

ETCD = Key("statefulsets.stateful", "etcd", SPACE)
REPLICA = f"store-c1-0.{WIDE}"
PLACED = ObservedCondition(
    type="Placed", status="True", reason="Placed", last_transition_time=EPOCH
)


def replicas() -> Publishing:
    zone = StatefulSetZone(View("published", zone="example.com"), HOME, StatefulSetOptions())
    return Publishing([zone], PublishingOptions("example.com", server=ServerOptions("192.0.2.53")))


def planned(door: Object, *names: PublishedName) -> Plan:
    clusters = [
        cluster("lubeck", Role.LOCAL),
        cluster("broker", Role.BROKER),
        cluster(NAME_SERVER, Role.OUTSIDE),
    ]
    leases = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in SHARES]
    shared = [stored(o) for o in (*leases, shares(), *parts(), door)]
    held: dict[str, list[Object]] = {"broker": shared, NAME_SERVER: [*names]}
    return replicas().plan(ETCD, snapshot(replicas(), "lubeck", clusters, held))


def submitted(*conditions: ObservedCondition) -> StatefulSet:
    meta = Meta(name="store", namespace=SPACE)
    return StatefulSet(metadata=meta, status=StatefulSetStatus(conditions=conditions))


def hosted() -> FederatedStatefulSet:
    meta = Meta(name="store", namespace=SPACE)
    return FederatedStatefulSet(
        metadata=meta, spec=FederatedStatefulSetSpec(template=StatefulSetTemplate(spec={}))
    )


@pytest.mark.parametrize("door", [submitted(), hosted()], ids=["submitted", "hosted"])
def test_a_replicas_taken_name_is_reported_on_the_submitted_set(
    door: Object,
) -> None:
    plan = planned(door, PublishedName(metadata=Meta(name=REPLICA)))

    (patch,) = plan.patches
    (conditions,) = patch.change["status"]["conditions"]
    assert (patch.target.where, patch.target.ref.kind) == ("broker", type(door).kind)
    assert (conditions["type"], conditions["status"], conditions["reason"]) == (
        "Published",
        "False",
        "NameTaken",
    )
    assert conditions["message"].startswith(
        f"{REPLICA} is not published: it stands in the zone already"
    )
    assert [notice.reason for notice in plan.events] == ["NameTaken"]


def test_other_conditions_of_a_set_are_kept() -> None:
    plan = planned(submitted(PLACED), PublishedName(metadata=Meta(name=REPLICA)))

    placed, published = plan.patches[0].change["status"]["conditions"]
    assert placed["type"] == "Placed"
    assert published["type"] == "Published"
    assert "observedGeneration" not in published, "StatefulSets have no such field"


def test_no_condition_is_set_for_replicas_whose_names_are_free() -> None:
    assert planned(submitted(PLACED)).patches == ()


def test_the_agent_asks_for_the_right_to_write_the_status_of_sets() -> None:
    writes = {w.kind: w.writes for w in replicas().watches if w.role is Role.BROKER}

    assert writes[StatefulSet] == writes[FederatedStatefulSet] == Writes.STATUS


# -- DNSEndpoints

ZONE = "fleet.example.org"
WEB = Key("services.service", "web", "shop")
NAME = f"web.shop.svc.{ZONE}"


def services() -> Publishing:
    return Publishing([ServiceZone(View("published", zone=ZONE))], PublishingOptions(ZONE, "dns"))


def observed(*endpoints: DNSEndpoint, conditions: Sequence[Object] = ()) -> Snapshot:
    held = [
        stored(o)
        for o in (imported(), endpoint_slice("bergen", "10.2.0.1"), *endpoints, *conditions)
    ]
    clusters = [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER)]
    return snapshot(services(), "lubeck", clusters, {"lubeck": held})


def persons(name: str = NAME) -> DNSEndpoint:
    record = DNSRecord(dns_name=name, record_type="A", targets=("192.0.2.1",))
    meta = Meta(name="mine", namespace="dns")
    return DNSEndpoint(metadata=meta, spec=DNSEndpointSpec(endpoints=(record,)))


def ours() -> DNSEndpoint:
    (desired,) = services().plan(WEB, observed()).desired
    assert isinstance(desired.object, DNSEndpoint)
    return with_owner(desired.object, Owner("publishing", WEB, "lubeck"))


def test_a_users_own_endpoint_of_the_same_name_is_reported() -> None:
    plan = services().plan(WEB, observed(persons(), ours()))

    (patch,) = plan.patches
    (conditions,) = patch.change["status"]["conditions"]
    assert patch.target.ref.kind == ServiceImport.kind
    assert conditions["reason"] == "NameTaken"
    assert conditions["message"].startswith(
        f"{NAME} is not published: DNSEndpoint dns/mine, not made by"
    )
    assert "take the name out of it" in conditions["message"]


def test_an_endpoint_that_has_our_object_name_is_reported_too() -> None:
    mine = replace(persons("else.example.org"), metadata=replace(ours().metadata, annotations={}))

    (patch,) = services().plan(WEB, observed(mine)).patches
    (conditions,) = patch.change["status"]["conditions"]
    assert conditions["reason"] == "NameTaken"


def test_an_endpoint_of_other_names_enqueues_nothing() -> None:
    assert services().plan(WEB, observed(persons("else.example.org"), ours())).patches == ()


@pytest.mark.parametrize("gone", [False, True], ids=["appears", "goes"])
def test_a_users_endpoint_enqueues_the_owner_of_its_name(gone: bool) -> None:
    before, after = (persons(), None) if gone else (None, persons())

    woken = services().keys_for(ObjectChange("lubeck", before, after), observed(ours()))

    assert set(woken) == {WEB}
