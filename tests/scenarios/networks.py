"""Actions of tenants and administrators on networks, and checks of what they observe."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from msgspec.structs import replace

from hanse.features.networks.admission_policies import POLICIES
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.kube.client import Client
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.transport import Request, Response, Transport
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.networking import NetworkPolicy, ServiceCIDR
from hanse.model.kinds.networks import (
    Network,
    NetworkAccess,
    NetworkPeering,
    NetworkPort,
    NetworkService,
    NetworkSpec,
    Tenant,
)
from hanse.model.objects import K, Meta, Object
from tests.support.federation import install_crds
from tests.support.scenario import Check, Scenario

HERE = "lubeck"
"""Networks belong to one cluster, so scenarios use a single one."""

OURS: tuple[type[Object], ...] = (
    Tenant,
    Network,
    NetworkPeering,
    NetworkPort,
    NetworkAccess,
)


class _Impersonating:
    """A transport that impersonates a user."""

    def __init__(self, inner: Transport, user: str) -> None:
        self._inner = inner
        self._headers = (("Impersonate-User", user),)

    async def send(self, request: Request) -> Response:
        return await self._inner.send(self._impersonated(request))

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(self._impersonated(request))

    async def close(self) -> None:
        await self._inner.close()

    def _impersonated(self, request: Request) -> Request:
        return replace(request, headers=(*request.headers, *self._headers))


class NetworksScenario:
    """Tenants of one cluster, by names of the scenario's own."""

    def __init__(self, scenario: Scenario, number: int) -> None:
        self.scenario = scenario
        self.number = number
        self.tenants: list[str] = []
        self.roles: list[str] = []

    @property
    def admin(self) -> Client:
        return self.scenario.admin(HERE)

    async def tenant_client(self, user: str = "anna") -> Client:
        """A client of a user who may write everything and is no administrator.

        An API server knows of a binding a moment after it was created.
        """
        await self._bind_cluster_role(user)
        transport = _Impersonating(self.scenario.testbed.connect(HERE), user)
        self.scenario.closing.push_async_callback(transport.close)
        client = Client(transport, field_manager=user)
        await self.scenario.eventually(lambda: client.read(Namespace, "default"))
        return client

    async def _bind_cluster_role(self, user: str) -> None:
        """Bind a user to a ClusterRole that allows everything."""
        name = f"{self.scenario.namespace}-{user}-{self.number}"
        self.roles.append(name)
        group = "rbac.authorization.k8s.io"
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        role = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [everything],
        }
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
        }
        for plural, wire in (("clusterroles", role), ("clusterrolebindings", binding)):
            body = msgspec.json.encode(wire)
            await self.admin.send(Request("POST", f"/apis/{group}/v1/{plural}", body=body))

    async def webhook_is_called(self) -> None:
        """That the API server calls the agent's webhook: an invalid network is denied."""
        ranges = NetworkService(cidrs=("10.0.0.0/24", "10.0.0.0/25"))
        spec = NetworkSpec(type="flat", tenant="nobody", service=ranges)
        bad = Network(metadata=Meta(name="nobody.x"), spec=spec)
        observed = await refusal(self.admin.create(bad, dry_run=True))
        assert "keep ranges apart" in observed, observed

    def tenant(self, name: str = "acme") -> str:
        """A tenant's name that no other scenario has."""
        return f"{name}{self.scenario.namespace[-4:]}{self.number}"

    async def open(self) -> None:
        """Install the CRDs of tenant networks."""
        await install_crds(self.scenario, HERE, *OURS)

    async def install_crds(self, *kinds: type[Object]) -> None:
        """Install minimal CRDs of third-party kinds."""
        await install_crds(self.scenario, HERE, *kinds)

    async def close(self) -> None:
        """Leave nothing behind for the next scenario: networks go without their finalizer."""
        for name in self.roles:
            for plural in ("clusterroles", "clusterrolebindings"):
                await self._removed(f"/apis/rbac.authorization.k8s.io/v1/{plural}/{name}")
        for name in self.tenants:
            await self._gone(Tenant, name)
        for network in (await self.admin.list(Network)).objects:
            if network.spec.tenant in self.tenants:
                await self._gone(Network, network.metadata.name)
                await self._remove_finalizers(network.metadata.name)
        spaces = (await self.admin.list(Namespace)).objects
        for space in spaces:
            if space.metadata.labels.get(TENANT) in self.tenants:
                await self._gone(Namespace, space.metadata.name)
        await self._delete_ports()
        for cidr in (await self.admin.list(ServiceCIDR)).objects:
            if any(cidr.metadata.name.startswith(f"{tenant}.") for tenant in self.tenants):
                await self._gone(ServiceCIDR, cidr.metadata.name)

    async def _delete_ports(self) -> None:
        for port in (await self.admin.list(NetworkPort)).objects:
            if port.spec.network.partition(".")[0] in self.tenants:
                await self._gone(NetworkPort, port.metadata.name)

    async def clean_up(self) -> None:
        """Remove what an agent keeps for all scenarios."""
        for path in self._leftovers():
            await self._removed(path)

    async def _removed(self, path: str) -> None:
        try:
            await self.admin.send(Request("DELETE", path))
        except NotFound:
            return

    def _leftovers(self) -> Iterator[str]:
        admission = "/apis/admissionregistration.k8s.io/v1"
        for kind in ("mutating", "validating"):
            yield f"{admission}/{kind}webhookconfigurations/hanse-webhooks"
        for name in POLICIES:
            yield f"{admission}/validatingadmissionpolicies/{name}"
            yield f"{admission}/validatingadmissionpolicybindings/{name}"

    async def _gone(self, kind: type[Object], name: str) -> None:
        try:
            await self.admin.delete(kind, name, "")
        except NotFound:
            return

    async def _remove_finalizers(self, name: str) -> None:
        try:
            await self.admin.patch(Network, name, "", {"metadata": {"finalizers": None}})
        except NotFound:
            return

    # -- actions

    async def create_tenant(self, name: str = "acme", **spec: Any) -> str:
        """Create a tenant; returns its name."""
        tenant = self.tenant(name)
        self.tenants.append(tenant)
        wire = {"metadata": {"name": tenant}, "spec": spec}
        await self.admin.create(msgspec.convert(wire, Tenant))
        return tenant

    async def create_namespace(self, tenant: str, name: str = "web") -> str:
        """Create a namespace of a tenant."""
        title = f"{tenant}-{name}"
        meta = Meta(name=title, labels={TENANT: tenant})
        await self.admin.create(Namespace(metadata=meta))
        return title

    async def create_network(
        self, tenant: str, network: str, type_: str = "flat", **spec: Any
    ) -> str:
        """Create a network; returns its full name."""
        name = f"{tenant}.{network}"
        wire = {"metadata": {"name": name}, "spec": {"type": type_, "tenant": tenant, **spec}}
        await self.admin.create(msgspec.convert(wire, Network))
        return name

    async def create_pod(self, space: str, name: str, network: str = "", **spec: Any) -> Pod:
        """Create a pod, with the labels that the webhook would set."""
        labels = {"app": name}
        if network:
            labels |= {NETWORK: network, TENANT: space.rpartition("-")[0]}
        notes = spec.pop("annotations", {})
        wire = {
            "metadata": {"name": name, "namespace": space, "labels": labels, "annotations": notes},
            "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
        }
        return await self.admin.create(msgspec.convert(wire, Pod))

    async def edit(self, kind: type[K], name: str, change: dict[str, Any], space: str = "") -> K:
        return await self.admin.patch(kind, name, space, change)

    # -- checks

    async def found(self, kind: type[K], name: str, space: str = "") -> K | None:
        try:
            return await self.admin.read(kind, name, space)
        except NotFound:
            return None

    def has_phase(self, network: str, phase: str, message: str = "") -> Check[Network]:
        """That a network has a phase, with a message."""

        async def check() -> Network:
            found = await self.admin.read(Network, network)
            observed = f"{network} is {found.status.phase}: {found.status.message}"
            assert found.status.phase == phase, observed
            assert message in found.status.message, observed
            return found

        return check

    def gone(self, kind: type[Object], name: str, space: str = "") -> Check[None]:
        async def check() -> None:
            found = await self.found(kind, name, space)
            assert found is None, f"{kind.kind} {name} is still there: {found}"

        return check

    def there(self, kind: type[K], name: str, space: str = "") -> Check[K]:
        async def check() -> K:
            found = await self.found(kind, name, space)
            assert found is not None, f"there is no {kind.kind} {space}/{name}"
            return found

        return check

    def policies(self, space: str, *names: str) -> Check[list[NetworkPolicy]]:
        """That a namespace has exactly these policies."""

        async def check() -> list[NetworkPolicy]:
            found = (await self.admin.list(NetworkPolicy, namespace=space)).objects
            observed = sorted(p.metadata.name for p in found)
            assert observed == sorted(names), f"{space} has {observed}"
            return list(found)

        return check

    async def dns_of(self, network: str) -> Service:
        tenant, _, short = network.partition(".")
        name = NetworkName(tenant, short)
        return await self.admin.read(Service, name.kube_dns, name.dns_namespace)


async def refusal(attempt: Any) -> str:
    """The error message of a request, which must be refused."""
    try:
        await attempt
    except KubeError as error:
        return str(error)
    raise AssertionError("it was allowed")


def made(kind: type[K], name: str, space: str = "", **fields: Any) -> K:
    """An object by its fields; labels and annotations go to the metadata."""
    metadata = {"name": name, "namespace": space}
    for part in ("labels", "annotations"):
        if part in fields:
            metadata[part] = fields.pop(part)
    return msgspec.convert({"metadata": metadata, **fields}, kind)
