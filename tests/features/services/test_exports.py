"""One export: what is published, and every condition with its reason."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.services.names import PRIORITY, RECORD, TO_CLUSTERS, WEIGHT
from hanse.features.services.records import SCHEMA, build_record
from hanse.model.conditions import condition
from hanse.model.facts import LeaseLiveness, Phase, WriteOutcome, WriteResult
from hanse.model.kinds.coordination import Lease
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
from tests.features.services.builders import (
    BROKER,
    EXPORT,
    FEATURE,
    HERE,
    HOME,
    PROFILES,
    SHOP,
    backends,
    conditions,
    export,
    message,
    on_broker,
    port,
    record,
    rules,
    seen,
    service,
    wanted,
    with_status,
    written,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def plan(view: Snapshot) -> Plan:
    return FEATURE.plan(EXPORT, view)


def published(*here: Object, profile: Profile = "lighthouse", **view: Any) -> list[Object]:
    """What stands on the broker once an export was published."""
    seeing = seen(here, [rules(profile)], **view)
    return written(plan(seeing), EXPORT, seeing)


# -- what cannot be exported


def test_an_export_without_a_service_is_told_so_and_publishes_nothing() -> None:
    result = plan(seen([export()]))

    assert result.desired == ()
    assert conditions(result) == {"Valid": ("False", "NoService"), "Ready": ("False", "Pending")}


def test_a_service_that_is_being_deleted_is_none() -> None:
    going = service()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=EPOCH))

    assert conditions(plan(seen([export(), going])))["Valid"] == ("False", "NoService")


def test_an_external_name_cannot_be_exported() -> None:
    result = plan(seen([export(), service(type="ExternalName", external_name="example.org")]))

    assert result.desired == ()
    assert conditions(result) == {
        "Valid": ("False", "InvalidServiceType"),
        "Ready": ("False", "Failed"),
    }
    assert "export one of another type" in message(result, "Valid")


def test_a_conflict_ends_with_the_service() -> None:
    told = condition(r"Conflict", True, "PortConflict")
    before = replace(export(), status=ServiceExportStatus(conditions=(told,)))

    assert conditions(plan(seen([before])))[r"Conflict"] == ("False", "NoConflicts")


def test_an_export_that_is_gone_or_going_wants_nothing() -> None:
    going = export()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=EPOCH))

    assert plan(seen([service()])) == Plan()
    assert plan(seen([going, service()])) == Plan()


# -- what can


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_every_other_type_is_exported_by_its_address(kind: str) -> None:
    [endpoint_slice] = wanted(plan(seen([export(), service(type=kind), backends()])), EndpointSlice)

    assert endpoint_slice.metadata.namespace == HOME
    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("10.0.0.1",)]


def test_nothing_is_told_until_there_is_something_to_tell() -> None:
    result = plan(seen([export(age=0), service(), backends()]))

    assert result.patches == ()
    assert result.requeue_after is not None


def test_once_the_broker_has_it_an_export_is_valid_ready_and_without_conflict() -> None:
    mine = export()
    on = published(mine, service(), backends())

    result = plan(seen([mine, service(), backends()], on))

    assert conditions(result) == {
        "Valid": ("True", "Valid"),
        "Ready": ("True", "Exported"),
        r"Conflict": ("False", "NoConflicts"),
    }


def test_planning_again_after_all_was_written_changes_nothing() -> None:
    mine = export()
    here = [service(), backends()]
    on = published(mine, *here)
    told = with_status(mine, plan(seen([mine, *here], on)))

    later = seen([told, *here], on, after=100)

    assert with_status(told, plan(later)) == told
    assert written(plan(later), EXPORT, later) == []


def test_after_a_second_without_the_broker_it_is_pending() -> None:
    view = seen([export(), service()], broker_phase=Phase.CONNECTING, after=2)

    result = plan(view)

    assert conditions(result) == {"Valid": ("True", "Valid"), "Ready": ("False", "Pending")}


def test_while_the_broker_is_well_an_export_waits_in_silence_behind_others() -> None:
    soon, late = (plan(seen([export(), service()], after=seconds)) for seconds in (5, 60))

    assert conditions(soon) == {}
    assert conditions(late)["Ready"] == ("False", "Pending")


def test_a_write_that_fails_is_told_after_a_second() -> None:
    view = seen([export(), service(), backends()], after=2)
    [endpoint_slice] = wanted(plan(view), EndpointSlice)
    trouble = WriteOutcome(
        ClusterObjectRef(BROKER, object_ref(endpoint_slice)), "Failed", "the broker is full", EPOCH
    )

    told = plan(seen([export(), service(), backends()], facts=[trouble], after=2))

    assert conditions(told)["Ready"] == ("False", "Pending")


def test_a_standing_word_is_kept_while_nothing_is_known() -> None:
    told = (condition("Ready", True, "Exported"), condition(r"Conflict", True, "PortConflict"))
    before = replace(export(), status=ServiceExportStatus(conditions=told))

    result = plan(seen([before, service()], broker_phase=Phase.CONNECTING, after=99))

    assert conditions(result)["Ready"] == ("True", "Exported")
    assert conditions(result)[r"Conflict"] == ("True", "PortConflict")


@pytest.mark.parametrize("result", ["Foreign", "Refused", "Forbidden"])
def test_a_broker_that_does_not_take_it_is_quoted(result: WriteResult) -> None:
    view = seen([export(), service(), backends()])
    [endpoint_slice] = wanted(plan(view), EndpointSlice)
    trouble = WriteOutcome(
        ClusterObjectRef(BROKER, object_ref(endpoint_slice)), result, "the broker says no", EPOCH
    )

    told = plan(seen([export(), service(), backends()], facts=[trouble]))

    assert conditions(told)["Ready"] == ("False", "Failed")
    assert message(told, "Ready") == "the broker says no"


def test_an_import_that_cannot_be_written_here_is_told_on_the_export() -> None:
    place = ClusterObjectRef(HERE, ObjectRef(ServiceImport.kind, "web", SHOP))
    trouble = WriteOutcome(place, "Foreign", "web exists already", EPOCH)
    mine = export()
    on = published(mine, service())

    told = plan(seen([mine, service()], on, facts=[trouble]))
    standing = with_status(mine, told)
    restarted = plan(seen([standing, service()], on))
    foreign = ServiceImport(
        metadata=mine.metadata, spec=ServiceImportSpec(type="Headless", ports=())
    )
    ours = replace(foreign, metadata=replace(mine.metadata, labels={OWNER: "services-1"}))
    mended = plan(seen([standing, service(), ours], on))
    gone = ObjectChange(HERE, foreign, None)

    assert set(FEATURE.keys_for(FactChange(None, trouble), seen([mine]))) == {EXPORT}
    assert conditions(told)["ImportedHere"] == ("False", "ImportFailed")
    assert conditions(told)["Ready"] == ("True", "Exported")
    assert conditions(restarted)["ImportedHere"] == ("False", "ImportFailed")
    assert conditions(mended)["ImportedHere"] == ("True", "Imported")
    assert list(FEATURE.keys_for(gone, seen([standing]))) == [EXPORT]
    assert list(FEATURE.keys_for(gone, seen([mine]))) == []


def test_the_api_servers_own_service_is_never_exported() -> None:
    meta = Meta(name="kubernetes", namespace="default")
    own = stored(ServiceExport(metadata=meta))
    key = type(EXPORT)("export", "kubernetes", "default")

    result = FEATURE.plan(key, seen([own, replace(service(), metadata=meta)]))

    assert result.desired == ()
    assert conditions(result)["Valid"] == ("False", "InvalidServiceType")


# -- among others


def conflict_with(*others: EndpointSlice, profile: Profile = "lighthouse") -> Plan:
    return plan(seen([export(), service(), backends()], [rules(profile), *others], after=60))


@pytest.mark.parametrize("profile", PROFILES)
def test_differing_ports_are_a_conflict(profile: Profile) -> None:
    other = on_broker(record("bergen", port(81, "http"), age=9))

    assert conditions(conflict_with(*other, profile=profile))[r"Conflict"] == (
        "True",
        "PortConflict",
    )


def test_several_conflicts_are_told_together() -> None:
    other = on_broker(record("bergen", port(81), age=9, exported_labels={"a": "b"}))

    told = conditions(conflict_with(*other))

    assert told[r"Conflict"] == ("True", "LabelsConflict,PortConflict")


def test_a_later_export_of_another_type_is_valid_not_ready_and_published_empty() -> None:
    result = conflict_with(*on_broker(record("bergen", age=9, headless=True)))

    assert conditions(result)["Valid"] == ("True", "Valid")
    assert conditions(result)["Ready"] == ("False", "Failed")
    assert conditions(result)[r"Conflict"] == ("True", "TypeConflict")
    [endpoint_slice] = wanted(result, EndpointSlice)
    assert endpoint_slice.endpoints == ()
    assert RECORD in endpoint_slice.metadata.annotations


def test_it_is_admitted_as_soon_as_the_older_is_gone_or_dead() -> None:
    older = on_broker(record("bergen", age=9, headless=True))
    dead = LeaseLiveness(BROKER, HOME, "bergen", "bergen", False, EPOCH)

    for view in (
        seen([export(), service(), backends()]),
        seen([export(), service(), backends()], older, facts=[dead]),
    ):
        [endpoint_slice] = wanted(plan(view), EndpointSlice)
        assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("10.0.0.1",)]


def test_under_a_headless_import_of_kep_1645_a_service_shows_its_pods() -> None:
    other = on_broker(record("bergen", age=9, headless=True))

    [endpoint_slice] = wanted(conflict_with(*other, profile="kep-1645"), EndpointSlice)

    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("10.9.0.1",)]


def test_our_own_old_record_is_no_other_export() -> None:
    stale = on_broker(record(HERE, port(81), age=1))

    result = plan(seen([export(), service(), backends()], stale, after=60))

    assert conditions(result)[r"Conflict"] == ("False", "NoConflicts")
    assert "Exported" not in str(conditions(result).get("Ready"))


def test_what_a_later_version_of_our_agent_published_is_left_as_it_is() -> None:
    mine = export()
    said = msgspec.to_builtins(build_record(mine, service(), HERE))
    text = msgspec.json.encode({**said, "schema": SCHEMA + 1, "new": True}).decode()
    [endpoint_slice] = [
        o for o in published(mine, service(), backends()) if isinstance(o, EndpointSlice)
    ]
    marks = {**endpoint_slice.metadata.annotations, RECORD: text}
    newer = replace(endpoint_slice, metadata=replace(endpoint_slice.metadata, annotations=marks))

    view = seen([mine, service(("http", 81)), backends()], [newer])
    result = plan(view)

    assert wanted(result, EndpointSlice) == [newer]
    assert result.patches == ()


# -- wishes


def test_an_export_to_some_clusters_says_so() -> None:
    mine = export(marks={TO_CLUSTERS: "bergen,visby"})
    on = published(mine, service())

    told = plan(seen([mine, service()], on))

    assert message(told, "Ready") == "only bergen, visby can import it"


@pytest.mark.parametrize(
    "marks",
    [{WEIGHT: "heavy"}, {WEIGHT: ""}, {PRIORITY: "101"}, {TO_CLUSTERS: " ,"}],
    ids=["weight", "empty weight", "priority", "to nobody"],
)
def test_a_bad_annotation_is_told_and_the_rest_goes_on(marks: dict[str, str]) -> None:
    mine = export(marks=marks)
    on = published(mine, service())

    result = plan(seen([mine, service()], on))

    assert conditions(result)["SettingsValid"] == ("False", "InvalidSetting")
    assert next(iter(marks)) in message(result, "SettingsValid")
    assert conditions(result)["Ready"] == ("True", "Exported")


def test_a_cluster_that_never_joined_is_told_once_it_is_known_who_has() -> None:
    mine = export(marks={TO_CLUSTERS: "bergn"})
    on = published(mine, service())
    joined = Lease(metadata=Meta(name="bergen", namespace=HOME))

    known = plan(seen([mine, service()], [*on, joined]))

    assert conditions(known)["SettingsValid"] == ("False", "InvalidSetting")
    assert "no cluster 'bergn' has joined; there are bergen" in message(known, "SettingsValid")


def test_a_lease_that_appears_wakes_the_exports_that_name_its_cluster() -> None:
    mine = export(marks={TO_CLUSTERS: "bergen"})
    view = seen([mine, service()], [])
    joined = Lease(metadata=Meta(name="bergen", namespace=HOME))

    woken = FEATURE.keys_for(ObjectChange(BROKER, None, joined), view)

    assert list(woken) == [Key("export", mine.name, mine.namespace)]


def test_exported_labels_that_cannot_be_labels_are_left_out_and_told() -> None:
    mine = export(exported_labels={"tier": "gold", "bad": "not a label", "hanse.dev/owner": "x"})
    on = published(mine, service())

    result = plan(seen([mine, service()], on))

    assert build_record(mine, service(), HERE).exported_labels == {"tier": "gold"}
    assert "bad, hanse.dev/owner" in message(result, "SettingsValid")


def test_a_mended_setting_is_told_once() -> None:
    told = (condition("SettingsValid", False, "InvalidSetting", "x"),)
    mine = replace(export(), status=ServiceExportStatus(conditions=told))

    result = plan(seen([mine, service()], published(mine, service())))

    assert conditions(result)["SettingsValid"] == ("True", "Valid")


def test_an_address_outside_of_the_clusters_ranges_is_told() -> None:
    bounds = rules(clusters=(MemberSettings(id=HERE, ranges=("10.7.0.0/16",)),))
    mine = export()
    on = published(mine, service(), backends())

    result = plan(seen([mine, service(), backends()], [bounds, *on]))

    assert conditions(result)["AddressesAllowed"] == ("False", "OutsideRanges")
    assert "10.0.0.1: outside of 10.7.0.0/16" in message(result, "AddressesAllowed")


def test_an_address_outside_of_the_clusters_ranges_is_not_published() -> None:
    bounds = rules(clusters=(MemberSettings(id=HERE, ranges=("10.7.0.0/16",)),))

    [endpoint_slice] = wanted(
        plan(seen([export(), service(), backends()], [bounds])), EndpointSlice
    )

    assert endpoint_slice.endpoints == ()
