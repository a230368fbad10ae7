"""Members that answer nothing, and what is left of them in federated Services."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.health import SILENT_AFTER, member_probes
from hanse.features.federated.names import CLUSTER, EXTERNAL_DNS
from hanse.features.federated.settings import AFFINITY, HEALTH, PRIORITY, PUBLISH_FROM, WEIGHT
from hanse.features.federated.status import REACHABLE_CONDITION, SETTINGS_CONDITION
from hanse.model.conditions import Condition
from hanse.model.facts import ClusterState, Phase
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import Object
from hanse.model.plan import Plan
from hanse.model.probes import TargetHealth
from hanse.model.snapshot import FactChange
from hanse.runtime.diff import diff
from tests.features.federated.builders import (
    BERGEN,
    GLOBAL_ANNOTATION,
    HERE,
    OURS,
    applied_objects,
    conditions,
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
    written_records,
)
from tinykube.virtual_time import EPOCH

Objects = dict[str, Iterable[Object]]
SECOND = timedelta(seconds=1)


def unreachable(
    since: timedelta, *, silent: bool = True, phase: Phase = Phase.UNREACHABLE
) -> ClusterState:
    return replace(member("bergen", phase=phase), since=EPOCH - since, silent=silent)


def reported(plan: Plan, type_: str) -> Condition:
    """A condition in the plan's status patches."""
    wire = [c for p in plan.patches for c in p.change["status"]["conditions"]]
    return msgspec.convert(next(c for c in wire if c["type"] == type_), Condition)


def ready_by_cluster(plan: Plan) -> dict[str, list[bool]]:
    return {
        s.metadata.annotations[CLUSTER]: [e.ready for e in s.endpoints or ()]
        for s in desired(plan, EndpointSlice)
    }


def test_a_member_that_answers_nothing_is_drained_after_a_time() -> None:
    soon = observed({**OURS, **BERGEN}, states=[unreachable(SILENT_AFTER - SECOND)])
    after = observed({**OURS, **BERGEN}, states=[unreachable(SILENT_AFTER)])

    before_, after_ = plan_for(service_key(), soon), plan_for(service_key(), after)

    assert ready_by_cluster(before_) == {HERE: [True], "bergen": [True]}
    assert before_.requeue_after == SECOND
    begun = observed({**OURS, **BERGEN}, states=[unreachable(timedelta(0))])
    assert plan_for(service_key(), begun).requeue_after == SILENT_AFTER
    assert ready_by_cluster(after_) == {HERE: [True], "bergen": [False]}
    [draining] = [
        e.conditions
        for s in desired(after_, EndpointSlice)
        if s.metadata.annotations[CLUSTER] == "bergen"
        for e in s.endpoints or ()
    ]
    assert (draining.serving, draining.terminating) == (True, True), "used if no others are ready"
    assert after_.requeue_after is None


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(unreachable(SILENT_AFTER * 9, silent=False), id="it answers with errors"),
        pytest.param(member("bergen"), id="it is back"),
    ],
)
def test_a_member_that_answers_is_not_drained(state: ClusterState) -> None:
    plan = plan_for(service_key(), observed({**OURS, **BERGEN}, states=[state]))

    assert ready_by_cluster(plan)["bergen"] == [True]


def test_after_a_restart_a_silent_member_is_drained_in_time() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    objects = {HERE: [*current, *OURS[HERE]]}

    for silence, ready in ((SECOND, True), (SILENT_AFTER, False)):
        view = observed(objects, states=[unreachable(silence, phase=Phase.CONNECTING)])
        plan = plan_for(service_key(), view)
        assert ready_by_cluster(plan)["bergen"] == [ready]
        actions = diff("federated", service_key(), plan, (), view).actions
        assert bool(actions) is not ready, "it is written, too"


def test_a_service_may_keep_silent_members() -> None:
    keeping = replace(record("bergen", "10.3.0.1"), health="none")
    objects = {**OURS, "bergen": [stored_configmap(keeping, age=9)]}

    plan = plan_for(service_key(), observed(objects, states=[unreachable(SILENT_AFTER)]))

    assert ready_by_cluster(plan)["bergen"] == [True]


def probed(*failing: str) -> tuple[Objects, list[TargetHealth]]:
    """A member in bergen with two addresses that is judged by probes, and their results."""
    asking = replace(record("bergen", "10.3.0.1", "10.3.0.2"), health="probe")
    probes = list(member_probes(asking))
    health = [
        TargetHealth(p.target, p.target.address not in failing, EPOCH, "refused") for p in probes
    ]
    return {**OURS, "bergen": [stored_configmap(asking, age=9)]}, health


