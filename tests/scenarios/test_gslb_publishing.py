"""Records of global hosts for ExternalDNS: one writer, which changes with the leader."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.options import GslbOptions
from hanse.kube.errors import AlreadyExists
from hanse.kube.transport import Request
from hanse.model.crds import placeholder_crds
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.gslb import NAMESPACE
from tests.support.federation import CRDS
from tests.support.gslb_sites import HOST, GslbScenario, form_gslb
from tests.support.scenario import Check, Features, Scenario

pytestmark = pytest.mark.anyio

HAMBURG, BERGEN = "192.0.2.12", "192.0.2.13"


@pytest.fixture
def features() -> Features:
    return lambda: (Gslb(GslbOptions(providers=("dns", "externaldns"))),)


@pytest.fixture
async def sites(scenario: Scenario) -> AsyncIterator[GslbScenario]:
    async with forming(scenario) as made:
        yield made


@asynccontextmanager
async def forming(scenario: Scenario, host: str = HOST) -> AsyncIterator[GslbScenario]:
    """Lubeck leads; the host is served by the other two."""
    definition = next(d for d in placeholder_crds() if d["spec"]["names"]["kind"] == "DNSEndpoint")
    for cluster in scenario.names:
        body = msgspec.json.encode(definition)
        with suppress(AlreadyExists):
            await scenario.admin(cluster).send(Request("POST", CRDS, body=body))
    made = await form_gslb(scenario)
    await made.policy("lubeck", controlPlaneHmOnly=True, ttl=20)
    await made.serve("hamburg", HAMBURG, host)
    await made.serve("bergen", BERGEN, host)
    await scenario.start_agents()
    try:
        yield made
    finally:
        for running in list(scenario.agents):
            await scenario.kill_agent(running)
        for cluster in scenario.names:
            path = f"/apis/externaldns.k8s.io/v1alpha1/namespaces/{NAMESPACE}/dnsendpoints"
            await scenario.admin(cluster).send(Request("DELETE", path))


def publishes(sites: GslbScenario, cluster: str, *targets: str) -> Check[None]:
    """That a cluster has records of the host with these addresses; none: no object at all."""

    async def check() -> None:
        listed = await sites.admin(cluster).list(DNSEndpoint, namespace=NAMESPACE)
        found = [t for o in listed.objects for r in o.spec.endpoints for t in r.targets]
        assert found == list(targets), f"{cluster} publishes {found}"
        assert bool(listed.objects) == bool(targets)

    return check


async def test_the_leader_alone_publishes_the_merged_record(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(publishes(sites, "lubeck", HAMBURG, BERGEN))

    await publishes(sites, "hamburg")()
    (found,) = (await sites.admin("lubeck").list(DNSEndpoint, namespace=NAMESPACE)).objects
    (record,) = found.spec.endpoints
    assert (record.dns_name, record.record_type, record.record_ttl) == (HOST, "A", 20)


async def test_another_leader_publishes_before_the_first_withdraws(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(publishes(sites, "lubeck", HAMBURG, BERGEN))
    await scenario.settled()
    await sites.lead("lubeck", False)
    await scenario.settled()
    await publishes(sites, "lubeck", HAMBURG, BERGEN)()

    await sites.lead("hamburg")

    async def handed_over() -> None:
        try:
            await publishes(sites, "lubeck", HAMBURG, BERGEN)()
        except AssertionError:
            await publishes(sites, "hamburg", HAMBURG, BERGEN)()
            await publishes(sites, "lubeck")()
            return
        raise AssertionError("lubeck publishes still")

    await scenario.eventually(handed_over)


async def test_the_record_follows_the_members_of_its_host(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(publishes(sites, "lubeck", HAMBURG, BERGEN))
    (before,) = (await sites.admin("lubeck").list(DNSEndpoint, namespace=NAMESPACE)).objects

    await sites.stop_serving("bergen")

    await scenario.eventually(publishes(sites, "lubeck", HAMBURG))
    (after,) = (await sites.admin("lubeck").list(DNSEndpoint, namespace=NAMESPACE)).objects
    assert after.metadata.uid == before.metadata.uid
