"""The process of an agent: credentials and their renewal, listeners, stopping on a signal."""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from hanse import app
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.app.log_level import following_log_level
from hanse.cli.agent.running import running_agent
from hanse.cli.clusters import check_readable, open_client
from hanse.cli.errors import CommandFailed, InputError
from hanse.features.services.manifests import CLUSTER_ID, KUBECONFIG
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.clock import WallClock
from hanse.kube.errors import KubeError
from hanse.kube.followed_credentials import FollowedCredentials, secret_config
from hanse.kube.http_transport import HttpTransport
from hanse.kube.token_renewal import (
    FileTokenStore,
    SecretTokenStore,
    ServiceAccountName,
    TokenRenewer,
    TokenStore,
    token_account,
)
from hanse.model.broker_namespace import accounts_namespace
from hanse.model.kinds.core import Secret
from hanse.model.naming import BROKER_SECRET

log = logging.getLogger(__name__)


class AgentCredentials(Struct, frozen=True):
    """The kubeconfigs and contexts of an agent's cluster and of its broker."""

    local_file: Path | None = None
    local_context: str = ""
    broker_file: Path | None = None
    broker_context: str = ""

    @property
    def local(self) -> Credentials:
        """The credentials for the agent's own cluster, not read yet.

        Of `local_file`, else $KUBECONFIG, else this pod unless a context is named, else
        ~/.kube/config.
        """
        return credentials.find_credentials(self.local_file, context=self.local_context)

    @property
    def broker(self) -> Credentials | None:
        """The credentials at the broker, not read yet; None without a kubeconfig or context of it.

        With a context alone they are of $KUBECONFIG or ~/.kube/config, never of `local_file`.
        """
        if self.broker_file is None and not self.broker_context:
            return None
        return credentials.find_credentials(self.broker_file, context=self.broker_context)


class DashboardSettings(Struct, frozen=True):
    """The address, token and host names of an agent's dashboard."""

    listener: socket.socket
    token: str
    hosts: tuple[str, ...] = ()

    @asynccontextmanager
    async def serving(self, agent: Agent) -> AsyncIterator[None]:
        """Serve the agent's dashboard until the block ends.

        Its page only shows: the actions `plan` and `order` are not offered.
        """
        from hanse.app.dashboard import Dashboard
        from hanse.web.dashboard.auth import Authenticator

        dashboard = Dashboard(Authenticator(self.token))
        async with dashboard.showing(agent), dashboard.serving(self.listener, self.hosts):
            yield


class AgentListeners(Struct, frozen=True):
    """The sockets of the health endpoints and of the webhooks."""

    health: socket.socket
    webhooks: socket.socket | None = None


async def run_agent(
    settings: AgentSettings,
    access: AgentCredentials,
    listeners: AgentListeners,
    dashboard: DashboardSettings | None = None,
) -> int:
    """Run the agent until SIGINT or SIGTERM, or until it ends itself; returns 0 after a signal.

    Raises `InputError` for unreadable credentials or another cluster's id (`check_identity`), and
    `CommandFailed` with the agent's reason if it ended itself. Also serves health, webhooks and
    dashboard, and renews the broker's token.
    """
    local, given = await check_readable(access.local), access.broker
    async with open_client(local) as home:
        await check_identity(home, settings)
        broker = None
        if given is not None:
            place = (settings.namespace, BROKER_SECRET, KUBECONFIG)
            read_stored = secret_config(home, *place)
            broker = FollowedCredentials(await check_readable(given), read_stored)
        return await _run_agent(settings, access, listeners, dashboard, home, broker)


