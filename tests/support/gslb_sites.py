"""Global load balancing in a scenario: contexts, leaders, policies and ingresses."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec.structs import replace

from hanse.app.name_server import Judgement
from hanse.features.gslb.manifests import leader_rights
from hanse.features.gslb.names import SECRET, SECRET_KEY
from hanse.features.gslb.zone import GlobalZone
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.kube.transport import Request
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import Secret
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    AMKOClusterSpec,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBConfigSpec,
    GSLBHostRule,
    MemberCluster,
)
from hanse.model.objects import ClusterId, Meta, Object, Wire
from hanse.model.probes import ProbeTarget
from hanse.model.rbac import rbac_rules
from hanse.providers.probe_sockets import NO_ANSWER
from hanse.providers.probes import ProbeFunction
from tests.support.agent_accounts import account_with
from tests.support.federation import create_or_patch, install_crds
from tests.support.name_server import ScenarioNameServer
from tests.support.scenario import Check, Scenario
from tests.support.service_accounts import grant

VERSION = "1.5.1"
LABELS = {"app": "gslb"}
ROUNDS = 12
"""Enough queries for every address to be answered in rotation."""
ZONE = "global.test"
HOST = f"shop.{ZONE}"
KINDS: tuple[type[Object], ...] = (
    AMKOCluster,
    GSLBConfig,
    GlobalDeploymentPolicy,
    GSLBHostRule,
    GlobalService,
)


class FakeHosts:
    """Addresses that are up or down, for who probes without sockets; some may be cut off."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.cut_off: set[str] = set()
        """Clusters whose name servers reach no address."""

    def seen_from(self, cluster: ClusterId) -> ProbeFunction:
        """The probes of a cluster's name server."""

        def probe(target: ProbeTarget, timeout: float, done: Callable[[str], None], /) -> None:
            if cluster in self.cut_off:
                asyncio.get_running_loop().call_later(timeout, done, NO_ANSWER)
            else:
                self(target, timeout, done)

        return probe

    def __call__(
        self,
        target: ProbeTarget,
        timeout: float,
        done: Callable[[str], None],
        /,
    ) -> None:
        wrong = "Connection refused" if target.address in self.down else ""
        asyncio.get_running_loop().call_soon(done, wrong)


