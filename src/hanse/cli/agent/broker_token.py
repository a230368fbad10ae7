"""An agent's token for the broker, kept alive in its Secret and in its kubeconfig."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hanse import app
from hanse.features.services.manifests import BROKER_SECRET, KUBECONFIG
from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.clock import WallClock
from hanse.kube.http_transport import HttpTransport
from hanse.kube.token_renewal import (
    FileTokenStore,
    SecretTokenStore,
    ServiceAccountName,
    TokenRenewer,
    TokenStore,
)


@asynccontextmanager
async def renewing(
    settings: app.Settings, home: Credentials, broker: Credentials, file: Path | None, context: str
) -> AsyncIterator[None]:
    """Renew the token for as long as the block runs."""
    ways = HttpTransport(home), HttpTransport(broker)
    at_home, on_broker = (Client(way) for way in ways)
    places: list[TokenStore] = [
        SecretTokenStore(at_home, settings.namespace, BROKER_SECRET, KUBECONFIG)
    ]
    if file is not None:
        places.append(FileTokenStore(file, context))
    account = ServiceAccountName(settings.options.broker_namespace, settings.cluster)
    renewal = TokenRenewer(account, on_broker, broker, places, WallClock())
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(renewal.run(), name="token renewal")
            try:
                yield
            finally:
                task.cancel()
    finally:
        for way in ways:
            await way.close()