async def _run_agent(
    settings: AgentSettings,
    access: AgentCredentials,
    listeners: AgentListeners,
    dashboard: DashboardSettings | None,
    home: Client,
    broker: FollowedCredentials | None,
) -> int:
    """Run the agent as `run_agent` does, with its own cluster's client and checked credentials.

    Returns 0 at SIGINT or SIGTERM; raises `CommandFailed` with the reason if the agent ends itself.
    Closes the agent in any case.
    """
    agent = Agent(
        settings,
        AgentParts(
            local=HttpTransport(access.local),
            broker=HttpTransport(broker) if broker is not None else None,
            broker_credentials=broker,
            external_systems=app.configured_name_server(settings.options),
            features=app.features(settings.options),
            hooks=app.hooks(settings.options),
        ),
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stop.set)
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(following_log_level(agent.reconciler))
            if dashboard is not None:
                await stack.enter_async_context(dashboard.serving(agent))
            await stack.enter_async_context(agent.running(listeners.health, listeners.webhooks))
            if broker is not None:
                await stack.enter_async_context(broker.following())
                await stack.enter_async_context(
                    _renewing_broker_token(settings, access, home, broker)
                )
            host, port = listeners.health.getsockname()[:2]
            fields = {"cluster": settings.cluster, "listen": f"{host}:{port}"}
            if dashboard is not None:
                fields["dashboard"] = "{}:{}".format(*dashboard.listener.getsockname()[:2])
            log.info("agent runs", extra=fields)
            await _first_of(stop, agent.ended)
            log.info("agent stops", extra={"cluster": settings.cluster})
    finally:
        await agent.close()
    if agent.end_reason:
        raise CommandFailed(agent.end_reason)
    return 0


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


async def check_identity(local: Client, settings: AgentSettings) -> None:
    """Raise `InputError` if this cluster is known under another cluster id than the settings have.

    Known by the annotation of the Secret for the broker, or by the holder of the agent's Lease
    while it is renewed in time. What is missing or cannot be read is not checked: the agent
    compares uids itself.
    """
    cluster = settings.cluster
    try:
        secret = await local.read(Secret, BROKER_SECRET, settings.namespace)
        joined = secret.metadata.annotations.get(CLUSTER_ID, cluster)
    except KubeError:
        joined = cluster
    if joined != cluster:
        raise InputError(
            f"this cluster has joined its broker as {joined!r}, not as {cluster!r}; "
            "use that --cluster-id, or name another --context"
        )
    if (holder := await running_agent(local, settings.namespace)) not in ("", cluster):
        raise InputError(
            f"an agent runs in this cluster as {holder!r}; use that --cluster-id, name another "
            "--context, or stop that agent first"
        )


async def _broker_account(settings: AgentSettings, broker: Credentials) -> ServiceAccountName:
    """The name of the agent's ServiceAccount on the broker, in the namespace of accounts.

    In the broker namespace itself if the token says so: clusters that joined earlier have it there.
    Credentials that cannot be read raise no error, and count as saying nothing.
    """
    home = settings.options.broker_namespace
    try:
        found = token_account((await broker.config()).identity.token)
    except KubeError:
        found = None
    if found == ServiceAccountName(home, settings.cluster):
        return found
    return ServiceAccountName(accounts_namespace(home), settings.cluster)


@asynccontextmanager
async def _renewing_broker_token(
    settings: AgentSettings, access: AgentCredentials, home: Client, broker: Credentials
) -> AsyncIterator[None]:
    """While the block runs, renew the broker token and write it to the cluster's Secret.

    With a kubeconfig file for the broker, also to that.
    """
    async with open_client(broker) as broker_client:
        places: list[TokenStore] = [
            SecretTokenStore(home, settings.namespace, BROKER_SECRET, KUBECONFIG)
        ]
        if access.broker_file is not None:
            places.append(FileTokenStore(access.broker_file, access.broker_context))
        account = await _broker_account(settings, broker)
        renewer = TokenRenewer(account, broker_client, broker, places, WallClock())
        async with asyncio.TaskGroup() as group:
            task = group.create_task(renewer.run(), name="token renewal")
            try:
                yield
            finally:
                task.cancel()
