"""One cluster exports: what all others then see, and what the exporter is told."""

import pytest

from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from tests.scenarios.harbour import Harbour


async def test_a_service_and_then_its_export_reach_every_cluster(harbour: Harbour) -> None:
    stage = harbour.stage
    service = await harbour.serve("lubeck")
    await harbour.pods("lubeck", "web", True)
    await harbour.export("lubeck")

    await stage.eventually(harbour.everywhere("web", "lubeck"))
    await stage.eventually(
        harbour.is_told("lubeck", Valid="Valid", Ready="Exported", Conflict="NoConflicts")
    )
    seen = await harbour.endpoints("bergen")
    assert seen == {"lubeck": [(service.spec.cluster_ip, True)]}


async def test_an_export_waits_for_its_service(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.export("lubeck")
    await stage.eventually(harbour.is_told("lubeck", Valid="NoService", Ready="Pending"))
    await harbour.everywhere("web")()

    await harbour.serve("lubeck")

    await stage.eventually(harbour.everywhere("web", "lubeck"))
    await stage.eventually(harbour.is_told("lubeck", Valid="Valid", Ready="Exported"))


async def test_a_service_deleted_and_made_anew_goes_and_comes(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.offer("lubeck")
    await stage.eventually(harbour.everywhere("web", "lubeck"))

    await harbour.unserve("lubeck")
    await stage.eventually(harbour.everywhere("web"))
    await stage.eventually(harbour.is_told("lubeck", Valid="NoService"))
    again = await harbour.serve("lubeck")
    await harbour.pods("lubeck", "web", True)

    await stage.eventually(harbour.everywhere("web", "lubeck"))
    await stage.eventually(harbour.knows("bergen", lubeck=[True]))
    assert (await harbour.endpoints("bergen"))["lubeck"][0][0] == again.spec.cluster_ip


async def test_an_export_that_ends_takes_all_imports_with_it(harbour: Harbour) -> None:
    await harbour.offer("lubeck")
    await harbour.stage.eventually(harbour.everywhere("web", "lubeck"))

    await harbour.unexport("lubeck")

    await harbour.stage.eventually(harbour.everywhere("web"))


async def test_a_service_that_becomes_an_external_name_is_withdrawn_until_it_is_none(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await harbour.offer("lubeck")
    await stage.eventually(harbour.everywhere("web", "lubeck"))

    name = {"type": "ExternalName", "externalName": "example.org", "clusterIP": None}
    await harbour.edit("lubeck", Service, {"spec": {**name, "clusterIPs": None}})
    await stage.eventually(harbour.everywhere("web"))
    await stage.eventually(harbour.is_told("lubeck", Valid="InvalidServiceType", Ready="Failed"))
    await harbour.edit("lubeck", Service, {"spec": {"type": "ClusterIP", "externalName": None}})

    await stage.eventually(harbour.everywhere("web", "lubeck"))
    await stage.eventually(harbour.is_told("lubeck", Valid="Valid", Ready="Exported"))


async def test_readiness_follows_the_pods_and_the_slice_stays(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.serve("lubeck")
    await harbour.export("lubeck")
    await stage.eventually(harbour.knows("bergen", lubeck=[]))

    for states, known in (((False, False), [False]), ((False, True), [True]), ((), [])):
        await harbour.pods("lubeck", "web", *states)
        await stage.eventually(harbour.knows("bergen", lubeck=known))


async def test_changed_ports_reach_every_import(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.offer("lubeck", "web", {"http": 80, "tls": 443})
    await stage.eventually(harbour.everywhere("web", "lubeck", ports={"http": 80, "tls": 443}))

    ports = [{"name": "http", "port": 8080}]
    await harbour.edit("lubeck", Service, {"spec": {"ports": ports}})

    await stage.eventually(harbour.everywhere("web", "lubeck", ports={"http": 8080}))


async def test_changed_affinity_reaches_every_import(harbour: Harbour) -> None:
    await harbour.offer("lubeck")
    await harbour.stage.eventually(harbour.everywhere("web", "lubeck"))

    await harbour.edit("lubeck", Service, {"spec": {"sessionAffinity": "ClientIP"}})

    async def everywhere() -> None:
        for cluster in harbour.stage.names:
            found = await harbour.found(cluster, ServiceImport)
            assert found is not None
            assert found.spec.session_affinity == "ClientIP", found.spec

    await harbour.stage.eventually(everywhere)


async def test_one_name_in_two_namespaces_makes_two_services(harbour: Harbour) -> None:
    stage = harbour.stage
    other = f"{stage.shop}-other"
    for cluster in stage.names:
        await stage.make_namespace(cluster, other)
    await harbour.offer("lubeck", "web", {"http": 80})
    await harbour.offer("bergen", "web", {"http": 81}, space=other)

    await stage.eventually(harbour.imports("hamburg", "web", "lubeck"))
    await stage.eventually(
        harbour.imports("hamburg", "web", "bergen", ports={"http": 81}, space=other)
    )
    await stage.eventually(harbour.is_told("lubeck", Conflict="NoConflicts"))
    await stage.eventually(harbour.is_told("bergen", space=other, Conflict="NoConflicts"))


async def test_an_importer_without_the_namespace_gets_the_import_with_it(harbour: Harbour) -> None:
    stage = harbour.stage
    late = f"{stage.shop}-late"
    for cluster in ("lubeck", "bergen"):
        await stage.make_namespace(cluster, late)
    await harbour.offer("lubeck", space=late)
    await stage.eventually(harbour.imports("bergen", "web", "lubeck", space=late))

    await stage.make_namespace("hamburg", late)

    await stage.eventually(harbour.imports("hamburg", "web", "lubeck", space=late))


async def test_a_service_with_two_slices_is_ready_by_either(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.serve("lubeck")
    await harbour.pods("lubeck", "web", False, slot="a")
    await harbour.pods("lubeck", "web", True, slot="b")
    await harbour.export("lubeck")
    await stage.eventually(harbour.knows("bergen", lubeck=[True]))

    await harbour.pods("lubeck", "web", False, slot="b")

    await stage.eventually(harbour.knows("bergen", lubeck=[False]))


async def test_headless_pods_come_and_go_with_their_host_names(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.serve("lubeck", headless=True)
    await harbour.export("lubeck")
    await stage.eventually(harbour.everywhere("web", "lubeck", headless=True))
    await stage.eventually(harbour.knows("bergen", lubeck=[]))

    await harbour.pods("lubeck", "web", True, False, hostnames=("web-0", "web-1"))
    await harbour.pods("lubeck", "web", True, slot="b")

    await stage.eventually(harbour.knows("bergen", lubeck=[True, False, True]))
    assert await hostnames(harbour, "bergen") == {"web-0", "web-1", ""}

    await harbour.pods("lubeck", "web")
    await stage.eventually(harbour.knows("bergen", lubeck=[True]))


async def hostnames(harbour: Harbour, cluster: str) -> set[str]:
    listed = await harbour.person(cluster).list(EndpointSlice, namespace=harbour.stage.shop)
    imported = [s for s in listed.objects if KUBE_SERVICE not in s.metadata.labels]
    return {e.hostname for s in imported for e in s.endpoints or ()}


async def test_a_copy_edited_or_deleted_by_hand_is_restored(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.offer("lubeck")
    await stage.eventually(harbour.everywhere("web", "lubeck"))

    await harbour.edit("bergen", ServiceImport, {"spec": {"ports": [{"port": 1}]}})
    await harbour.person("hamburg").delete(ServiceImport, "web", stage.shop)

    await stage.eventually(harbour.everywhere("web", "lubeck"))


@pytest.mark.parametrize("value", ["heavy", "-1"])
async def test_a_bad_annotation_is_told_and_nothing_else_is_held_up(
    harbour: Harbour, value: str
) -> None:
    await harbour.offer("lubeck")
    marks = {"metadata": {"annotations": {"services.hanse.dev/weight": value}}}
    await harbour.edit("lubeck", ServiceExport, marks)

    await harbour.stage.eventually(harbour.everywhere("web", "lubeck"))
    await harbour.stage.eventually(
        harbour.is_told("lubeck", SettingsValid="InvalidSetting", Ready="Exported")
    )


async def test_an_export_to_some_clusters_reaches_no_others(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.offer("lubeck")
    await stage.eventually(harbour.everywhere("web", "lubeck"))

    marks = {"metadata": {"annotations": {"services.hanse.dev/to-clusters": "bergen"}}}
    await harbour.edit("lubeck", ServiceExport, marks)

    await stage.eventually(harbour.imports("hamburg", "web"))
    await stage.eventually(harbour.imports("bergen", "web", "lubeck"))
    await stage.eventually(harbour.imports("lubeck", "web", "lubeck"))
