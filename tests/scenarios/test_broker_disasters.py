"""The broker loses a Lease, is restored to an earlier state, or is one of the members."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.app import BROKER
from hanse.kube.lease_observer import CLOCK_PRECISION
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from tests.scenarios.disturbances import CUT, EACH, Disturbance, disturb
from tests.scenarios.services import ServicesScenario, running_services
from tests.support.faults import LinkFaults
from tests.support.scenario import Check, all_of
from tests.support.testbed import ClusterTestbed

A_WHILE = timedelta(seconds=12)
"""Longer than the fleet's lease duration of 3 s and several renewals."""

BUMP = 1_000_000
"""By how much versions are moved forward when a backup is restored."""

VIRTUAL = pytest.mark.virtual

RECOVERED = timedelta(seconds=45)
"""Longer than an agent waits for others after a restore."""


async def silent(services: ServicesScenario, cluster: str, *others: str) -> None:
    """Let an exporting cluster die, and wait until all others have withdrawn it."""
    for exporter in (cluster, *others):
        await services.serve_and_export(exporter)
    await services.scenario.eventually(services.everywhere("web", cluster, *others))
    await services.scenario.kill_agent(cluster)
    for importer in services.scenario.names:
        if importer != cluster:
            await services.scenario.eventually(services.imports(importer, "web", *others))


@pytest.mark.parametrize("how", ["", pytest.param("cut", marks=pytest.mark.virtual)])
async def test_a_silent_cluster_does_not_return_when_its_lease_is_deleted(
    services: ServicesScenario, how: Disturbance
) -> None:
    scenario = services.scenario
    await silent(services, "lubeck", "bergen")

    await services.admin(BROKER).delete(Lease, "lubeck", BROKER_NAMESPACE)
    await disturb(scenario, how, "hamburg")

    gone = [services.imports(cluster, "web", "bergen") for cluster in ("bergen", "hamburg")]
    await scenario.always(all_of(*gone), for_=A_WHILE)


@pytest.mark.parametrize(
    ("how", "lease"),
    [
        pytest.param("restarted", True, id="expired-lease"),
        pytest.param("restarted", False, id="deleted-lease"),
        pytest.param("cut", True, id="importer-is-cut-off", marks=VIRTUAL),
    ],
)
async def test_a_silent_cluster_does_not_return_when_an_importer_is_disturbed(
    services: ServicesScenario, how: Disturbance, lease: bool
) -> None:
    scenario = services.scenario
    await silent(services, "lubeck", "bergen")
    if not lease:
        await services.admin(BROKER).delete(Lease, "lubeck", BROKER_NAMESPACE)

    await asyncio.sleep(CLOCK_PRECISION * 2)
    await disturb(scenario, how, "hamburg")

    await scenario.always(services.imports("hamburg", "web", "bergen"), for_=A_WHILE)


@pytest.mark.parametrize("how", EACH)
async def test_a_deleted_lease_of_a_live_cluster_takes_nothing_away(
    services: ServicesScenario, how: Disturbance
) -> None:
    scenario = services.scenario
    for cluster in ("bergen", "lubeck"):
        await services.serve_and_export(cluster)
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))

    await services.admin(BROKER).delete(Lease, "lubeck", BROKER_NAMESPACE)

    stands = services.everywhere("web", "bergen", "lubeck")
    async with asyncio.TaskGroup() as group:
        group.create_task(disturb(scenario, how, "hamburg"), name="disturbance")
        await scenario.always(stands, for_=A_WHILE + timedelta(seconds=CUT if how == "cut" else 0))


def not_imported(services: ServicesScenario, name: str) -> Check[None]:
    """That no cluster imports a service."""

    async def check() -> None:
        for cluster in services.scenario.names:
            found = await services.found(cluster, ServiceImport, name, services.scenario.namespace)
            assert found is None, f"{cluster} imports {name}"

    return check


