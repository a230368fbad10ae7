"""What is said of exports that nobody publishes."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.features.services.exported import ClusterServices, EndpointCount, ExportedService
from hanse.features.services.findings import endpoint_findings, refused_exports
from hanse.features.services.names import AFFINITY, PRIORITY, TO_CLUSTERS, WEIGHT
from hanse.features.services.status import NOT_JOINED, settings_conditions
from hanse.features.services.view import ServicesView
from hanse.kube.watch_events import Listed
from hanse.model.broker_namespace import MEMBER
from hanse.model.conditions import condition
from hanse.model.facts import Role
from hanse.model.findings import Ref
from hanse.model.kinds.core import Namespace, Service, ServiceAccount, ServiceSpec
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    ClusterSet,
)
from hanse.model.kinds.multicluster import (
    ServiceExport,
    ServiceExportSpec,
    ServiceExportStatus,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from hanse.model.snapshot import Watch
from tests.support.builders import meta, stored
from tests.support.fleet_reads import NOW, findings, read
from tinykube.virtual_time import EPOCH

WAITING = stored(
    ServiceExport(
        metadata=meta("web", "shop"),
        status=ServiceExportStatus(
            conditions=(condition("Ready", False, "Pending", NOT_JOINED),),
        ),
    )
)
RULES = stored(ClusterSet(metadata=Meta(name="default")))


def test_an_import_whose_definition_is_missing_is_no_fault_of_its_own() -> None:
    text = "it is not imported here: 404 page not found"
    blocked = ServiceExport(
        metadata=meta("web", "shop"),
        status=ServiceExportStatus(
            conditions=(condition("ImportedHere", False, "ImportFailed", text),)
        ),
    )
    lists = {Watch(Role.LOCAL, ServiceExport): Listed((stored(blocked),), "1")}
    rome = ClusterRead("rome", lists, unserved=frozenset({ServiceImport.kind}))

    (found,) = ServicesView().render("shop/web", build_fleet([rome], EPOCH)).findings  # type: ignore[union-attr]  # it is there

    assert found.code == "ImportBlocked"
    assert not found.remedy.commands
    assert Ref("CustomResourceDefinition", ServiceImport.kind.definition, "", "rome") in (
        found.caused_by
    )


@pytest.mark.parametrize(
    ("brokers", "told"),
    [
        (("hub",), "hanse join --broker hub --cluster-id rome --context rome"),
        ((), "let it join one: `hanse join --broker BROKER --cluster-id rome --context rome`"),
    ],
)
def test_an_export_of_a_cluster_that_has_joined_no_broker_is_mended_by_a_join(
    brokers: tuple[str, ...], told: str
) -> None:
    rome = ClusterRead("rome", {Watch(Role.LOCAL, ServiceExport): Listed((WAITING,), "1")})
    rules = {Watch(Role.LOCAL, ClusterSet): Listed((RULES,), "1")}
    fleet = build_fleet([rome, *(ClusterRead(name, rules) for name in brokers)], EPOCH)

    item = ServicesView().render("shop/web", fleet)

    assert item is not None
    found = {one.code: str(one.remedy) for one in item.findings}
    assert found["ExportPending"] == told


@pytest.mark.parametrize(
    ("metadata", "spec", "command"),
    [
        pytest.param(
            {TO_CLUSTERS: " ,"}, {}, f"annotate serviceexport web {TO_CLUSTERS}-", id="to"
        ),
        pytest.param({WEIGHT: "x"}, {}, f"annotate serviceexport web {WEIGHT}-", id="weight"),
        pytest.param({PRIORITY: "x"}, {}, f"annotate serviceexport web {PRIORITY}-", id="priority"),
        pytest.param({AFFINITY: "x"}, {}, f"annotate serviceexport web {AFFINITY}-", id="affinity"),
        pytest.param(
            {},
            {"exported_labels": {"bad": "no label"}},
            """patch serviceexport web --type merge -p '{"spec": {"exportedLabels": """
            """{"bad": null}}}'""",
            id="exported labels",
        ),
        pytest.param(
            {AFFINITY: f"; {WEIGHT}"},
            {},
            f"annotate serviceexport web {AFFINITY}-",
            id="a value that names another annotation",
        ),
        pytest.param(
            {TO_CLUSTERS: "oslo, rome"},
            {},
            f"annotate serviceexport web {TO_CLUSTERS}=rome --overwrite",
            id="a cluster that has not joined, beside one that has",
        ),
    ],
)
def test_each_setting_that_is_ignored_is_erased_by_the_command(
    metadata: dict[str, str], spec: dict[str, dict[str, str]], command: str
) -> None:
    wrong = ServiceExport(
        metadata=meta("web", "shop", annotations=metadata), spec=ServiceExportSpec(**spec)
    )
    conditions = tuple(settings_conditions(wrong, frozenset({"rome"})))
    wrong = replace(wrong, status=ServiceExportStatus(conditions=conditions))

    found = {one.code: one for one in findings(read("rome", wrong))}["SettingIgnored"]

    assert found.remedy.commands == (f"kubectl --context rome -n shop {command}",)


