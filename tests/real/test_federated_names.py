"""A stock CoreDNS answers for what is generated: who finds what across a federation, row by row."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.local.real.fleet import RealFleet
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import SYSTEM
from tests.real.test_coredns import PATIENCE, answers, coredns
from tests.scenarios.federated import GLOBAL, FederatedScenario, address, federated_scenario
from tests.support.scenario import Scenario
from tests.support.testbed_kubernetes import kubernetes_testbed

THINGS = ("pods", "machine", "native")


@pytest.fixture
async def federated(real_clusters: RealFleet, tmp_path: Path) -> AsyncIterator[FederatedScenario]:
    def features() -> tuple[Membership, FederatedServices, Machines]:
        return (Membership(), FederatedServices(), Machines())

    async with (
        kubernetes_testbed(real_clusters, tmp_path) as testbed,
        Scenario(testbed, "named-guild", features) as scenario,
        federated_scenario(scenario) as federated,
    ):
        yield federated


async def test_pods_find_pods_machines_and_native_services_of_any_cluster(
    real_clusters: RealFleet, federated: FederatedScenario, tmp_path: Path
) -> None:
    scenario = federated.scenario
    names = {thing: f"{thing}-{federated.namespace}" for thing in THINGS}
    await federated.join("bergen", 1, name="pods", marks={GLOBAL: names["pods"]})
    await federated.machine(
        "bergen", "db-1", "10.7.0.1", ports="sql:5432/TCP", joins=names["machine"]
    )
    federated.web = names["native"]
    await federated.native("bergen", "queue", internal_ip="10.8.0.1")
    behind = {"pods": address("bergen", 1), "machine": "10.7.0.1", "native": "10.8.0.1"}
    for thing, name in names.items():
        await scenario.eventually(federated.everywhere(name, bergen=[behind[thing]]))

    for asker in ("bergen", "lubeck"):
        folder = tmp_path / asker
        folder.mkdir()
        async with coredns(real_clusters, asker, folder) as ask:
            for name in names.values():
                found = await federated.find(asker, Service, name)
                assert found is not None
                fqdn = f"{name}.{SYSTEM}.svc.cluster.local."
                await scenario.eventually(
                    answers(ask, fqdn, "A", found.spec.cluster_ip), within=PATIENCE
                )