class Names:
    """Host names that have addresses, for agents that look them up; who is silent fails."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}
        self.silent = False

    async def __call__(self, *, host: str) -> Wire:
        if self.silent:
            raise OSError(f"{host} could not be looked up: nobody answers")
        return {"addresses": self.addresses.get(host, []), "ttl": 5}


class GslbScenario:
    """A GSLB federation of all clusters of a scenario; contexts are named by cluster."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.members = scenario.names
        self.hosts = FakeHosts()
        scenario.attempt = self.hosts
        self.names = Names()
        scenario.lookup = self.names
        self.regions: tuple[tuple[str, str], ...] = ()
        self.name_servers: dict[ClusterId, ScenarioNameServer] = {}
        self._served: set[tuple[ClusterId, str]] = set()
        """The namespaces in which hosts are served, by cluster."""
        self._folder: TemporaryDirectory[str] | None = None

    def admin(self, cluster: ClusterId) -> Client:
        return self.scenario.admin(cluster)

    async def form(self, leader: ClusterId = "lubeck") -> None:
        """Create the objects that an administrator creates, in every cluster; one leads."""
        for cluster in self.members:
            await install_crds(self.scenario, cluster, *KINDS)
            await self.scenario.make_namespace(cluster, NAMESPACE, keep=True)
        secret = await self.contexts(*self.members)
        for cluster in self.members:
            await create_or_patch(self.admin(cluster), secret)
            await self.amko(cluster, leads=cluster == leader)
        await create_or_patch(self.admin(leader), self.config())

    async def start_names(self, cluster: ClusterId) -> None:
        """Start the name server of a cluster, as `hanse dns` does, or restart it."""
        await self.stop_names(cluster)
        view = View(cluster, cluster, global_zones=(ZONE,), regions=self.regions)
        account = account_with(
            rbac_rules(GlobalZone.watches, Role.LOCAL), f"dns-{cluster}", self.scenario.system
        )
        inner = await self.scenario.testbed.agent_transport(account, cluster)
        transport = self.scenario.network.transport(f"dns-{cluster}", cluster, inner)
        self._folder = self._folder or TemporaryDirectory()
        judgement = Judgement(self.hosts.seen_from(cluster), Path(self._folder.name) / cluster)
        names = ScenarioNameServer(view, transport, self.scenario.clock_of(cluster), judgement)
        self.name_servers[cluster] = names

    async def stop_names(self, cluster: ClusterId) -> None:
        if (running := self.name_servers.pop(cluster, None)) is not None:
            await running.stop()

    async def clear(self) -> None:
        """Leave nothing behind for the next scenario.

        Ingresses are deleted by themselves: a namespace of a real cluster may terminate for so
        long that the next scenario would find its hosts served.
        """
        for cluster in list(self.name_servers):
            await self.stop_names(cluster)
        if self._folder is not None:
            self._folder.cleanup()
        for cluster, space in self._served:
            path = f"/apis/networking.k8s.io/v1/namespaces/{space}/ingresses"
            with suppress(NotFound):
                await self.admin(cluster).send(Request("DELETE", path))
        for cluster in self.members:
            for kind in KINDS:
                path = f"/apis/{kind.kind.api_version}/namespaces/{NAMESPACE}/{kind.kind.plural}"
                with suppress(NotFound):
                    await self.admin(cluster).send(Request("DELETE", path))
            with suppress(NotFound):
                await self.admin(cluster).delete(Secret, SECRET, NAMESPACE)
            path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
            await self.admin(cluster).send(Request("DELETE", path))

    # -- actions

    async def contexts(
        self,
        *clusters: ClusterId,
        broken: Sequence[ClusterId] = (),
        lifetime: timedelta = timedelta(hours=24),
    ) -> Secret:
        """The Secret with a kubeconfig of all clusters, with a leader's RBAC rules."""
        named = [await self._context(c, lifetime, broken=c in broken) for c in clusters]
        kubeconfig = {
            "clusters": [{"name": n, "cluster": cluster} for n, cluster, _ in named],
            "users": [{"name": n, "user": user} for n, _, user in named],
            "contexts": [{"name": n, "context": {"cluster": n, "user": n}} for n, _, _ in named],
        }
        text = msgspec.json.encode(kubeconfig)  # which is YAML, too
        return Secret(metadata=Meta(name=SECRET, namespace=NAMESPACE), data={SECRET_KEY: text})

    async def _context(
        self, cluster: ClusterId, lifetime: timedelta, *, broken: bool
    ) -> tuple[str, Wire, Wire]:
        testbed = self.scenario.testbed
        watches = [w for feature in self.scenario.features() for w in feature.watches]
        account = account_with(leader_rights("gslb-leader", watches), cluster, NAMESPACE)
        account = replace(account, name="gslb-leader")
        transport = testbed.connect(cluster)
        try:
            access = await grant(
                transport, ClientConfig(testbed.endpoint(cluster)), account, lifetime
            )
        finally:
            await transport.close()
        ca = b64encode(access.endpoint.ca).decode()
        where = {"server": access.endpoint.url, "certificate-authority-data": ca}
        user: Wire = {"token": access.identity.token}
        return cluster, where, {"exec": {"command": "x", "apiVersion": "v1"}} if broken else user

    async def amko(self, cluster: ClusterId, *, leads: bool = False, **spec: Any) -> None:
        """Let a cluster have its word on who leads."""
        said = AMKOClusterSpec(
            is_leader=leads, cluster_context=cluster, version=VERSION, clusters=self.members
        )
        meta = Meta(name="amkocluster", namespace=NAMESPACE)
        await create_or_patch(
            self.admin(cluster), AMKOCluster(metadata=meta, spec=replace(said, **spec))
        )

    async def lead(self, cluster: ClusterId, leads: bool = True) -> None:
        """Make a cluster leader, or a follower, as the seed's `kubectl edit` does."""
        change = {"spec": {"isLeader": leads}}
        await self.admin(cluster).patch(AMKOCluster, "amkocluster", NAMESPACE, change)

    def config(self, name: str = "gc-1", controller: str = "") -> GSLBConfig:
        members = tuple(MemberCluster(cluster_context=c) for c in self.members)
        spec = GSLBConfigSpec(member_clusters=members)
        if controller:
            spec = replace(spec, gslb_leader=replace(spec.gslb_leader, controller_ip=controller))
        return GSLBConfig(metadata=Meta(name=name, namespace=NAMESPACE), spec=spec)

    async def policy(self, cluster: ClusterId, name: str = "gdp", **spec: Any) -> None:
        """Create the policy that chooses all that is labelled, or change it."""
        body = {
            "matchRules": {"appSelector": {"label": LABELS}},
            "matchClusters": [{"cluster": c} for c in self.members],
            **spec,
        }
        await self._put(cluster, GlobalDeploymentPolicy, name, body)

    async def rule(self, cluster: ClusterId, name: str = "rule", **spec: Any) -> None:
        """Create a rule for the scenario's host, or change it."""
        await self._put(cluster, GSLBHostRule, name, {"fqdn": HOST, **spec})

    async def _put(self, cluster: ClusterId, kind: type[Object], name: str, spec: Wire) -> None:
        wire = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        await create_or_patch(self.admin(cluster), msgspec.convert(wire, kind))

    async def serve(
        self,
        cluster: ClusterId,
        address: str,
        host: str = HOST,
        name: str = "web",
        namespace: str = "",
    ) -> None:
        """Make an Ingress of a host that is reached at an address, or at a name."""
        space = namespace or self.scenario.namespace
        self._served.add((cluster, space))
        path = f"/apis/networking.k8s.io/v1/namespaces/{space}/ingresses"
        backing = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{name}-backend", "namespace": space},
            "spec": {"ports": [{"port": 80}]},
        }
        with suppress(AlreadyExists):
            services = f"/api/v1/namespaces/{space}/services"
            await self.admin(cluster).send(
                Request("POST", services, body=msgspec.json.encode(backing))
            )
        backend = {"service": {"name": f"{name}-backend", "port": {"number": 80}}}
        paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
        body = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": name, "namespace": space, "labels": LABELS},
            "spec": {"rules": [{"host": host, "http": {"paths": paths}}]},
        }
        admin = self.admin(cluster)
        await admin.send(Request("POST", path, body=msgspec.json.encode(body)))
        field = "ip" if address[-1].isdigit() else "hostname"
        status = {"status": {"loadBalancer": {"ingress": [{field: address}]}}}
        await admin.send(
            Request(
                "PATCH",
                f"{path}/{name}/status",
                body=msgspec.json.encode(status),
                content_type="application/merge-patch+json",
            )
        )

    async def stop_serving(self, cluster: ClusterId, name: str = "web") -> None:
        space = self.scenario.namespace
        path = f"/apis/networking.k8s.io/v1/namespaces/{space}/ingresses/{name}"
        await self.admin(cluster).send(Request("DELETE", path))

    # -- checks

    def has_conditions(self, cluster: ClusterId, **conditions: str) -> Check[dict[str, str]]:
        """That the AMKOCluster of a cluster has these conditions, by prefix of their type."""

        async def check() -> dict[str, str]:
            observed = await self.conditions(cluster)
            for prefix, status in conditions.items():
                found = [s for t, (s, _) in observed.items() if t.startswith(prefix)]
                assert found == [status], f"{cluster} has {observed}"
            return {type_: reason for type_, (_, reason) in observed.items()}

        return check

    async def conditions(self, cluster: ClusterId) -> dict[str, tuple[str, str]]:
        """Status and reason of each condition."""
        found = await self.admin(cluster).read(AMKOCluster, "amkocluster", NAMESPACE)
        return {c.type: (c.status, c.reason) for c in found.status.conditions}

    def has(self, cluster: ClusterId, kind: type[Object], *names: str) -> Check[list[Any]]:
        """That a cluster holds exactly these objects of a kind."""

        async def check() -> list[Any]:
            listed = await self.admin(cluster).list(kind, namespace=NAMESPACE)
            found = sorted(o.metadata.name for o in listed.objects)
            assert found == sorted(names), f"{cluster} has {found}"
            return list(listed.objects)

        return check

    def answers(
        self, cluster: ClusterId, *addresses: str, host: str = HOST, client: str = "203.0.113.1"
    ) -> Check[list[str]]:
        """That a cluster's name server has exactly these addresses for a host, in turn."""

        async def check() -> list[str]:
            found = [self.ask(cluster, host, client) for _ in range(ROUNDS)]
            observed = {address for answer in found for address in answer}
            assert observed == set(addresses), f"{cluster} answers {sorted(observed)}"
            return [address for answer in found for address in answer]

        return check

    def ask(self, cluster: ClusterId, host: str = HOST, client: str = "203.0.113.1") -> list[str]:
        """One answer of a cluster's name server about a host."""
        return self.name_servers[cluster].ask(host, client).addresses


async def form_gslb(scenario: Scenario, leader: ClusterId = "lubeck") -> GslbScenario:
    """Make a GSLB federation of a scenario's clusters, deleted with it; start no agents."""
    sites = GslbScenario(scenario)
    scenario.closing.push_async_callback(sites.clear)
    await sites.form(leader)
    for cluster in sites.members:
        await sites.start_names(cluster)
    return sites
