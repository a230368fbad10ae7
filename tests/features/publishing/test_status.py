"""A name that cannot be published is a condition of the object that has the name."""

from collections.abc import Iterable

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.gslb.zone import GlobalZone
from hanse.features.publishing.feature import Publishing
from hanse.features.publishing.options import NAME_SERVER, PublishingOptions, ServerOptions
from hanse.features.services.zone import ServiceZone
from hanse.model.conditions import Condition, condition
from hanse.model.dns.zones import View
from hanse.model.facts import Fact, Role, WriteOutcome, WriteResult
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    GlobalServiceStatus,
    MemberHealth,
)
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.kinds.multicluster import ServiceImport, ServiceImportStatus
from hanse.model.kinds.names import PublishedName
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Writes
from hanse.runtime.compare import status_patch
from hanse.runtime.ownership import Owner, with_owner
from tests.dns.builders import endpoint_slice, imported
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

ZONE = "fleet.example.org"
WEB = Key("services.service", "web", "shop")
HOST = Key("gslb.host", f"www.{ZONE}")
NAME = f"web.shop.svc.{ZONE}"
OPTIONS = PublishingOptions(ZONE, server=ServerOptions("192.0.2.53"))
VIEW = View("published", zone=ZONE, global_zones=(ZONE,))


def publishing() -> Publishing:
    return Publishing([ServiceZone(VIEW), GlobalZone(VIEW)], OPTIONS)


def planned(
    *objects: Object,
    names: Iterable[PublishedName] = (),
    facts: Iterable[Fact] = (),
    key: Key = WEB,
) -> Plan:
    clusters = [
        cluster("lubeck", Role.LOCAL),
        cluster("broker", Role.BROKER),
        cluster(NAME_SERVER, Role.OUTSIDE),
    ]
    held: dict[str, list[Object]] = {"lubeck": [stored(o) for o in objects], NAME_SERVER: [*names]}
    return publishing().plan(key, snapshot(publishing(), "lubeck", clusters, held, facts))


def service(condition: Condition | None = None) -> tuple[ServiceImport, Object]:
    conditions = (condition,) if condition is not None else ()
    status = ServiceImportStatus(conditions=conditions)
    return replace(imported(), status=status), endpoint_slice("bergen", "10.2.0.1")


def name(text: str = NAME) -> PublishedName:
    return PublishedName(metadata=Meta(name=text))


def made_by(city: str, obj: PublishedName, key: Key = WEB) -> PublishedName:
    return with_owner(obj, Owner("publishing", key, city))


def all_made(plan: Plan) -> list[PublishedName]:
    """Every name of a plan as it stands once it was written."""
    desired = [d.object for d in plan.desired if isinstance(d.object, PublishedName)]
    return [made_by("lubeck", one) for one in desired]


def planned_conditions(plan: Plan) -> tuple[str, str, str]:
    (patch,) = plan.patches
    (conditions,) = patch.change["status"]["conditions"]
    found = msgspec.convert(conditions, Condition)
    assert found.type == "Published"
    return found.status, found.reason, found.message


def outcome(result: WriteResult, message: str) -> WriteOutcome:
    return WriteOutcome(ClusterObjectRef(NAME_SERVER, object_ref(name())), result, message, EPOCH)


def test_a_name_that_a_user_created_is_reported_with_a_remedy() -> None:
    plan = planned(*service(), names=[name()])

    status, reason, message = planned_conditions(plan)
    assert (status, reason) == ("False", "NameTaken")
    assert message.startswith(f"{NAME} is not published: it stands in the zone already")
    assert "delete its records there" in message
    assert [(n.reason, n.type) for n in plan.events] == [("NameTaken", "Warning")]


def test_a_name_that_another_cluster_publishes_names_that_cluster() -> None:
    _, reason, message = planned_conditions(planned(*service(), names=[made_by("bergen", name())]))

    assert reason == "NameTaken"
    assert f"{NAME} is not published: bergen publishes it for {WEB}" in message
    assert "let one cluster alone publish the zone" in message


def test_a_name_of_another_object_of_ours_is_taken_too() -> None:
    other = made_by("lubeck", name(), HOST)

    assert (
        "lubeck publishes it for gslb.host"
        in planned_conditions(planned(*service(), names=[other]))[2]
    )


def test_of_several_names_the_first_is_named_and_the_others_are_counted() -> None:
    names = [name(), name(f"_http._tcp.{NAME}")]

    assert "(and 1 more of its names)" in planned_conditions(planned(*service(), names=names))[2]


@pytest.mark.parametrize("result", ["Refused", "Forbidden"])
def test_the_servers_message_is_printed(result: WriteResult) -> None:
    facts = [outcome(result, "it answers REFUSED: let our key transfer and update the zone")]

    status, reason, message = planned_conditions(planned(*service(), facts=facts))

    assert (status, reason) == ("False", result)
    assert message.endswith("let our key transfer and update the zone")


def test_nothing_is_reported_for_what_is_ready_or_in_progress() -> None:
    fresh = planned(*service())

    assert fresh.patches == ()
    assert planned(*service(), names=all_made(fresh)).patches == ()


def test_the_condition_is_kept_until_every_name_is_known_to_exist() -> None:
    bad = replace(condition("Published", False, "NameTaken"), last_transition_time=EPOCH)
    made = all_made(planned(*service()))

    assert planned(*service(bad), names=made[1:]).patches == ()
    status, reason, _ = planned_conditions(planned(*service(bad), names=made))
    assert (status, reason) == ("True", "Published")


def test_an_event_is_sent_once() -> None:
    first = planned(*service(), names=[name()])
    (conditions,) = first.patches[0].change["status"]["conditions"]
    standing = msgspec.convert(conditions, Condition)

    again = planned(*service(standing), names=[name()])

    assert again.events == ()
    assert again.patches == first.patches


def host(conditions: tuple[Condition, ...] = ()) -> GlobalService:
    member = GlobalMember(cluster="bergen", address="192.0.2.7")
    health = MemberHealth(cluster="bergen", address="192.0.2.7", up=True)
    return GlobalService(
        metadata=Meta(name=HOST.name, namespace=NAMESPACE),
        spec=GlobalServiceSpec(host=HOST.name, members=(member,)),
        status=GlobalServiceStatus(up="1/1", members=(health,), conditions=conditions),
    )


def test_a_global_host_is_reported_on_its_global_service() -> None:
    plan = planned(host(), names=[name(HOST.name)], key=HOST)

    assert planned_conditions(plan)[:2] == ("False", "NameTaken")
    assert plan.patches[0].target.ref.kind == GlobalService.kind


def test_the_leader_leaves_alone_the_publishers_status_in_its_followers() -> None:
    conditions = host(
        (replace(condition("Published", False, "NameTaken"), last_transition_time=EPOCH),)
    )
    later = replace(host(), status=replace(host().status, up="0/1"))

    assert status_patch(host(), conditions) == {}
    assert status_patch(later, conditions) == {"status": {"up": "0/1"}}


def test_the_agent_asks_for_the_right_to_write_the_status() -> None:
    writes = {watch.kind: watch.writes for watch in publishing().watches}

    assert writes[ServiceImport] == writes[GlobalService] == Writes.STATUS
