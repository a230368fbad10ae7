"""Exported services, merged from the objects of clusters."""

from hanse.cli.exported_services import json_document
from hanse.features.services.exported import (
    ClusterServices,
    EndpointCount,
    ExportProblem,
    all_exported,
    export_problems,
)
from hanse.model.conditions import Condition, condition
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ImportedPort,
    ServiceExport,
    ServiceExportStatus,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import Meta

VALID = condition("Valid", True, "Valid")
READY = condition("Ready", True, "Exported")
AGREED = condition("Conflict", False, "NoConflicts")


def _export(*conditions: Condition, name: str = "web") -> ServiceExport:
    status = ServiceExportStatus(conditions=conditions)
    return ServiceExport(metadata=Meta(name=name, namespace="shop"), status=status)


def _import(*exporters: str) -> ServiceImport:
    return ServiceImport(
        metadata=Meta(name="web", namespace="shop"),
        spec=ServiceImportSpec(type="Headless", ports=(ImportedPort(port=80, name="http"),)),
        status=ServiceImportStatus(clusters=tuple(ExportingCluster(cluster=c) for c in exporters)),
    )


def _slice(source: str, *ready: bool) -> EndpointSlice:
    labels = {
        "multicluster.kubernetes.io/service-name": "web",
        "multicluster.kubernetes.io/source-cluster": source,
    }
    endpoints = tuple(
        Endpoint(addresses=(f"10.0.0.{n}",), conditions=EndpointConditions(ready=one))
        for n, one in enumerate(ready)
    )
    meta = Meta(name=f"web-{source}", namespace="shop", labels=labels)
    return EndpointSlice(metadata=meta, address_type="IPv4", endpoints=endpoints)


def test_a_service_is_shown_once_with_all_who_export_and_import_it() -> None:
    good = _export(VALID, READY, AGREED)
    lubeck = ClusterServices("lubeck", (good,), (_import("lubeck", "bergen"),))
    bergen = ClusterServices("bergen", (good,), (_import("lubeck", "bergen"),))
    hamburg = ClusterServices("hamburg", (), (_import("lubeck", "bergen"),))

    (service,) = all_exported([lubeck, hamburg, bergen])

    assert (service.namespace, service.name, service.type) == ("shop", "web", "Headless")
    assert service.exporters == ("bergen", "lubeck")
    assert service.importers == ("bergen", "hamburg", "lubeck")
    assert service.problems == ()


def test_a_clusters_own_report_of_its_endpoints_takes_precedence() -> None:
    stale = ClusterServices("hamburg", (), (_import("lubeck"),), (_slice("lubeck", True, True),))
    own = ClusterServices("lubeck", (), (_import("lubeck"),), (_slice("lubeck", True, False),))

    for clusters in ([stale, own], [own, stale]):
        (service,) = all_exported(clusters)
        assert service.endpoints == {"lubeck": EndpointCount(1, 2)}


def test_endpoints_of_an_unread_cluster_are_taken_from_the_others() -> None:
    (service,) = all_exported(
        [ClusterServices("hamburg", (), (_import("lubeck"),), (_slice("lubeck", True, True),))]
    )

    assert service.endpoints == {"lubeck": EndpointCount(2, 2)}


def test_an_export_that_nobody_imports_is_shown_with_what_is_wrong() -> None:
    missing = condition("Valid", False, "NoService", "there is no Service web here")
    pending = condition("Ready", False, "Pending", "it is exported when the Service is created")

    (service,) = all_exported([ClusterServices("lubeck", (_export(missing, pending),))])

    assert (service.type, service.exporters) == ("", ())
    assert [p.reason for p in service.problems] == ["NoService", "Pending"]


def test_a_conflict_is_a_problem_of_each_cluster_that_reports_it() -> None:
    conflict = condition("Conflict", True, "PortConflict", "bergen has 81")
    export = _export(VALID, READY, conflict)

    (service,) = all_exported(
        [ClusterServices("lubeck", (export,)), ClusterServices("bergen", (export,))]
    )

    assert service.problems == (
        ExportProblem("bergen", "PortConflict", "bergen has 81"),
        ExportProblem("lubeck", "PortConflict", "bergen has 81"),
    )
    assert json_document(service)["problems"][0]["message"] == "bergen has 81"


def test_an_export_without_conditions_is_a_problem() -> None:
    (problem,) = export_problems("lubeck", _export())

    assert problem.reason == "Unseen"


def test_settings_that_are_ignored_and_names_that_are_taken_are_problems_too() -> None:
    ignored = condition("SettingsValid", False, "InvalidSetting", "weight: 'many' is no number")
    taken = condition("ImportedHere", False, "ImportFailed", "a ServiceImport web is not ours")

    found = export_problems("lubeck", _export(VALID, READY, ignored, taken))

    assert [p.reason for p in found] == ["InvalidSetting", "ImportFailed"]