@pytest.mark.parametrize(
    ("how", "cluster", "bump", "late"),
    [
        pytest.param("", "", 0, "", id="undisturbed"),
        pytest.param("restarted", "hamburg", BUMP, "", id="importer-restarts-versions-forward"),
        pytest.param("", "", BUMP, "leases", id="leases-come-late", marks=VIRTUAL),
        pytest.param("restarted", "lubeck", 0, "", id="exporter-restarts", marks=VIRTUAL),
        pytest.param("cut", "hamburg", 0, "", id="importer-is-cut-off", marks=VIRTUAL),
    ],
)
async def test_a_restored_broker_neither_withdraws_what_lives_nor_returns_what_was_deleted(
    services: ServicesScenario, how: Disturbance, cluster: ClusterId, bump: int, late: str
) -> None:
    scenario = services.scenario
    await services.serve_and_export("bergen", "web")
    await services.serve_and_export("lubeck", "old")
    await scenario.eventually(services.everywhere("web", "bergen"))
    await scenario.eventually(services.everywhere("old", "lubeck"))
    backup = await scenario.testbed.back_up(BROKER)
    await services.unexport("lubeck", "old")
    await services.serve_and_export("lubeck", "new")
    await services.serve_and_export("lubeck", "web")
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))
    await scenario.eventually(services.everywhere("new", "lubeck"))
    await scenario.eventually(not_imported(services, "old"))
    await scenario.always(not_imported(services, "old"), for_=A_WHILE)

    scenario.network.link("hamburg", BROKER).faults = LinkFaults(late=late)
    await scenario.testbed.restore(BROKER, backup, bump=bump)
    held = [not_imported(services, "old")]
    for one in scenario.names:
        held.append(services.imports(one, "web", "bergen", "lubeck"))
        held.append(services.imports(one, "new", "lubeck"))
    async with asyncio.TaskGroup() as group:
        group.create_task(disturb(scenario, how, cluster), name="disturbance")
        await scenario.always(all_of(*held), for_=RECOVERED)
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))
    await scenario.eventually(services.everywhere("old"))


async def just_renewed(services: ServicesScenario) -> None:
    """Wait until all clusters, which started together, have renewed their Leases."""

    async def renewals() -> list[str]:
        leases = await services.admin(BROKER).list(Lease, namespace=BROKER_NAMESPACE)
        return sorted(str(lease.spec.renew_time) for lease in leases.objects)

    async def renewed() -> None:
        assert (await renewals())[0] > last

    last = (await renewals())[-1]
    await services.scenario.eventually(renewed)


async def test_a_backup_that_nobody_can_tell_from_now_brings_nothing_back_either(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    for name in ("web", "old"):
        await services.serve_and_export("lubeck", name)
        await scenario.eventually(services.everywhere(name, "lubeck"))
    await just_renewed(services)
    backup = await scenario.testbed.back_up(BROKER)
    await services.unexport("lubeck", "old")
    await scenario.eventually(not_imported(services, "old"))
    await services.serve_and_export("lubeck", "new")
    await scenario.eventually(services.everywhere("new", "lubeck"))
    slow = LinkFaults(delay=timedelta(milliseconds=300))  # so that importers are first
    scenario.network.link("lubeck", BROKER).faults = slow
    before = len(scenario.network.sent)

    await scenario.testbed.restore(BROKER, backup, bump=BUMP)  # no version and no renewal went back
    held = (services.imports(one, "new", "lubeck") for one in scenario.names)
    await scenario.always(all_of(not_imported(services, "old"), *held), for_=RECOVERED)

    path = f"/namespaces/{scenario.namespace}/serviceimports"  # none came or went for a moment
    written = [w for w in scenario.writes_since(before) if path in w.request.path]
    assert [w.request for w in written if w.request.method != "PATCH"] == []
    scenario.network.heal_all()
    await services.serve_and_export("bergen", "web")
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))


@pytest.fixture
async def hosted(
    testbed: ClusterTestbed, request: pytest.FixtureRequest
) -> AsyncIterator[ServicesScenario]:
    """Services on a fleet whose broker is the API server of a member."""
    async with running_services(testbed, request.node.nodeid, broker="lubeck") as services:
        yield services


@pytest.mark.parametrize("how", ["restarted", pytest.param("cut", marks=pytest.mark.virtual)])
async def test_a_member_that_hosts_the_broker_exports_like_any_other(
    hosted: ServicesScenario, how: Disturbance
) -> None:
    for cluster in ("bergen", "lubeck"):
        await hosted.serve_and_export(cluster)

    await hosted.scenario.eventually(hosted.everywhere("web", "bergen", "lubeck"))
    await hosted.scenario.always(hosted.everywhere("web", "bergen", "lubeck"), for_=A_WHILE)
    await disturb(hosted.scenario, how, "bergen" if how == "cut" else "lubeck")
    await hosted.scenario.eventually(hosted.everywhere("web", "bergen", "lubeck"))
    await hosted.scenario.always(hosted.everywhere("web", "bergen", "lubeck"), for_=A_WHILE)
