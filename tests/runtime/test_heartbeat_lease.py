"""The heartbeat Lease: published as soon as the replica is active, with the current duration."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest

from hanse.kube.client import Client
from hanse.kube.client_config import (
    ClientConfig,
    Identity,
    ServerEndpoint,
    UpdatableCredentials,
)
from hanse.kube.lease import lease_patch
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import HeartbeatState
from hanse.model.kinds.admission import ValidatingWebhookConfiguration
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.objects import Meta
from hanse.model.tokens import token_digest
from hanse.runtime.heartbeat_lease import HeartbeatLease
from tests.support.faults import NO_FAULTS, LinkFaults, Network
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio

SOON = 0.01


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def _config(token: str) -> ClientConfig:
    return ClientConfig(ServerEndpoint("https://broker.example"), Identity(token=token))


UNANSWERED = ValidatingWebhookConfiguration(
    metadata=Meta(name="strict"),
    webhooks=(
        {
            "name": "policy.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "rules": [
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "apiVersions": ["*"],
                    "resources": ["leases"],
                    "operations": ["*"],
                }
            ],
        },
    ),
)


class HeartbeatScenario:
    """A cluster that works or not, and the Lease by which others know."""

    def __init__(self) -> None:
        clock = LoopClock()
        self.working = False
        self.duration = timedelta(seconds=30)
        server = ApiServer("broker", clock=clock)
        self.client = Client(InProcessTransport(server))
        self.network = Network(Random(0))
        self.states: list[bool] = []
        self.rejections: list[bool] = []
        self.denials: list[bool] = []
        self.tokens: list[str] = []
        self.refusals: list[str] = []
        self.credentials = UpdatableCredentials(_config("first"))
        self.repairs: list[bool] = []
        self.repair_time = 0.0
        transport = self.network.transport("agent", "broker", InProcessTransport(server))
        self.presence = HeartbeatLease(
            Client(transport),
            "broker",
            "default",
            "oslo",
            clock,
            lambda: self.duration,
            self.on_state,
            self.repair,
            credentials=self.credentials,
        )

    def on_state(self, state: HeartbeatState) -> None:
        """Note whether renewals succeed, why the broker refuses them, and which token is used."""
        self.states.append(state.renewed)
        self.rejections.append(state.rejected)
        self.denials.append(state.forbidden)
        self.tokens.append(state.token)
        self.refusals.append(state.refusal)

    async def repair(self, restored: bool) -> None:
        """Note that everything is written anew, and whether a restore is the reason."""
        self.repairs.append(restored)
        await asyncio.sleep(self.repair_time)

    async def lease_spec(self) -> LeaseSpec:
        return (await self.client.read(Lease, "oslo", "default")).spec

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.presence.run(lambda: self.working))
        await asyncio.sleep(SOON)
        yield
        task.cancel()
        await asyncio.wait({task})


async def test_it_is_published_as_soon_as_the_replica_is_active() -> None:
    scenario = HeartbeatScenario()
    async with scenario.running():
        await asyncio.sleep(60)
        before = scenario.presence.is_published

        scenario.working = True
        scenario.presence.renew_soon()
        await asyncio.sleep(SOON)

        assert (before, scenario.presence.is_published) == (False, True)
        assert (await scenario.lease_spec()).holder_identity == "oslo"


async def test_rejected_credentials_are_told_at_once_and_until_they_are_accepted() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    async with scenario.running():
        scenario.network.link("agent", "broker").rejects = True
        await asyncio.sleep(20)
        rejected = scenario.rejections[-1]
        scenario.network.link("agent", "broker").rejects = False
        await asyncio.sleep(20)

        assert (rejected, scenario.states) == (True, [True, False, True])
        assert scenario.rejections == [False, True, False]


async def test_renewals_that_are_forbidden_are_told_at_once_and_until_they_are_allowed() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    link = scenario.network.link("agent", "broker")
    async with scenario.running():
        link.faults = LinkFaults(forbids="everything")
        await asyncio.sleep(20)
        link.faults = NO_FAULTS
        await asyncio.sleep(20)

        assert scenario.states == [True, False, True]
        assert (scenario.denials, any(scenario.rejections)) == ([False, True, False], False)


async def test_a_webhook_that_refuses_renewals_is_told_before_the_lease_runs_out() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    async with scenario.running():
        await scenario.client.create(UNANSWERED)
        await asyncio.sleep(15)
        assert scenario.refusals == [""]
        await asyncio.sleep(10)
        assert scenario.states == [True, True]
        await asyncio.sleep(40)
        await scenario.client.delete(ValidatingWebhookConfiguration, "strict", "")
        await asyncio.sleep(20)

        assert scenario.states == [True, True, False, True]
        for told in scenario.refusals[1:3]:
            assert 'failed calling webhook "policy.example.com"' in told
        assert (scenario.refusals[0], scenario.refusals[3]) == ("", "")
        assert not any((*scenario.denials, *scenario.rejections))


async def test_a_new_duration_is_kept_to_at_once() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    async with scenario.running():
        assert (await scenario.lease_spec()).lease_duration_seconds == 30

        scenario.duration = timedelta(seconds=3)
        scenario.presence.renew_soon()
        await asyncio.sleep(SOON)
        first = await scenario.lease_spec()
        await asyncio.sleep(1 + SOON)
        second = await scenario.lease_spec()

        assert first.lease_duration_seconds == 3
        assert first.renew_time != second.renew_time


async def test_an_inactive_replica_does_not_renew() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    async with scenario.running():
        scenario.working = False
        before = await scenario.lease_spec()
        await asyncio.sleep(60)

        assert await scenario.lease_spec() == before


async def test_it_reports_when_others_may_take_it_for_expired_and_when_no_longer() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    async with scenario.running():
        assert scenario.states == [True]

        scenario.network.cut("agent", "broker")
        await asyncio.sleep(scenario.duration.total_seconds() * 0.9)
        assert scenario.states == [True]
        await asyncio.sleep(scenario.duration.total_seconds() / 2)
        assert scenario.states == [True, False]

        scenario.network.heal_all()
        await asyncio.sleep(scenario.duration.total_seconds() / 3 + SOON)
        assert scenario.states == [True, False, True]


async def test_a_restored_lease_is_renewed_only_after_a_repair() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    async with scenario.running():
        earlier = await scenario.client.read(Lease, "oslo", "default")
        await asyncio.sleep(25)
        renewed = await scenario.client.read(Lease, "oslo", "default")
        before = list(scenario.repairs)

        rewound = lease_patch(renewed, earlier.spec)
        await scenario.client.patch(Lease, "oslo", "default", rewound)
        await asyncio.sleep(11)

        assert (before, scenario.repairs) == ([False], [False, True])
        last = await scenario.lease_spec()
        assert (last.renew_time or "") > (renewed.spec.renew_time or "")
        assert (last.acquire_time or "") > (renewed.spec.renew_time or ""), "it was acquired anew"


async def test_a_repair_that_takes_too_long_does_not_let_the_lease_expire() -> None:
    scenario = HeartbeatScenario()
    scenario.working = True
    scenario.repair_time = 3600.0
    async with scenario.running():
        await asyncio.sleep(10)

        assert scenario.presence.is_published


async def test_it_is_told_with_which_token_a_renewal_succeeded() -> None:
    presence = HeartbeatScenario()
    presence.working = True
    async with presence.running():
        presence.credentials.update(_config("second"))
        await asyncio.sleep(presence.duration.total_seconds())
        presence.network.cut("agent", "broker")
        presence.credentials.update(_config("third"))
        await asyncio.sleep(presence.duration.total_seconds() * 2)

    used = [token_digest("first"), token_digest("second"), token_digest("second")]
    assert list(zip(presence.states, presence.tokens, strict=True)) == list(
        zip([True, True, False], used, strict=True)
    )
