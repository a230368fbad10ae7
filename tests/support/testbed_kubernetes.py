"""Real clusters as a testbed: shared by all scenarios, in real time."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

from hanse.app import BROKER
from hanse.kube.client_config import ClientConfig, Credentials, ServerEndpoint, StaticCredentials
from hanse.kube.clock import WallClock
from hanse.kube.errors import Unreachable
from hanse.kube.http_transport import HttpTransport
from hanse.kube.lease import LeaseTimings
from hanse.kube.transport import Request, Transport
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import API_SERVER
from hanse.model.objects import ClusterId
from hanse.web.webhooks.server import WebhookServer
from tests.support.service_accounts import Account, grant
from tests.support.testbed import WebhookEndpoint

SHORT = LeaseTimings(
    lease_duration=timedelta(seconds=3),
    renew_deadline=timedelta(seconds=2),
    retry_period=timedelta(milliseconds=500),
)
RBAC_TIMEOUT = timedelta(seconds=10)
"""How long an API server may take to apply roles that were just created."""

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class KubernetesTestbed:
    """A shared fleet: agents use accounts with only their generated RBAC rules."""

    poll_interval = timedelta(milliseconds=100)
    settle_time = timedelta(seconds=3)
    slack = timedelta(seconds=20)
    timings = SHORT

    def __init__(self, fleet: RealFleet, folder: Path) -> None:
        self.names = tuple(name for name in fleet.clusters if name != BROKER)
        self.clock = WallClock()
        self._fleet = fleet
        self._folder = folder
        self._backups = 0
        self._admins: dict[ClusterId, Transport] = {}
        self._roles_created: set[tuple[ClusterId, str]] = set()

    def connect(self, cluster: ClusterId) -> Transport:
        return self._fleet.clusters[cluster].connect()

    async def agent_transport(self, account: Account, cluster: ClusterId) -> Transport:
        agent = HttpTransport(StaticCredentials(await self._create_account(account, cluster)))
        try:
            await _wait_for_rbac(agent, account)
        except BaseException:
            await agent.close()
            raise
        return agent

    def endpoint(self, cluster: ClusterId) -> ServerEndpoint:
        return self._fleet.clusters[cluster].access.endpoint

    def dial(self, cluster: ClusterId, credentials: Credentials) -> Transport:
        return HttpTransport(credentials)

    def webhook_endpoint(self, name: str) -> WebhookEndpoint:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        return WebhookEndpoint(f"https://127.0.0.1:{listener.getsockname()[1]}", listener)

    def set_webhook_server(
        self, endpoint_for_webhooks: WebhookEndpoint, server: WebhookServer | None
    ) -> None:
        if server is None and endpoint_for_webhooks.listener is not None:
            endpoint_for_webhooks.listener.close()

    async def access(self, account: Account, cluster: ClusterId) -> ClientConfig:
        """Credentials of a new account, whose RBAC rules are in effect when this returns."""
        access = await self._create_account(account, cluster)
        async with _closing(HttpTransport(StaticCredentials(access))) as agent:
            await _wait_for_rbac(agent, account)
        return access

    async def _create_account(self, account: Account, cluster: ClusterId) -> ClientConfig:
        self._roles_created.update((cluster, path) for path in _roles(account))
        admin = self._fleet.clusters[cluster].access
        return await grant(self._admin(cluster), admin, account)

    def _admin(self, cluster: ClusterId) -> Transport:
        """An administrator's transport, opened once: each new one costs a handshake."""
        if cluster not in self._admins:
            self._admins[cluster] = self.connect(cluster)
        return self._admins[cluster]

    async def restart_server(self, cluster: ClusterId) -> None:
        target = self._fleet.clusters[cluster]
        await target.servers[API_SERVER.name].stop()
        await target.start_server(API_SERVER.name)

    async def freeze_server(self, cluster: ClusterId, duration: timedelta) -> None:
        """Stop the process of an API server for a while: it accepts, and answers nothing."""
        pid = self._fleet.clusters[cluster].servers[API_SERVER.name].pid
        assert pid is not None, "a server runs"
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(duration.total_seconds())
        finally:
            os.kill(pid, signal.SIGCONT)

    async def back_up(self, cluster: ClusterId) -> Path:
        self._backups += 1
        backup = self._folder / f"{cluster}-{self._backups}.etcd"
        await self._fleet.clusters[cluster].save(backup)
        return backup

    async def restore(self, cluster: ClusterId, backup: Path, *, bump: int = 0) -> None:
        await self._fleet.clusters[cluster].restore(backup, bump_revision=bump)

    async def delete_roles(self) -> None:
        """Delete the roles that were created for scenarios."""
        for cluster, path in self._roles_created:
            await self._admin(cluster).send(Request("DELETE", path))

    async def close(self) -> None:
        for admin in self._admins.values():
            with suppress(Unreachable):
                await admin.close()


@asynccontextmanager
async def kubernetes_testbed(fleet: RealFleet, folder: Path) -> AsyncIterator[KubernetesTestbed]:
    """A running fleet as a testbed; backups go to a folder."""
    testbed = KubernetesTestbed(fleet, folder)
    try:
        yield testbed
    finally:
        try:
            await testbed.delete_roles()
        finally:
            await testbed.close()


def _roles(account: Account) -> list[str]:
    name = f"{account.namespace}:{account.name}"
    everywhere = [f"{_RBAC}/clusterroles/{name}", f"{_RBAC}/clusterrolebindings/{name}"]
    inside = [
        f"{_RBAC}/namespaces/{namespace}/{kind}/{name}"
        for namespace in account.inside
        for kind in ("roles", "rolebindings")
    ]
    return everywhere + inside


async def _wait_for_rbac(agent: Transport, account: Account) -> None:
    """List what the rules allow until none of it is forbidden."""
    wanted = [
        _listing(_list_path(rule["apiGroups"][0], rule["resources"][0], namespace), name)
        for namespace, rules in (("", account.everywhere), *account.inside.items())
        for rule in rules
        if "list" in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    ]
    async with asyncio.timeout(RBAC_TIMEOUT.total_seconds()):
        for listing in wanted:
            while (await agent.send(listing)).status == 403:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.05)


def _listing(path: str, name: str) -> Request:
    """A list request: of all objects, or of one by name."""
    only = (("fieldSelector", f"metadata.name={name}"),) if name else ()
    return Request("GET", path, (("limit", "1"), *only))


def _list_path(group: str, resource: str, namespace: str) -> str:
    start = f"/apis/{group}/v1" if group else "/api/v1"
    return f"{start}/namespaces/{namespace}/{resource}" if namespace else f"{start}/{resource}"


@asynccontextmanager
async def _closing(transport: Transport) -> AsyncIterator[Transport]:
    try:
        yield transport
    finally:
        with suppress(Unreachable):
            await transport.close()