def test_an_address_that_fails_probes_is_drained_and_told() -> None:
    objects, health = probed("10.3.0.2")
    view = observed(objects, states=[unreachable(SILENT_AFTER)], facts=health)
    current = applied_objects(view)

    plan = plan_for(
        service_key(), observed({**objects, HERE: [*current, *OURS[HERE]]}, facts=health)
    )

    assert ready_by_cluster(plan_for(service_key(), view))["bergen"] == [True, False]
    told = reported(plan, REACHABLE_CONDITION)
    assert told.reason == "ProbeFailed"
    assert told.message.startswith("10.3.0.2 of bergen fail probes (refused): ")


def test_probes_are_made_where_they_are_asked_for_and_wake_the_services_concerned() -> None:
    objects, health = probed()
    feature = FederatedServices()
    view = observed(objects, facts=health)

    [key] = feature.probe_keys(view)
    targets = {str(p.target) for p in feature.probes(key, view)}
    assert targets == {"TCP 10.1.0.1:80", "TCP 10.3.0.1:80", "TCP 10.3.0.2:80"}
    assert service_key() in set(feature.keys_for(FactChange(None, health[0]), view))
    assert not list(feature.probe_keys(observed({**OURS, **BERGEN})))


def test_a_federated_service_tells_of_silent_members_and_that_they_are_back() -> None:
    current = applied_objects(observed({**OURS, **BERGEN}))
    objects: Objects = {HERE: [*current, *OURS[HERE]], **BERGEN}

    silent = plan_for(service_key(), observed(objects, states=[unreachable(SILENT_AFTER)]))

    told = reported(silent, REACHABLE_CONDITION)
    assert (told.status, told.reason) == ("False", "MemberSilent")
    assert told.message.startswith("bergen has not answered since ")
    assert [e.reason for e in silent.events] == ["MemberSilent"]
    [made] = [o for o in current if isinstance(o, Service)]
    marked = replace(made, status=replace(made.status, conditions=(told,)))
    rest = [o for o in current if not isinstance(o, Service)]
    back = plan_for(service_key(), observed({HERE: [marked, *rest, *OURS[HERE]], **BERGEN}))
    assert reported(back, REACHABLE_CONDITION).status == "True"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("lesae", f"annotation {HEALTH.annotation}: 'lesae' is not lease, probe or none"),
        ("lease", "uses 'none' of Service shop/web-bergen of bergen, the oldest"),
    ],
)
def test_a_rule_that_is_not_used_is_told(rule: str, message: str) -> None:
    mine = service(annotations={GLOBAL_ANNOTATION: "web", HEALTH.annotation: rule})
    older = replace(record("bergen", "10.3.0.1"), health="none")
    objects: Objects = {
        HERE: [mine, pod_slice("web-here", "10.1.0.1")],
        "bergen": [stored_configmap(older, age=99)],
    }

    plan = plan_for(record_key(), observed(objects))

    told = reported(plan, SETTINGS_CONDITION)
    assert told.status == "False"
    assert message in told.message


# -- where the external name is published


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        ("bergen, lubeck", "bergen,lubeck", True),
        ("bergen,lubeck", "bergen, lubeck", True),
        ("bergen,\tlubeck", "bergen,lubeck", True),
        ("lubeck, bergen", "bergen,lubeck", False),
    ],
)
def test_the_same_clusters_in_another_spelling_are_no_other_setting(
    mine: str, theirs: str, same: bool
) -> None:
    joining = service(annotations={GLOBAL_ANNOTATION: "web", PUBLISH_FROM.annotation: mine})
    older = replace(record("bergen", "10.3.0.1"), publish_from=theirs)
    objects: Objects = {HERE: [joining], "bergen": [stored_configmap(older, age=99)]}

    plan = plan_for(record_key(), observed(objects))

    assert (SETTINGS_CONDITION not in conditions(plan)) is same


@pytest.mark.parametrize(
    ("text", "recorded"), [("", ""), ("bergen,\t lubeck", "bergen,lubeck"), ("lu beck", "lu beck")]
)
def test_a_list_of_clusters_is_recorded_in_one_spelling_and_what_is_none_as_it_is(
    text: str, recorded: str
) -> None:
    joining = service(annotations={GLOBAL_ANNOTATION: "web", PUBLISH_FROM.annotation: text})

    [written] = written_records(plan_for(record_key(), observed({HERE: [joining]})))

    assert written.publish_from == recorded


@pytest.mark.parametrize(
    ("chosen", "silence", "published"),
    [
        ("", SILENT_AFTER, True),
        (HERE, SILENT_AFTER, True),
        (f"bergen,{HERE}", timedelta(0), False),
        (f"bergen,{HERE}", SILENT_AFTER, True),
        ("bergen", SILENT_AFTER, False),
        ("bergen, !", SILENT_AFTER, True),
    ],
)
def test_an_external_name_is_published_by_the_first_chosen_cluster_that_answers(
    chosen: str, silence: timedelta, published: bool
) -> None:
    theirs = replace(record("bergen", "10.3.0.1"), publish_from=chosen, hostname="web.example.org")
    objects = {**OURS, "bergen": [stored_configmap(theirs)]}

    plan = plan_for(service_key(), observed(objects, states=[unreachable(silence)]))

    [made] = desired(plan, Service)
    assert (f"{EXTERNAL_DNS[0]}/hostname" in made.metadata.annotations) is published


