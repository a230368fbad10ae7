"""Names for the world: services of the fleet as DNSEndpoints, which ExternalDNS reads."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from hanse import app
from hanse.dns.publishing.options import PublishingOptions
from hanse.kube.errors import AlreadyExists
from hanse.kube.request import Request
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.objects import Wire
from tests.scenarios.harbour import Harbour
from tests.scenarios.market import shop_of
from tests.support.ground import Ground
from tests.support.stage import Check, Stage
from tests.support.stage_federation import CRDS

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
async def harbour(ground: Ground, request: pytest.FixtureRequest) -> AsyncIterator[Harbour]:
    """Every agent publishes into the scenario's own namespace of its cluster."""
    shop = shop_of(request.node.nodeid)
    options = app.Options(publishing=PublishingOptions(ZONE, endpoints_in=shop))
    async with Stage(ground, shop, lambda: app.features(options)) as stage:
        harbour = Harbour(stage)
        await harbour.open()
        yield harbour
        for actor in list(stage.actors):
            await stage.kill_agent(actor)
        await harbour.close()


async def teach(harbour: Harbour) -> None:
    """Bring ExternalDNS's kind to every cluster."""
    for cluster in harbour.stage.names:
        try:
            body = msgspec.json.encode(DEFINITION)
            await harbour.person(cluster).send(Request("POST", CRDS, body=body))
        except AlreadyExists:
            continue


def published(harbour: Harbour, cluster: str, **names: tuple[str, ...]) -> Check[None]:
    """That exactly these addresses are published of these services."""

    async def check() -> None:
        shop = harbour.stage.shop
        found = await harbour.person(cluster).list(DNSEndpoint, namespace=shop)
        records = [r for one in found.objects for r in one.spec.endpoints if r.record_type == "A"]
        told = {r.dns_name: r.targets for r in records if r.dns_name.endswith(f"{shop}.svc.{ZONE}")}
        services = {
            n: t for n, t in told.items() if n.count(".") == f"x.{shop}.svc.{ZONE}".count(".")
        }
        assert services == {
            f"{n}.{shop}.svc.{ZONE}": tuple(sorted(set(a))) for n, a in names.items()
        }

    return check


async def test_services_are_published_and_withdrawn(harbour: Harbour) -> None:
    stage = harbour.stage
    await teach(harbour)
    await stage.start_agents()
    lubeck = await harbour.serve("lubeck")
    bergen = await harbour.serve("bergen")
    for cluster in ("lubeck", "bergen"):
        await harbour.pods(cluster, "web", True)
        await harbour.export(cluster)

    both = (lubeck.spec.cluster_ip, bergen.spec.cluster_ip)
    await stage.eventually(published(harbour, "hamburg", web=both))

    await harbour.unexport("lubeck")
    await stage.eventually(published(harbour, "hamburg", web=(bergen.spec.cluster_ip,)))
    await harbour.unexport("bergen")
    await stage.eventually(published(harbour, "hamburg"))


async def test_publishing_begins_when_the_kind_is_brought(harbour: Harbour) -> None:
    stage = harbour.stage
    await stage.start_agents()
    web = await harbour.serve("lubeck")
    await harbour.pods("lubeck", "web", True)
    await harbour.export("lubeck")
    await stage.eventually(harbour.everywhere("web", "lubeck"))

    await teach(harbour)

    await stage.eventually(published(harbour, "bergen", web=(web.spec.cluster_ip,)))
