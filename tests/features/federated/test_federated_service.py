"""The plan of one federated Service in one member, and foreign objects of its name."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.kept_slices import RECORDED_AFTER
from hanse.features.federated.names import CLUSTER, FEDERATED, JOIN
from hanse.features.federated.records import MEMBER, Backends, MemberPort, MemberRecord
from hanse.model.facts import Answer, ClusterDeparted, ClusterState, Phase, Role, WriteOutcome
from hanse.model.json_input import decode_json
from hanse.model.kinds.acceptance import (
    AcceptancePolicy,
    AcceptancePolicySpec,
    NamespaceAcceptance,
)
from hanse.model.kinds.core import (
    ConfigMap,
    Namespace,
    NamespaceStatus,
    Service,
    ServicePort,
    ServiceStatus,
)
from hanse.model.kinds.discovery import EndpointPort, EndpointSlice
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Plan, Read
from hanse.model.questions import MAX_READ_AGE
from hanse.runtime.actions import Update
from hanse.runtime.diff import diff
from tests.features.federated.builders import (
    BERGEN,
    HERE,
    NAMESPACED_ANNOTATION,
    OURS,
    SHOP,
    addresses,
    applied_objects,
    conditions,
    created_objects,
    desired,
    member,
    observed,
    plan_for,
    pod_slice,
    record,
    record_key,
    service,
    service_key,
    stored_configmap,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def test_the_service_is_a_selectorless_cluster_ip_with_slices_of_all_members() -> None:
    plan = plan_for(service_key(), observed({**OURS, **BERGEN}))

    [made] = desired(plan, Service)
    assert (made.metadata.name, made.metadata.namespace) == ("web", SYSTEM)
    assert made.metadata.annotations == {FEDERATED: "true"}
    assert (made.spec.type, made.spec.selector) == ("ClusterIP", {})
    assert addresses(plan) == {HERE: ["10.1.0.1"], "bergen": ["10.3.0.1"]}
    for endpoint_slice in desired(plan, EndpointSlice):
        assert endpoint_slice.metadata.labels["kubernetes.io/service-name"] == "web"
    assert {d.as_leader_of for d in plan.desired} == {HERE}


def test_slice_ports_have_the_names_of_the_federated_ports() -> None:
    theirs = record(
        "bergen",
        ports=(MemberPort(port=80, name="web"),),
        backends=(
            Backends("a", "IPv4", (EndpointPort(port=8081, name="web"),), ready=("10.3.0.1",)),
        ),
    )
    view = observed({**OURS, "bergen": [stored_configmap(theirs)]})

    plan = plan_for(service_key(), view)

    ports = {
        s.metadata.annotations[CLUSTER]: [(p.name, p.port) for p in s.ports or ()]
        for s in desired(plan, EndpointSlice)
    }
    assert ports == {HERE: [("http", 80)], "bergen": [("http", 8081)]}


def test_a_local_member_service_is_reached_by_its_own_pods_whatever_its_type() -> None:
    local = service(
        "web-lubeck", [ServicePort(port=80, name="http", node_port=30080)], type="NodePort"
    )
    reported = stored_configmap(record(HERE, "192.0.2.1"))
    view = observed({HERE: [local, pod_slice("web-lubeck", "10.2.0.1"), reported], **BERGEN})

    assert addresses(plan_for(service_key(), view)) == {HERE: ["10.2.0.1"], "bergen": ["10.3.0.1"]}


def test_elsewhere_the_same_member_is_reached_from_outside() -> None:
    local = service("web-lubeck", type="NodePort")
    reported = stored_configmap(record(HERE, "192.0.2.1"))
    view = observed(
        {HERE: [local, pod_slice("web-lubeck", "10.2.0.1"), reported], "bergen": []},
        led=[HERE, "bergen"],
    )

    assert addresses(plan_for(service_key("bergen"), view)) == {HERE: ["192.0.2.1"]}


def test_a_member_takes_no_federated_service_in_an_excluded_namespace() -> None:
    rules = NamespaceAcceptance(exclude=(SYSTEM,))
    policy = stored(
        AcceptancePolicy(metadata=Meta(name="default"), spec=AcceptancePolicySpec(services=rules))
    )
    view = observed({HERE: [*OURS[HERE], policy], **BERGEN}, led=[HERE, "bergen"])

    assert plan_for(service_key(), view) == Plan()
    assert desired(plan_for(service_key("bergen"), view), Service) != []


def test_endpoints_are_split_over_slices() -> None:
    many = record("bergen", *(f"10.3.{n // 200}.{n % 200 + 1}" for n in range(250)))

    plan = plan_for(service_key(), observed({"bergen": [stored_configmap(many)]}))

    sizes = sorted(len(s.endpoints or ()) for s in desired(plan, EndpointSlice))
    assert sizes == [50, 100, 100]


def test_members_of_two_families_have_slices_of_each() -> None:
    six = Backends("b", "IPv6", (EndpointPort(port=80, name="http"),), ready=("fd00::1",))
    view = observed({**OURS, "bergen": [stored_configmap(record("bergen", backends=(six,)))]})

    families = {s.address_type for s in desired(plan_for(service_key(), view), EndpointSlice)}

    assert families == {"IPv4", "IPv6"}


def test_a_service_of_a_namespace_exists_only_where_the_namespace_does() -> None:
    of = FederatedName("harbour", "web")
    reported = {
        "bergen": [
            stored_configmap(record("bergen", "10.3.0.1", federated=of, namespace="harbour"))
        ]
    }

    assert plan_for(service_key(of=of), observed(reported)) == Plan()
    plan = plan_for(service_key(of=of), observed(reported, namespaces=[SHOP, SYSTEM, "harbour"]))
    assert {o.metadata.namespace for o in desired(plan, EndpointSlice)} == {"harbour"}


def test_without_any_port_it_is_headless_and_is_recreated_once_there_is_one() -> None:
    bare = record("bergen", ports=(), backends=(Backends("a", "IPv4", (), ready=("10.3.0.1",)),))
    view = observed({"bergen": [stored_configmap(bare)]})

    [made] = desired(plan_for(service_key(), view), Service)
    assert made.spec.cluster_ip == "None"

    current = stored(replace(made, metadata=replace(made.metadata, uid="u")))
    assert plan_for(service_key(), observed({HERE: [current], **BERGEN})).desired == ()


def test_nothing_is_wanted_without_members_or_without_the_lead() -> None:
    assert plan_for(service_key(), observed({})) == Plan()
    assert plan_for(service_key(), observed(OURS, led=())) == Plan()


# -- unreachable members


def test_after_a_restart_slices_of_an_unreachable_cluster_are_kept() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    unreachable = [member("bergen", phase=Phase.CONNECTING)]

    view = observed({HERE: [*current, *OURS[HERE]]}, states=unreachable)
    plan = plan_for(service_key(), view)

    assert addresses(plan) == {HERE: ["10.1.0.1"], "bergen": ["10.3.0.1"]}
    wanted_now = diff("federated", service_key(), plan, (), view)
    assert wanted_now.actions == ()


def test_an_unreachable_cluster_blocks_no_other() -> None:
    current = applied_objects(observed(BERGEN))
    unreachable = [member("bergen", phase=Phase.CONNECTING)]

    view = observed({HERE: [*current, *OURS[HERE]]}, states=unreachable)
    plan = plan_for(service_key(), view)

    created = created_objects(plan, view)
    assert [s.metadata.annotations[CLUSTER] for s in created if isinstance(s, EndpointSlice)] == [
        HERE
    ]


def test_ports_that_only_an_unreachable_cluster_serves_are_kept() -> None:
    theirs = record("bergen", "10.3.0.1", ports=(MemberPort(port=443, name="tls"),))
    current = applied_objects(observed({**OURS, "bergen": [stored_configmap(theirs)]}))
    unreachable = [member("bergen", phase=Phase.CONNECTING)]

    plan = plan_for(service_key(), observed({HERE: [*current, *OURS[HERE]]}, states=unreachable))

    [made] = desired(plan, Service)
    assert {p.name for p in made.spec.ports} == {"http", "tls"}


def test_a_restored_cluster_is_treated_as_unreachable_for_a_while() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    back = replace(member("bergen"), recovering=True)

    plan = plan_for(service_key(), observed({HERE: [*current, *OURS[HERE]]}, states=[back]))

    assert addresses(plan)["bergen"] == ["10.3.0.1"]


@pytest.mark.parametrize("recovering", [False, True], ids=["as usual", "restored"])
def test_a_record_that_a_cluster_lacks_is_written_also_a_moment_after_a_restore(
    recovering: bool,
) -> None:
    back = replace(member("bergen", Role.LED), recovering=recovering)
    view = observed({"bergen": [service("web-bergen")]}, led=("bergen",), states=[back])

    plan = plan_for(record_key("web-bergen", "bergen"), view)

    assert created_objects(plan, view) != []


@pytest.mark.parametrize(
    ("listed", "written"), [(True, ["10.3.0.1"]), (False, [])], ids=["listed", "not yet listed"]
)
def test_a_record_older_than_its_service_is_written_once_its_restored_cluster_is_listed(
    listed: bool, written: list[str]
) -> None:
    key, joining = record_key("web-bergen", "bergen"), service("web-bergen")
    before = observed({"bergen": [joining]}, led=("bergen",))
    of_backup = created_objects(plan_for(key, before), before)
    back = replace(member("bergen", Role.LED), recovering=True, listed=listed)
    now = [joining, pod_slice("web-bergen", "10.3.0.1"), *of_backup]
    view = observed({"bergen": now}, led=("bergen",), states=[back])

    changes = diff("federated", service_key(), plan_for(key, view), (), view).actions

    records = [
        decode_json(c.change["data"][MEMBER], MemberRecord)
        for c in changes
        if isinstance(c, Update)
    ]
    assert [a for r in records for b in r.backends for a in b.ready] == written


def test_a_record_of_a_newer_schema_is_treated_as_an_unreachable_cluster() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    later = stored_configmap(record("bergen", "10.9.9.9", schema=2))

    plan = plan_for(service_key(), observed({HERE: [*current, *OURS[HERE]], "bergen": [later]}))

    assert addresses(plan)["bergen"] == ["10.3.0.1"]


def test_a_cluster_that_was_seen_to_hold_nothing_gives_nothing() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))

    plan = _plan_with_reads({HERE: [*current, *OURS[HERE]], "bergen": []})

    assert addresses(plan) == {HERE: ["10.1.0.1"]}


@pytest.mark.parametrize(
    ("found", "error", "again"),
    [
        pytest.param(None, "no answer", MAX_READ_AGE, id="its cluster does not answer"),
        pytest.param(
            stored_configmap(record("bergen", "10.3.0.1")), "", RECORDED_AFTER, id="it is there"
        ),
        pytest.param(service("web-bergen"), "", RECORDED_AFTER, id="it is about to be written"),
    ],
)
def test_a_record_that_our_watch_has_not_delivered_is_not_taken_as_gone(
    found: ConfigMap | Service | None, error: str, again: timedelta
) -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))

    plan = _plan_with_reads({HERE: [*current, *OURS[HERE]], "bergen": []}, found, error)

    assert addresses(plan)["bergen"] == ["10.3.0.1"]
    assert plan.requeue_after == again


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(service("web-bergen", annotations={}), id="it joins nothing"),
        pytest.param(service("web-bergen", type="ExternalName"), id="it has no endpoints"),
        pytest.param(
            replace(
                service("web-bergen"),
                metadata=replace(service("web-bergen").metadata, deletion_timestamp=EPOCH),
            ),
            id="it is being deleted",
        ),
    ],
)
def test_a_record_that_is_gone_is_not_waited_for_if_its_service_gets_none(found: Service) -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))

    plan = _plan_with_reads({HERE: [*current, *OURS[HERE]], "bergen": []}, found)

    assert addresses(plan) == {HERE: ["10.1.0.1"]}


def test_a_record_that_nobody_can_read_is_no_reason_to_wait() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    valid = stored_configmap(record("bergen", "10.3.0.1"))
    invalid = replace(valid, data={})

    plan = plan_for(service_key(), observed({HERE: [*current, *OURS[HERE]], "bergen": [invalid]}))

    assert addresses(plan) == {HERE: ["10.1.0.1"]}


def _plan_with_reads(
    objects: Mapping[str, Sequence[Object]],
    found: Object | None = None,
    error: str = "",
    *,
    led: Sequence[str] = (HERE,),
    states: Sequence[ClusterState] = (),
    at: datetime = EPOCH,
) -> Plan:
    """The plan of the Service once all that it asks for was read, with this answer."""
    kind = object_ref(found).kind if found is not None else None
    value = msgspec.to_builtins(found, str_keys=True)
    asked = plan_for(service_key(), observed(objects, led=led, states=states)).questions
    answers = [
        Answer(read.id, value if read.target.ref.kind == kind else None, error, at)
        for question in asked
        if isinstance(read := question.ask, Read)
    ]
    return plan_for(service_key(), observed(objects, led=led, states=states, facts=answers))


@pytest.mark.parametrize(
    ("led", "offered", "stands"),
    [
        pytest.param((HERE,), [], True, id="others lead it"),
        pytest.param((HERE, "bergen"), [service("web-bergen")], True, id="its Service joins"),
        pytest.param((HERE, "bergen"), [], False, id="its Service is gone"),
    ],
)
def test_a_record_that_a_cluster_lacks_at_first_sight_may_be_about_to_be_written(
    led: Sequence[str], offered: Sequence[Service], stands: bool
) -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    roles = [Role.LED] if "bergen" in led else []
    seen = replace(member("bergen", *roles), since=EPOCH)
    objects = {HERE: [*current, *OURS[HERE]], "bergen": offered}

    plan = _plan_with_reads(objects, led=led, states=[seen])

    assert ("bergen" in addresses(plan)) is stands
    assert plan.requeue_after == (RECORDED_AFTER if stands else None)


def test_a_record_is_not_waited_for_because_our_clock_went_back_an_hour() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    seen = replace(member("bergen"), since=EPOCH + timedelta(hours=1))

    plan = _plan_with_reads({HERE: [*current, *OURS[HERE]], "bergen": []}, states=[seen])

    assert addresses(plan) == {HERE: ["10.1.0.1"]}


def test_a_read_from_before_our_clock_went_back_an_hour_is_not_fresh() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    objects = {HERE: [*current, *OURS[HERE]], "bergen": []}

    plan = _plan_with_reads(objects, at=EPOCH + timedelta(hours=1))

    assert addresses(plan)["bergen"] == ["10.3.0.1"]
    assert plan.questions


@pytest.mark.parametrize(
    ("age", "stands"),
    [
        pytest.param(11, True, id="made before we connected"),
        pytest.param(9, False, id="made since then"),
    ],
)
def test_a_record_that_was_seen_and_is_gone_is_not_waited_for(age: int, stands: bool) -> None:
    made = [stored(one, age=age) for one in applied_objects(observed({**OURS, **BERGEN}))]
    seen = replace(member("bergen"), since=EPOCH - timedelta(seconds=10))
    objects = {HERE: [*made, *OURS[HERE]], "bergen": []}

    plan = _plan_with_reads(objects, states=[seen])

    assert ("bergen" in addresses(plan)) is stands


def test_what_came_from_a_member_that_left_unseen_is_removed() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    gone = ClusterDeparted("bergen", EPOCH)

    view = observed({HERE: [*current, *OURS[HERE]]}, facts=[gone])

    assert addresses(plan_for(service_key(), view)) == {HERE: ["10.1.0.1"]}


def test_a_member_about_to_leave_is_given_nothing_and_gives_nothing() -> None:
    leaving = [member("bergen", phase=Phase.LEAVING)]

    view = observed({**OURS, **BERGEN}, states=leaving, led=[HERE])

    assert addresses(plan_for(service_key(), view)) == {HERE: ["10.1.0.1"]}
    assert plan_for(service_key("bergen"), view) == Plan()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="empty"),
        pytest.param({"member.json": "{"}, id="no JSON"),
        pytest.param({"member.json": '{"cluster": "hamburg"}'}, id="half"),
    ],
)
def test_what_is_no_record_counts_for_nothing(data: dict[str, str]) -> None:
    broken = replace(stored_configmap(record("bergen", "10.3.0.1")), data=data)

    assert addresses(plan_for(service_key(), observed({**OURS, "bergen": [broken]}))) == {
        HERE: ["10.1.0.1"]
    }


def test_a_record_that_names_another_cluster_is_ignored() -> None:
    forged = stored_configmap(record("hamburg", "10.6.6.6"))

    assert addresses(plan_for(service_key(), observed({**OURS, "bergen": [forged]}))) == {
        HERE: ["10.1.0.1"]
    }


# -- users' Services that agree


def test_the_endpoints_of_others_join_a_users_service_that_agrees() -> None:
    web = FederatedName(SHOP, "web")
    marks = {NAMESPACED_ANNOTATION: "web", JOIN: "true"}
    ports = (ServicePort(port=80, name="plain"), ServicePort(port=81, name="more"))
    mine = service("web", ports, annotations=marks)
    theirs = record("bergen", "10.3.0.1", federated=web)
    unserved = record("hamburg", "10.2.0.1", federated=web, ports=(MemberPort(port=99),))
    objects: dict[str, list[Object]] = {
        HERE: [
            mine,
            pod_slice("web", "10.1.0.1"),
            stored_configmap(record(HERE, name="web", federated=web)),
        ],
        "bergen": [stored_configmap(theirs)],
        "hamburg": [stored_configmap(unserved)],
    }

    plan = plan_for(service_key(of=web), observed(objects))

    assert not desired(plan, Service), "it is the user's"
    [endpoint_slice] = desired(plan, EndpointSlice)
    assert endpoint_slice.metadata.labels["kubernetes.io/service-name"] == "web"
    assert [p.name for p in endpoint_slice.ports or ()] == ["plain"], "as its own port is named"
    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("10.3.0.1",)]
    assert not conditions(plan)


# -- conditions


def test_a_foreign_service_of_that_name_is_left_alone_and_reported() -> None:
    foreign = service("web", namespace=SYSTEM, annotations={})
    taken = WriteOutcome(ClusterObjectRef(HERE, object_ref(foreign)), "Foreign", "not ours", EPOCH)

    plan = plan_for(service_key(), observed({HERE: [foreign, *OURS[HERE]]}, facts=[taken]))

    assert conditions(plan) == {"FederatedNameFree": ("False", "NameTaken")}
    assert [n.reason for n in plan.events] == ["NameTaken"]


def test_a_name_conflict_is_kept_over_a_restart() -> None:
    foreign = service("web", namespace=SYSTEM, annotations={})
    taken = WriteOutcome(ClusterObjectRef(HERE, object_ref(foreign)), "Foreign", "not ours", EPOCH)
    reported = plan_for(service_key(), observed({HERE: [foreign, *OURS[HERE]]}, facts=[taken]))
    current = _with_conditions(foreign, reported)

    restarted = plan_for(service_key(), observed({HERE: [current, *OURS[HERE]]}))
    unreachable = [member("bergen", phase=Phase.CONNECTING)]
    unsure = plan_for(service_key(), observed({HERE: [current]}, states=unreachable))
    unasked = plan_for(service_key(), observed({HERE: [current]}))

    assert conditions(restarted) == {"FederatedNameFree": ("False", "NameTaken")}
    assert restarted.events == ()
    assert conditions(unsure) == {}
    assert conditions(unasked) == {"FederatedNameFree": ("True", "Free")}


def test_a_later_member_with_another_protocol_is_reported() -> None:
    udp = [ServicePort(port=80, name="http", protocol="UDP")]
    mine = record(HERE, "10.1.0.1", name="web-here", ports=(MemberPort(80, "http", "UDP"),))
    view = observed({HERE: [service(ports=udp), stored_configmap(mine, age=1)], **BERGEN})

    plan = plan_for(record_key(), view)

    assert conditions(plan) == {"Federated": ("False", "ProtocolConflict")}
    assert "which joined before" in plan.events[0].message

    reported = _with_conditions(service(ports=udp), plan)
    unreachable = [member("bergen", phase=Phase.CONNECTING)]
    unsure = plan_for(
        record_key(),
        observed({HERE: [reported, stored_configmap(mine, age=1)]}, states=unreachable),
    )
    resolved = plan_for(record_key(), observed({HERE: [reported, stored_configmap(mine, age=1)]}))
    assert conditions(unsure) == {}
    assert conditions(resolved) == {"Federated": ("True", "Joined")}


def test_an_invalid_name_is_reported_until_it_is_fixed() -> None:
    bad = service(annotations={"svc.global.federated.antreaplus.vmware.com": "Web!"})
    plan = plan_for(record_key(), observed({HERE: [bad]}))
    assert conditions(plan) == {"Federated": ("False", "InvalidName")}
    assert desired(plan, ConfigMap) == []

    reported = _with_conditions(service(), plan)
    again = plan_for(record_key(), observed({HERE: [reported]}))
    assert conditions(again) == {"Federated": ("True", "Joined")}
    asks_nothing = replace(reported, metadata=replace(reported.metadata, annotations={}))
    assert conditions(plan_for(record_key(), observed({HERE: [asks_nothing]}))) == {}


def _with_conditions(obj: Service, plan: Plan) -> Service:
    [patch] = plan.patches
    return replace(obj, status=msgspec.convert(patch.change["status"], ServiceStatus))


def test_nothing_is_desired_in_a_namespace_that_is_being_deleted() -> None:
    going = Namespace(metadata=Meta(name=SYSTEM), status=NamespaceStatus(phase="Terminating"))
    view = observed({HERE: [*OURS[HERE], stored(going)], **BERGEN}, namespaces=(SHOP,))

    assert plan_for(service_key(), view) == Plan()