# -- affinity


@pytest.mark.parametrize(
    ("rule", "unready", "ready"),
    [
        ("none", 0, {HERE: [True], "bergen": [True]}),
        ("local", 0, {HERE: [True], "bergen": [False]}),
        ("local", 9, {HERE: [True, *[False] * 9], "bergen": [False]}),
        ("local:50", 1, {HERE: [True, False], "bergen": [False]}),
        ("local:50", 2, {HERE: [True, False, False], "bergen": [True]}),
        ("remote", 0, {HERE: [False], "bergen": [True]}),
        ("nearby", 0, {HERE: [True], "bergen": [True]}),
    ],
)
def test_a_service_prefers_one_side_while_enough_of_it_is_ready(
    rule: str, unready: int, ready: dict[str, list[bool]]
) -> None:
    mine = service(annotations={GLOBAL_ANNOTATION: "web", AFFINITY.annotation: rule})
    pods = pod_slice("web-here", "10.1.0.1", unready=[f"10.1.1.{n}" for n in range(unready)])
    recorded = stored_configmap(replace(record(HERE, name="web-here"), affinity=rule))

    plan = plan_for(service_key(), observed({HERE: [mine, pods, recorded], **BERGEN}))

    assert ready_by_cluster(plan) == ready


def test_the_other_side_is_used_when_the_preferred_one_is_gone() -> None:
    recorded = stored_configmap(replace(record("bergen", "10.3.0.1"), affinity="local"))
    mine = service()
    pods = pod_slice("web-here", unready=["10.1.0.1"])
    own = stored_configmap(record(HERE, name="web-here"))

    plan = plan_for(service_key(), observed({HERE: [mine, pods, own], "bergen": [recorded]}))

    assert ready_by_cluster(plan) == {HERE: [False], "bergen": [True]}


# -- priorities and weights

MINE = (service(), pod_slice("web-here", "10.1.0.1"))


@pytest.mark.parametrize(
    ("mine", "theirs", "ready"),
    [
        ({}, {}, {HERE: [True], "bergen": [True]}),
        ({"weight": 9}, {"weight": 1}, {HERE: [True], "bergen": [True]}),
        ({"weight": 0}, {}, {HERE: [False], "bergen": [True]}),
        ({"weight": 0}, {"weight": 0}, {HERE: [True], "bergen": [True]}),
        ({}, {"priority": 20}, {HERE: [False], "bergen": [True]}),
        ({"affinity": "local"}, {"priority": 20}, {HERE: [True], "bergen": [False]}),
    ],
    ids=["default", "weights are not endpoints", "none", "both none", "priority", "affinity first"],
)
def test_members_that_get_no_traffic_are_draining(
    mine: dict[str, Any], theirs: dict[str, Any], ready: dict[str, list[bool]]
) -> None:
    own = stored_configmap(replace(record(HERE, name="web-here"), **mine))
    other = stored_configmap(replace(record("bergen", "10.3.0.1"), **theirs))

    plan = plan_for(service_key(), observed({HERE: [*MINE, own], "bergen": [other]}))

    assert ready_by_cluster(plan) == ready


@pytest.mark.parametrize("setting", [{"priority": 20}, {"affinity": "remote"}], ids=str)
def test_a_preferred_member_that_answers_nothing_gives_way(setting: dict[str, Any]) -> None:
    own = stored_configmap(record(HERE, name="web-here"))
    other = stored_configmap(replace(record("bergen", "10.3.0.1"), **setting))
    objects: Objects = {HERE: [*MINE, own], "bergen": [other]}

    plan = plan_for(service_key(), observed(objects, states=[unreachable(SILENT_AFTER)]))

    assert ready_by_cluster(plan) == {HERE: [True], "bergen": [False]}


def test_each_member_says_its_own_weight_and_is_told_what_is_no_number() -> None:
    said = {GLOBAL_ANNOTATION: "web", WEIGHT: "3", PRIORITY: "101"}
    joining = service(annotations=said)
    older = replace(record("bergen", "10.3.0.1"), weight=1)

    plan = plan_for(record_key(), observed({HERE: [joining], "bergen": [stored_configmap(older)]}))

    [written] = written_records(plan)
    assert (written.weight, written.priority) == (3, None)
    told = reported(plan, SETTINGS_CONDITION).message
    assert told == f"annotation {PRIORITY}: '101' is no number from 0 to 100"
