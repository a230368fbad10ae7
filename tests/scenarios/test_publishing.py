"""External DNS names: multi-cluster services as DNSEndpoints, which ExternalDNS reads."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from hanse import app
from hanse.features.publishing.options import PublishingOptions
from hanse.kube.errors import AlreadyExists
from hanse.kube.transport import Request
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.objects import Wire
from tests.scenarios.services import ServicesScenario
from tests.scenarios.toy_offers import shop_of
from tests.support.federation import CRDS
from tests.support.scenario import Check, Scenario
from tests.support.testbed import ClusterTestbed

ZONE = "fleet.example.org"
KIND = DNSEndpoint.kind
DEFINITION: Wire = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"{KIND.plural}.{KIND.group}",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a copy for tests"},
    },
    "spec": {
        "group": KIND.group,
        "scope": "Namespaced",
        "names": {"kind": KIND.name, "plural": KIND.plural, "singular": KIND.name.lower()},
        "versions": [
            {
                "name": KIND.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture
async def services(
    testbed: ClusterTestbed, request: pytest.FixtureRequest
) -> AsyncIterator[ServicesScenario]:
    """Every agent publishes into the scenario's own namespace of its cluster."""
    namespace = shop_of(request.node.nodeid)
    options = app.Options(publishing=PublishingOptions(ZONE, endpoints_in=namespace))
    async with Scenario(testbed, namespace, lambda: app.features(options)) as scenario:
        services = ServicesScenario(scenario)
        await services.open()
        yield services


async def install_crds(services: ServicesScenario) -> None:
    """Bring ExternalDNS's kind to every cluster."""
    for cluster in services.scenario.names:
        try:
            body = msgspec.json.encode(DEFINITION)
            await services.admin(cluster).send(Request("POST", CRDS, body=body))
        except AlreadyExists:
            continue


def published(services: ServicesScenario, cluster: str, **names: tuple[str, ...]) -> Check[None]:
    """That exactly these addresses are published of these services."""

    async def check() -> None:
        namespace = services.scenario.namespace
        found = await services.admin(cluster).list(DNSEndpoint, namespace=namespace)
        records = [r for one in found.objects for r in one.spec.endpoints if r.record_type == "A"]
        records_by_name = {
            r.dns_name: r.targets for r in records if r.dns_name.endswith(f"{namespace}.svc.{ZONE}")
        }
        service_names = {
            n: t
            for n, t in records_by_name.items()
            if n.count(".") == f"x.{namespace}.svc.{ZONE}".count(".")
        }
        assert service_names == {
            f"{n}.{namespace}.svc.{ZONE}": tuple(sorted(set(a))) for n, a in names.items()
        }

    return check


async def test_services_are_published_and_withdrawn(services: ServicesScenario) -> None:
    scenario = services.scenario
    await install_crds(services)
    await scenario.start_agents()
    lubeck = await services.serve("lubeck")
    bergen = await services.serve("bergen")
    for cluster in ("lubeck", "bergen"):
        await services.pods(cluster, "web", True)
        await services.export(cluster)

    both = (lubeck.spec.cluster_ip, bergen.spec.cluster_ip)
    await scenario.eventually(published(services, "hamburg", web=both))

    await services.unexport("lubeck")
    await scenario.eventually(published(services, "hamburg", web=(bergen.spec.cluster_ip,)))
    await services.unexport("bergen")
    await scenario.eventually(published(services, "hamburg"))


async def test_publishing_begins_when_the_kind_is_brought(services: ServicesScenario) -> None:
    scenario = services.scenario
    await scenario.start_agents()
    web = await services.serve("lubeck")
    await services.pods("lubeck", "web", True)
    await services.export("lubeck")
    await scenario.eventually(services.everywhere("web", "lubeck"))

    await install_crds(services)

    await scenario.eventually(published(services, "bergen", web=(web.spec.cluster_ip,)))
