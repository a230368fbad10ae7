"""Renewal of an agent's token for the broker, in its Secret and in its kubeconfig."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hanse.app.agent import AgentSettings
from hanse.cli.clusters import open_client
from hanse.features.services.manifests import BROKER_SECRET, KUBECONFIG
from hanse.kube.client_config import Credentials
from hanse.kube.clock import WallClock
from hanse.kube.token_renewal import (
    FileTokenStore,
    SecretTokenStore,
    ServiceAccountName,
    TokenRenewer,
    TokenStore,
)


@asynccontextmanager
async def renewing_broker_token(
    settings: AgentSettings,
    local: Credentials,
    broker: Credentials,
    file: Path | None,
    context: str,
) -> AsyncIterator[None]:
    """While the block runs, renew the token in the Secret and, if given, in the kubeconfig."""
    async with open_client(local) as local_client, open_client(broker) as broker_client:
        places: list[TokenStore] = [
            SecretTokenStore(local_client, settings.namespace, BROKER_SECRET, KUBECONFIG)
        ]
        if file is not None:
            places.append(FileTokenStore(file, context))
        account = ServiceAccountName(settings.options.broker_namespace, settings.cluster)
        renewer = TokenRenewer(account, broker_client, broker, places, WallClock())
        async with asyncio.TaskGroup() as group:
            task = group.create_task(renewer.run(), name="token renewal")
            try:
                yield
            finally:
                task.cancel()