def test_an_export_to_unknown_clusters_alone_is_not_opened_to_all_by_a_command() -> None:
    wrong = ServiceExport(metadata=meta("web", "shop", annotations={TO_CLUSTERS: "oslo"}))
    conditions = tuple(settings_conditions(wrong, frozenset({"rome"})))
    wrong = replace(wrong, status=ServiceExportStatus(conditions=conditions))

    found = {one.code: one for one in findings(read("rome", wrong))}["SettingIgnored"]

    assert (found.remedy.commands, found.remedy.advice) == ((), "name joined clusters")


def test_an_export_of_a_cluster_whose_leave_was_interrupted_follows_from_that() -> None:
    left = ClusterMember(
        metadata=meta("rome", "hanse-broker"),
        spec=ClusterMemberSpec(cluster_id="rome", uid="any"),
        status=ClusterMemberStatus(phase="Left", since=NOW - timedelta(hours=1)),
    )
    account = meta("rome", "hanse-broker-accounts", labels={MEMBER: "rome"})
    known = stored(ServiceAccount(metadata=account))

    shared = Namespace(metadata=Meta(name="hanse-broker"))
    hub = read("hub", RULES, left, known, shared)

    (remains,) = findings(read("rome", WAITING), hub, local=False)

    assert remains.code == "AccountRemains"
    assert [one.subject.kind for one in remains.consequences] == ["ServiceExport"]


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        (
            "web.example is not published: DNSEndpoint shop/mine, not made by Hanse, has it, too",
            "the author of DNSEndpoint shop/mine",
        ),
        ("web.example is not published: REFUSED", "the administrator of rome"),
    ],
)
def test_nobody_is_told_to_edit_an_import_that_hanse_made(message: str, asked: str) -> None:
    unpublished = ServiceImport(
        metadata=meta("web", "shop", labels={OWNER: "services"}),
        spec=ServiceImportSpec(type="ClusterSetIP", ports=()),
        status=ServiceImportStatus(conditions=(condition("Published", False, "Any", message),)),
    )

    (found,) = findings(read("rome", stored(unpublished)), local=False)

    assert found.code == "NotPublished"
    assert found.remedy.ask == asked
    assert "serviceimports" not in found.remedy.advice


def test_pods_of_a_cluster_whose_addresses_are_refused_are_left_alone() -> None:
    refused = ServiceExport(
        metadata=meta("web", "shop"),
        status=ServiceExportStatus(
            conditions=(condition("AddressesAllowed", False, "OutsideRanges", "10.2.0.1"),)
        ),
    )
    selected = Service(metadata=meta("web", "shop"), spec=ServiceSpec(selector={"app": "web"}))
    fleet = build_fleet([read(name, stored(selected)) for name in ("oslo", "paris", "rome")], EPOCH)
    service = ExportedService("shop", "web", exporters=("oslo", "paris", "rome"))
    counts = {
        "oslo": EndpointCount(1, 1),
        "paris": EndpointCount(0, 0),
        "rome": EndpointCount(0, 0),
    }
    exports = refused_exports([ClusterServices("rome", exports=(stored(refused),))])

    of_rome, of_paris = endpoint_findings(service, counts, fleet, refused=exports)

    assert [ref.cluster for ref in of_rome.caused_by] == ["rome"]
    assert not of_rome.remedy.commands
    (command,) = of_paris.remedy.commands
    assert "--context paris" in command
    assert "--current-replicas=0" in command


def test_a_remedy_mends_every_cluster_that_reports_the_same() -> None:
    wrong = ServiceExport(metadata=meta("web", "shop", annotations={WEIGHT: "x"}))
    conditions = tuple(settings_conditions(wrong, frozenset({"rome", "oslo"})))
    wrong = replace(wrong, status=ServiceExportStatus(conditions=conditions))

    found = {one.code: one for one in findings(read("oslo", wrong), read("rome", wrong))}

    assert found["SettingIgnored"].remedy.commands == tuple(
        f"kubectl --context {one} -n shop annotate serviceexport web {WEIGHT}-"
        for one in ("oslo", "rome")
    )


def test_a_cluster_that_left_by_itself_does_not_hide_behind_one_that_was_given_up() -> None:
    given_up = ClusterMember(
        metadata=meta("oslo", "hanse-broker"),
        spec=ClusterMemberSpec(cluster_id="oslo", uid="any"),
        status=ClusterMemberStatus(phase="Left", since=NOW, abandoned=True),
    )
    shared = Namespace(metadata=Meta(name="hanse-broker"))
    hub = read("hub", RULES, given_up, shared)

    found = {one.code: one for one in findings(read("oslo", WAITING), read("rome", WAITING), hub)}

    assert [one.subject.cluster for one in found["MemberAbandoned"].consequences] == ["oslo"]
    again = "hanse join --broker hub --cluster-id rome --context rome"
    assert found["ExportPending"].remedy.commands == (again,)
