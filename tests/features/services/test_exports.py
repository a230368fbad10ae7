"""The plan of one export: published slices, and every condition with its reason."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.services.names import PRIORITY, RECORD, TO_CLUSTERS, WEIGHT
from hanse.features.services.records import SCHEMA, build_record
from hanse.model.conditions import condition
from hanse.model.facts import (
    HolderState,
    LeaseLiveness,
    Phase,
    Role,
    WriteOutcome,
    WriteResult,
)
from hanse.model.internal_addresses import InternalAddress, encode_addresses
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import MemberSettings, Profile
from hanse.model.kinds.multicluster import (
    ServiceExport,
    ServiceExportStatus,
    ServiceImport,
    ServiceImportSpec,
)
from hanse.model.objects import ClusterObjectRef, Meta, Object, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import FactChange, ObjectChange, Snapshot
from hanse.runtime.ownership import Owner, with_owner
from tests.features.services.builders import (
    AGGREGATE,
    BROKER,
    EXPORT,
    FEATURE,
    HERE,
    HOME,
    IMPORT,
    PROFILES,
    SHOP,
    backends,
    conditions,
    created_objects,
    desired,
    export,
    message,
    observed,
    port,
    published_slices,
    record,
    rules,
    service,
    with_status,
)
from tests.support.builders import annotated, cluster, namespace, stored
from tinykube.virtual_time import EPOCH


def plan(view: Snapshot) -> Plan:
    return FEATURE.plan(EXPORT, view)


def published(*here: Object, profile: Profile = "lighthouse", **view: Any) -> list[Object]:
    """What stands on the broker once an export was published."""
    seeing = observed(here, [rules(profile)], **view)
    return created_objects(plan(seeing), EXPORT, seeing)


# -- invalid exports


def test_an_export_without_a_service_is_invalid_and_publishes_nothing() -> None:
    result = plan(observed([export()]))

    assert result.desired == ()
    assert conditions(result) == {"Valid": ("False", "NoService"), "Ready": ("False", "Pending")}


def test_a_service_that_is_being_deleted_is_none() -> None:
    going = service()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=EPOCH))

    assert conditions(plan(observed([export(), going])))["Valid"] == ("False", "NoService")


def test_an_external_name_cannot_be_exported() -> None:
    result = plan(observed([export(), service(type="ExternalName", external_name="example.org")]))

    assert result.desired == ()
    assert conditions(result) == {
        "Valid": ("False", "InvalidServiceType"),
        "Ready": ("False", "Failed"),
    }
    assert "export one of another type" in message(result, "Valid")


def test_a_conflict_ends_with_the_service() -> None:
    reported = condition("Conflict", True, "PortConflict")
    before = replace(export(), status=ServiceExportStatus(conditions=(reported,)))

    assert conditions(plan(observed([before])))["Conflict"] == ("False", "NoConflicts")


def test_an_export_that_is_gone_or_going_wants_nothing() -> None:
    going = export()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=EPOCH))

    assert plan(observed([service()])) == Plan()
    assert plan(observed([going, service()])) == Plan()


# -- valid exports


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_every_other_type_is_exported_by_its_address(kind: str) -> None:
    [slice_] = desired(plan(observed([export(), service(type=kind), backends()])), EndpointSlice)

    assert slice_.metadata.namespace == HOME
    assert [e.addresses for e in slice_.endpoints or ()] == [("10.0.0.1",)]


@pytest.mark.parametrize(("headless", "profile"), [(True, "lighthouse"), (False, "kep-1645")])
def test_machines_are_exported_by_the_address_that_all_clusters_reach(
    headless: bool, profile: Profile
) -> None:
    """Their own cluster may use the internal one, which others do not reach."""
    shared = [InternalAddress("203.0.113.7", "10.9.0.1", (HERE, "hamburg"))]
    machines = annotated(backends(2), encode_addresses(shared))
    here = [export(), service(headless=headless), machines]

    [slice_] = desired(plan(observed(here, [rules(profile)])), EndpointSlice)

    found = [a for e in slice_.endpoints or () for a in e.addresses]
    assert found == ["203.0.113.7", "10.9.0.2"]


def test_no_condition_is_set_until_ready_is_known() -> None:
    result = plan(observed([export(age=0), service(), backends()]))

    assert result.patches == ()
    assert result.requeue_after is not None


def test_once_the_broker_has_it_an_export_is_valid_ready_and_without_conflict() -> None:
    mine = export()
    on = published(mine, service(), backends())

    result = plan(observed([mine, service(), backends()], on))

    assert conditions(result) == {
        "Valid": ("True", "Valid"),
        "Ready": ("True", "Exported"),
        "Conflict": ("False", "NoConflicts"),
    }


def test_planning_again_after_all_was_written_changes_nothing() -> None:
    mine = export()
    here = [service(), backends()]
    on = published(mine, *here)
    reported = with_status(mine, plan(observed([mine, *here], on)))

    later = observed([reported, *here], on, after=100)

    assert with_status(reported, plan(later)) == reported
    assert created_objects(plan(later), EXPORT, later) == []


def test_after_a_second_without_the_broker_it_is_pending() -> None:
    view = observed([export(), service()], broker_phase=Phase.CONNECTING, after=2)

    result = plan(view)

    assert conditions(result) == {"Valid": ("True", "Valid"), "Ready": ("False", "Pending")}


def test_while_the_broker_is_healthy_a_queued_export_is_not_pending() -> None:
    soon, late = (plan(observed([export(), service()], after=seconds)) for seconds in (5, 60))

    assert conditions(soon) == {}
    assert conditions(late)["Ready"] == ("False", "Pending")


def test_a_write_that_fails_is_reported_after_a_second() -> None:
    view = observed([export(), service(), backends()], after=2)
    [slice_] = desired(plan(view), EndpointSlice)
    trouble = WriteOutcome(
        ClusterObjectRef(BROKER, object_ref(slice_)), "Failed", "the broker is full", EPOCH
    )

    reported = plan(observed([export(), service(), backends()], facts=[trouble], after=2))

    assert conditions(reported)["Ready"] == ("False", "Pending")


def test_a_condition_is_kept_while_nothing_is_known() -> None:
    reported = (condition("Ready", True, "Exported"), condition("Conflict", True, "PortConflict"))
    before = replace(export(), status=ServiceExportStatus(conditions=reported))

    result = plan(observed([before, service()], broker_phase=Phase.CONNECTING, after=99))

    assert conditions(result)["Ready"] == ("True", "Exported")
    assert conditions(result)["Conflict"] == ("True", "PortConflict")


@pytest.mark.parametrize("result", ["Foreign", "Refused", "Forbidden"])
def test_a_broker_that_does_not_take_it_is_quoted(result: WriteResult) -> None:
    view = observed([export(), service(), backends()])
    [slice_] = desired(plan(view), EndpointSlice)
    trouble = WriteOutcome(
        ClusterObjectRef(BROKER, object_ref(slice_)), result, "the broker says no", EPOCH
    )

    reported = plan(observed([export(), service(), backends()], facts=[trouble]))

    assert conditions(reported)["Ready"] == ("False", "Failed")
    assert message(reported, "Ready") == "the broker says no"


def test_an_import_that_cannot_be_written_here_is_reported_on_the_export() -> None:
    place = ClusterObjectRef(HERE, ObjectRef(ServiceImport.kind, "web", SHOP))
    trouble = WriteOutcome(place, "Foreign", "web exists already", EPOCH)
    mine = export()
    on = published(mine, service())

    reported = plan(observed([mine, service()], on, facts=[trouble]))
    current = with_status(mine, reported)
    restarted = plan(observed([current, service()], on))
    foreign = ServiceImport(
        metadata=mine.metadata, spec=ServiceImportSpec(type="Headless", ports=())
    )
    ours = replace(foreign, metadata=replace(mine.metadata, labels={OWNER: "services-1"}))
    resolved = plan(observed([current, service(), ours], on))
    gone = ObjectChange(HERE, foreign, None)

    assert set(FEATURE.keys_for(FactChange(None, trouble), observed([mine]))) == {EXPORT}
    assert conditions(reported)["ImportedHere"] == ("False", "ImportFailed")
    assert conditions(reported)["Ready"] == ("True", "Exported")
    assert conditions(restarted)["ImportedHere"] == ("False", "ImportFailed")
    assert conditions(resolved)["ImportedHere"] == ("True", "Imported")
    assert list(FEATURE.keys_for(gone, observed([current]))) == [EXPORT]
    assert list(FEATURE.keys_for(gone, observed([mine]))) == []


def test_the_api_servers_own_service_is_never_exported() -> None:
    meta = Meta(name="kubernetes", namespace="default")
    own = stored(ServiceExport(metadata=meta))
    key = type(EXPORT)("export", "kubernetes", "default")

    result = FEATURE.plan(key, observed([own, replace(service(), metadata=meta)]))

    assert result.desired == ()
    assert conditions(result)["Valid"] == ("False", "InvalidServiceType")


# -- slices in our name that are not ours


def forged(name: str = "web") -> EndpointSlice:
    """A slice that somebody else published with our token: its owner is not this agent."""
    (one,) = published_slices(replace(record(HERE), name=name))
    return replace(one, metadata=replace(one.metadata, name=f"{HERE}.forged-{name}"))


def with_label(one: EndpointSlice) -> EndpointSlice:
    """The slice with a label of an owner that the runtime did not write."""
    labels = {**one.metadata.labels, OWNER: "services-0123456789abcdef"}
    return replace(one, metadata=replace(one.metadata, labels=labels))


def claimed(key: Key) -> EndpointSlice:
    """A forged slice that names a key of ours as its owner."""
    return with_owner(forged(), Owner("services", key, HERE))


@pytest.mark.parametrize(
    "stray",
    [
        forged(),
        with_label(forged()),
        with_label(claimed(EXPORT)),
        claimed(Key("export", "beer", SHOP)),
    ],
    ids=["no owner", "a label", "another label", "another key"],
)
def test_what_somebody_else_published_in_our_name_is_removed(stray: EndpointSlice) -> None:
    here = [export(), service(), backends()]
    own = published(*here)

    result = plan(observed(here, [rules(), *own, stray]))

    assert [r.target.ref for r in result.removals] == [object_ref(stray)]
    assert {d.object.metadata.name for d in result.desired} == {o.metadata.name for o in own}


def test_what_somebody_else_published_of_a_service_that_is_not_exported_is_removed() -> None:
    stray = forged("beer")
    view = observed([], [rules(), stray])

    keys = set(FEATURE.keys_for(ObjectChange(BROKER, None, stray), view))
    result = FEATURE.plan(Key("export", "beer", SHOP), view)

    assert Key("export", "beer", SHOP) in keys
    assert [r.target.ref for r in result.removals] == [object_ref(stray)]
    assert result.desired == ()


def test_forged_slices_do_not_stand_in_for_ours_until_those_are_published() -> None:
    here = [export(), service(), backends()]

    result = plan(observed(here, [rules(), forged()]))

    assert not any("forged" in d.object.metadata.name for d in result.desired)


# -- conflicts with other exports


def test_slices_that_new_rules_replace_go_also_while_this_cluster_cannot_be_seen() -> None:
    here = [export(), service(), backends()]
    old, new = published(*here, profile="kep-1645"), published(*here)
    away = replace(cluster(HERE, Role.LOCAL, phase=Phase.UNREACHABLE), listed=True)

    before = plan(observed(here, [rules(), *old], facts=[away]))
    after = plan(observed(here, [rules(), *old, *new], facts=[away]))

    assert before.removals == (), "the new ones do not stand yet"
    assert [r.target.ref for r in after.removals] == [object_ref(o) for o in old]
    assert old != new


def test_nothing_is_removed_by_what_a_cluster_lists_that_was_never_seen_in_full() -> None:
    here = [export(), service(), backends()]
    old, new = published(*here, profile="kep-1645"), published(*here)
    away = replace(cluster(HERE, Role.LOCAL, phase=Phase.UNREACHABLE), listed=False)

    result = plan(observed(here, [rules(), *old, *new], facts=[away]))

    assert result.removals == ()


def conflict_with(*others: EndpointSlice, profile: Profile = "lighthouse") -> Plan:
    return plan(observed([export(), service(), backends()], [rules(profile), *others], after=60))


@pytest.mark.parametrize("profile", PROFILES)
def test_differing_ports_are_a_conflict(profile: Profile) -> None:
    other = published_slices(record("bergen", port(81, "http"), age=9))

    assert conditions(conflict_with(*other, profile=profile))["Conflict"] == (
        "True",
        "PortConflict",
    )


def test_several_conflicts_are_reported_together() -> None:
    other = published_slices(record("bergen", port(81), age=9, exported_labels={"a": "b"}))

    reported = conditions(conflict_with(*other))

    assert reported["Conflict"] == ("True", "LabelsConflict,PortConflict")


def test_a_later_export_of_another_type_is_valid_not_ready_and_published_empty() -> None:
    result = conflict_with(*published_slices(record("bergen", age=9, headless=True)))

    assert conditions(result)["Valid"] == ("True", "Valid")
    assert conditions(result)["Ready"] == ("False", "Failed")
    assert conditions(result)["Conflict"] == ("True", "TypeConflict")
    [slice_] = desired(result, EndpointSlice)
    assert slice_.endpoints == ()
    assert RECORD in slice_.metadata.annotations


def test_it_is_admitted_as_soon_as_the_older_is_gone_or_dead() -> None:
    older = published_slices(record("bergen", age=9, headless=True))
    dead = LeaseLiveness(BROKER, HOME, "bergen", "bergen", HolderState.SILENT, EPOCH)

    for view in (
        observed([export(), service(), backends()]),
        observed([export(), service(), backends()], older, facts=[dead]),
    ):
        [slice_] = desired(plan(view), EndpointSlice)
        assert [e.addresses for e in slice_.endpoints or ()] == [("10.0.0.1",)]


def test_under_a_headless_import_of_kep_1645_a_service_shows_its_pods() -> None:
    other = published_slices(record("bergen", age=9, headless=True))

    [slice_] = desired(conflict_with(*other, profile="kep-1645"), EndpointSlice)

    assert [e.addresses for e in slice_.endpoints or ()] == [("10.9.0.1",)]


def test_our_own_old_record_is_no_other_export() -> None:
    stale = published_slices(record(HERE, port(81), age=1))

    result = plan(observed([export(), service(), backends()], stale, after=60))

    assert conditions(result)["Conflict"] == ("False", "NoConflicts")
    assert "Exported" not in str(conditions(result).get("Ready"))


def test_what_a_later_version_of_our_agent_published_is_left_as_it_is() -> None:
    mine = export()
    content = msgspec.to_builtins(build_record(mine, service(), HERE))
    text = msgspec.json.encode({**content, "schema": SCHEMA + 1, "new": True}).decode()
    [slice_] = [o for o in published(mine, service(), backends()) if isinstance(o, EndpointSlice)]
    annotations = {**slice_.metadata.annotations, RECORD: text}
    newer = replace(slice_, metadata=replace(slice_.metadata, annotations=annotations))

    view = observed([mine, service(("http", 81)), backends()], [newer])
    result = plan(view)

    assert desired(result, EndpointSlice) == [newer]
    assert result.patches == ()


# -- annotations and exported labels


def test_an_export_to_some_clusters_names_them_in_its_condition() -> None:
    mine = export(annotations={TO_CLUSTERS: "bergen,visby"})
    on = published(mine, service())

    reported = plan(observed([mine, service()], on))

    assert message(reported, "Ready") == "only bergen, visby can import it"


@pytest.mark.parametrize(
    "annotations",
    [{WEIGHT: "heavy"}, {WEIGHT: ""}, {PRIORITY: "101"}, {TO_CLUSTERS: " ,"}],
    ids=["weight", "empty weight", "priority", "to nobody"],
)
def test_a_bad_annotation_is_reported_and_the_rest_goes_on(annotations: dict[str, str]) -> None:
    mine = export(annotations=annotations)
    on = published(mine, service())

    result = plan(observed([mine, service()], on))

    assert conditions(result)["SettingsValid"] == ("False", "InvalidSetting")
    assert next(iter(annotations)) in message(result, "SettingsValid")
    assert conditions(result)["Ready"] == ("True", "Exported")


def held_lease(name: str) -> Lease:
    """The Lease of a cluster whose agent has renewed it."""
    meta = LeaseMeta(name=name, namespace=HOME)
    return Lease(metadata=meta, spec=LeaseSpec(holder_identity=name))


UNHELD = Lease(metadata=LeaseMeta(name="bergen", namespace=HOME))
"""As `hanse join` writes it."""


def test_a_cluster_that_never_joined_is_reported_once_the_leases_are_listed() -> None:
    mine = export(annotations={TO_CLUSTERS: "bergn"})
    on = published(mine, service())
    joined = held_lease("bergen")

    known = plan(observed([mine, service()], [*on, joined]))

    assert conditions(known)["SettingsValid"] == ("False", "InvalidSetting")
    assert "no cluster 'bergn' has joined; there are bergen" in message(known, "SettingsValid")


@pytest.mark.parametrize(
    ("before", "after", "concerned"),
    [
        pytest.param(None, held_lease("bergen"), True, id="appears"),
        pytest.param(UNHELD, held_lease("bergen"), True, id="gets its holder"),
        pytest.param(held_lease("bergen"), None, True, id="goes"),
        pytest.param(None, UNHELD, False, id="nobody's"),
        pytest.param(held_lease("bergen"), held_lease("bergen"), False, id="is renewed"),
    ],
)
def test_a_lease_that_makes_a_member_enqueues_the_exports_that_name_its_cluster(
    before: Lease | None, after: Lease | None, concerned: bool
) -> None:
    mine = export(annotations={TO_CLUSTERS: "bergen"})
    view = observed([mine, service()], [])

    woken = FEATURE.keys_for(ObjectChange(BROKER, before, after), view)

    assert list(woken) == ([Key("export", mine.name, mine.namespace)] if concerned else [])


def test_exported_labels_that_cannot_be_labels_are_left_out_and_reported() -> None:
    mine = export(exported_labels={"tier": "gold", "bad": "not a label", "hanse.dev/owner": "x"})
    on = published(mine, service())

    result = plan(observed([mine, service()], on))

    assert build_record(mine, service(), HERE).exported_labels == {"tier": "gold"}
    assert "bad, hanse.dev/owner" in message(result, "SettingsValid")


def test_a_fixed_setting_is_reported_once() -> None:
    reported = (condition("SettingsValid", False, "InvalidSetting", "x"),)
    mine = replace(export(), status=ServiceExportStatus(conditions=reported))

    result = plan(observed([mine, service()], published(mine, service())))

    assert conditions(result)["SettingsValid"] == ("True", "Valid")


def test_an_address_outside_of_the_clusters_ranges_is_reported() -> None:
    bounds = rules(clusters=(MemberSettings(id=HERE, ranges=("10.7.0.0/16",)),))
    mine = export()
    on = published(mine, service(), backends())

    result = plan(observed([mine, service(), backends()], [bounds, *on]))

    assert conditions(result)["AddressesAllowed"] == ("False", "OutsideRanges")
    assert "10.0.0.1: outside of 10.7.0.0/16" in message(result, "AddressesAllowed")


def test_an_export_of_a_namespace_that_is_not_the_clusters_is_withdrawn_and_told() -> None:
    bounds = rules(clusters=(MemberSettings(id=HERE, namespaces=("bank",)),))
    mine = export()
    on = published(mine, service(), backends())

    result = plan(observed([mine, service(), backends()], [bounds, *on]))

    assert not desired(result, EndpointSlice)
    assert conditions(result)["Ready"] == ("False", "Failed")
    assert "publish services of namespace shop" in message(result, "Ready")


def test_an_address_outside_of_the_clusters_ranges_is_not_published() -> None:
    bounds = rules(clusters=(MemberSettings(id=HERE, ranges=("10.7.0.0/16",)),))

    [slice_] = desired(plan(observed([export(), service(), backends()], [bounds])), EndpointSlice)

    assert slice_.endpoints == ()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("is_published", [True, False])
def test_a_false_age_decides_nothing_for_exporter_importer_or_aggregate(
    profile: Profile, is_published: bool
) -> None:
    """Visby came later than bergen, and says that it exports since long ago."""
    hour = 3600.0
    honest, false = record("bergen", age=50 * hour), record("visby", headless=True, age=999 * hour)
    lying = tuple(stored(s, age=2 * hour) for s in published_slices(false, "10.6.0.1"))
    own = published_slices(record(HERE, age=40 * hour), "10.0.0.1") if is_published else ()
    broker = [
        stored(namespace(HOME), age=60 * hour),
        rules(profile),
        *published_slices(honest, "10.5.0.1"),
        *lying,
        *own,
    ]
    here = [service(), backends(), export(age=90 * hour)]
    view = observed(here, broker)

    at_home = desired(FEATURE.plan(IMPORT, view), ServiceImport)
    aggregate = desired(FEATURE.plan(AGGREGATE, view), ServiceImport)
    conflict = message(FEATURE.plan(EXPORT, view), "Conflict")

    assert {i.spec.type for i in (*at_home, *aggregate)} == {"ClusterSetIP"}
    assert ("bergen, the oldest export" in conflict) == (profile == "kep-1645")
