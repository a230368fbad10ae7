"""One cluster exports a service: imports in all others, and conditions of the export."""

import pytest

from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.ownership import OWNER
from tests.scenarios.services import ServicesScenario


async def test_a_service_and_then_its_export_reach_every_cluster(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    service = await services.serve("lubeck")
    await services.pods("lubeck", "web", True)
    await services.export("lubeck")

    await scenario.eventually(services.everywhere("web", "lubeck"))
    await scenario.eventually(
        services.has_conditions("lubeck", Valid="Valid", Ready="Exported", Conflict="NoConflicts")
    )
    endpoints = await services.endpoints("bergen")
    assert endpoints == {"lubeck": [(service.spec.cluster_ip, True)]}


async def test_an_export_waits_for_its_service(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.export("lubeck")
    await scenario.eventually(services.has_conditions("lubeck", Valid="NoService", Ready="Pending"))
    await services.everywhere("web")()

    await services.serve("lubeck")

    await scenario.eventually(services.everywhere("web", "lubeck"))
    await scenario.eventually(services.has_conditions("lubeck", Valid="Valid", Ready="Exported"))


async def test_a_recreated_service_is_withdrawn_and_exported_again(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve_and_export("lubeck")
    await scenario.eventually(services.everywhere("web", "lubeck"))

    await services.unserve("lubeck")
    await scenario.eventually(services.everywhere("web"))
    await scenario.eventually(services.has_conditions("lubeck", Valid="NoService"))
    again = await services.serve("lubeck")
    await services.pods("lubeck", "web", True)

    await scenario.eventually(services.everywhere("web", "lubeck"))
    await scenario.eventually(services.has_endpoints("bergen", lubeck=[True]))
    assert (await services.endpoints("bergen"))["lubeck"][0][0] == again.spec.cluster_ip


async def test_an_export_that_ends_takes_all_imports_with_it(services: ServicesScenario) -> None:
    await services.serve_and_export("lubeck")
    await services.scenario.eventually(services.everywhere("web", "lubeck"))

    await services.unexport("lubeck")

    await services.scenario.eventually(services.everywhere("web"))


async def test_a_service_that_becomes_an_external_name_is_withdrawn_until_it_is_none(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve_and_export("lubeck")
    await scenario.eventually(services.everywhere("web", "lubeck"))

    name = {"type": "ExternalName", "externalName": "example.org", "clusterIP": None}
    await services.edit("lubeck", Service, {"spec": {**name, "clusterIPs": None}})
    await scenario.eventually(services.everywhere("web"))
    await scenario.eventually(
        services.has_conditions("lubeck", Valid="InvalidServiceType", Ready="Failed")
    )
    await services.edit("lubeck", Service, {"spec": {"type": "ClusterIP", "externalName": None}})

    await scenario.eventually(services.everywhere("web", "lubeck"))
    await scenario.eventually(services.has_conditions("lubeck", Valid="Valid", Ready="Exported"))


async def test_readiness_follows_the_pods_and_the_slice_stays(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.serve("lubeck")
    await services.export("lubeck")
    await scenario.eventually(services.has_endpoints("bergen", lubeck=[]))

    for states, known in (((False, False), [False]), ((False, True), [True]), ((), [])):
        await services.pods("lubeck", "web", *states)
        await scenario.eventually(services.has_endpoints("bergen", lubeck=known))


async def test_changed_ports_reach_every_import(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.serve_and_export("lubeck", "web", {"http": 80, "tls": 443})
    await scenario.eventually(services.everywhere("web", "lubeck", ports={"http": 80, "tls": 443}))

    ports = [{"name": "http", "port": 8080}]
    await services.edit("lubeck", Service, {"spec": {"ports": ports}})

    await scenario.eventually(services.everywhere("web", "lubeck", ports={"http": 8080}))


async def test_changed_affinity_reaches_every_import(services: ServicesScenario) -> None:
    await services.serve_and_export("lubeck")
    await services.scenario.eventually(services.everywhere("web", "lubeck"))

    await services.edit("lubeck", Service, {"spec": {"sessionAffinity": "ClientIP"}})

    async def everywhere() -> None:
        for cluster in services.scenario.names:
            found = await services.found(cluster, ServiceImport)
            assert found is not None
            assert found.spec.session_affinity == "ClientIP", found.spec

    await services.scenario.eventually(everywhere)


async def test_one_name_in_two_namespaces_makes_two_services(services: ServicesScenario) -> None:
    scenario = services.scenario
    other = f"{scenario.namespace}-other"
    for cluster in scenario.names:
        await scenario.make_namespace(cluster, other)
    await services.serve_and_export("lubeck", "web", {"http": 80})
    await services.serve_and_export("bergen", "web", {"http": 81}, space=other)

    await scenario.eventually(services.imports("hamburg", "web", "lubeck"))
    await scenario.eventually(
        services.imports("hamburg", "web", "bergen", ports={"http": 81}, space=other)
    )
    await scenario.eventually(services.has_conditions("lubeck", Conflict="NoConflicts"))
    await scenario.eventually(
        services.has_conditions("bergen", space=other, Conflict="NoConflicts")
    )


async def test_an_importer_without_the_namespace_gets_the_import_with_it(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    late = f"{scenario.namespace}-late"
    for cluster in ("lubeck", "bergen"):
        await scenario.make_namespace(cluster, late)
    await services.serve_and_export("lubeck", space=late)
    await scenario.eventually(services.imports("bergen", "web", "lubeck", space=late))

    await scenario.make_namespace("hamburg", late)

    await scenario.eventually(services.imports("hamburg", "web", "lubeck", space=late))


async def test_a_service_with_two_slices_is_ready_by_either(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.serve("lubeck")
    await services.pods("lubeck", "web", False, slot="a")
    await services.pods("lubeck", "web", True, slot="b")
    await services.export("lubeck")
    await scenario.eventually(services.has_endpoints("bergen", lubeck=[True]))

    await services.pods("lubeck", "web", False, slot="b")

    await scenario.eventually(services.has_endpoints("bergen", lubeck=[False]))


async def test_headless_pods_come_and_go_with_their_host_names(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.serve("lubeck", headless=True)
    await services.export("lubeck")
    await scenario.eventually(services.everywhere("web", "lubeck", headless=True))
    await scenario.eventually(services.has_endpoints("bergen", lubeck=[]))

    await services.pods("lubeck", "web", True, False, hostnames=("web-0", "web-1"))
    await services.pods("lubeck", "web", True, slot="b")

    await scenario.eventually(services.has_endpoints("bergen", lubeck=[True, False, True]))
    assert await hostnames(services, "bergen") == {"web-0", "web-1", ""}

    await services.pods("lubeck", "web")
    await scenario.eventually(services.has_endpoints("bergen", lubeck=[True]))


async def hostnames(services: ServicesScenario, cluster: str) -> set[str]:
    listed = await services.admin(cluster).list(
        EndpointSlice, namespace=services.scenario.namespace
    )
    imported = [s for s in listed.objects if KUBE_SERVICE not in s.metadata.labels]
    return {e.hostname for s in imported for e in s.endpoints or ()}


async def test_a_copy_edited_or_deleted_by_hand_is_restored(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.serve_and_export("lubeck")
    await scenario.eventually(services.everywhere("web", "lubeck"))

    await services.edit("bergen", ServiceImport, {"spec": {"ports": [{"port": 1}]}})
    await services.admin("hamburg").delete(ServiceImport, "web", scenario.namespace)
    await services.edit("lubeck", ServiceImport, {"metadata": {"labels": {OWNER: None}}})

    await scenario.eventually(services.everywhere("web", "lubeck"))
    await services.unexport("lubeck")
    await scenario.eventually(services.everywhere("web"))


@pytest.mark.parametrize("value", ["heavy", "-1"])
async def test_a_bad_annotation_is_reported_and_blocks_nothing_else(
    services: ServicesScenario, value: str
) -> None:
    await services.serve_and_export("lubeck")
    annotations = {"metadata": {"annotations": {"services.hanse.dev/weight": value}}}
    await services.edit("lubeck", ServiceExport, annotations)

    await services.scenario.eventually(services.everywhere("web", "lubeck"))
    await services.scenario.eventually(
        services.has_conditions("lubeck", SettingsValid="InvalidSetting", Ready="Exported")
    )


async def test_an_export_to_some_clusters_reaches_no_others(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.serve_and_export("lubeck")
    await scenario.eventually(services.everywhere("web", "lubeck"))

    annotations = {"metadata": {"annotations": {"services.hanse.dev/to-clusters": "bergen"}}}
    await services.edit("lubeck", ServiceExport, annotations)

    await scenario.eventually(services.imports("hamburg", "web"))
    await scenario.eventually(services.imports("bergen", "web", "lubeck"))
    await scenario.eventually(services.imports("lubeck", "web", "lubeck"))
