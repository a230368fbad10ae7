"""An agent that is started under the id of another cluster is refused before it writes."""

from datetime import UTC, datetime

import pytest

from hanse.app.agent import AgentSettings
from hanse.cli.agent.process import check_identity
from hanse.cli.errors import InputError
from hanse.features.services.manifests import CLUSTER_ID
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.lease import format_micro_time, new_lease
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.coordination import LeaseSpec
from hanse.model.kinds.core import Namespace, Secret
from hanse.model.naming import AGENT, BROKER_SECRET, SYSTEM_NAMESPACE
from hanse.model.objects import Meta
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio


async def rome() -> Client:
    """A cluster that has joined its broker as rome."""
    client = Client(InProcessTransport(ApiServer("rome", clock=WallClock())))
    await client.create(Namespace(metadata=Meta(name=SYSTEM_NAMESPACE)))
    meta = Meta(name=BROKER_SECRET, namespace=SYSTEM_NAMESPACE, annotations={CLUSTER_ID: "rome"})
    await client.create(Secret(metadata=meta))
    return client


async def test_the_id_of_the_secret_is_the_clusters_own() -> None:
    client = await rome()

    await check_identity(client, AgentSettings("rome", "only"))
    with pytest.raises(InputError, match="has joined its broker as 'rome', not as 'oslo'"):
        await check_identity(client, AgentSettings("oslo", "only"))


async def test_a_second_agent_of_another_id_is_refused() -> None:
    client = Client(InProcessTransport(ApiServer("rome", clock=WallClock())))
    await client.create(Namespace(metadata=Meta(name=SYSTEM_NAMESPACE)))
    now = format_micro_time(datetime.now(UTC))
    spec = LeaseSpec(holder_identity="rome_pod-1", lease_duration_seconds=15, renew_time=now)
    await client.create(new_lease(SYSTEM_NAMESPACE, AGENT, spec))

    await check_identity(client, AgentSettings("rome", "pod-2"))
    with pytest.raises(InputError, match="an agent runs in this cluster as 'rome'"):
        await check_identity(client, AgentSettings("oslo", "only"))
