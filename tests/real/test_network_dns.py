"""The names of a tenant network: our DNS server and CoreDNS return the same."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode
import pytest

from hanse.cli.manifests.network_dns import network_dns_files
from hanse.cli.manifests.value_source import PlainValues
from hanse.cli.manifests.values import Values
from hanse.features.networks.dns_server import render_corefile
from hanse.features.networks.feature import Networks
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.features.networks.options import NetworksOptions
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, StaticCredentials
from hanse.kube.errors import Forbidden
from hanse.kube.http_transport import HttpTransport
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import COREDNS_SERVER
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Namespace, Pod, Secret, Service
from hanse.model.kinds.discovery import EndpointSlice
from tests.scenarios.networks import HERE, NetworksScenario, made
from tests.support.ports import free_ports
from tests.support.scenario import Check, Scenario
from tests.support.service_accounts import Account, grant
from tests.support.testbed_kubernetes import kubernetes_testbed

READ = ["list", "watch"]
Resolve = Callable[[str], Awaitable[set[str]]]
DOMAIN = "cluster.local"
COREDNS_RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": READ},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READ},
)
"""The cluster-wide rules of CoreDNS, as in the ClusterRole `system:coredns`."""


@pytest.fixture
async def tenancy(real_clusters: RealFleet, tmp_path: Path) -> AsyncIterator[NetworksScenario]:
    agent = f"system:serviceaccount:named-city-system:agent-of-{HERE}"
    options = NetworksOptions(agents=(agent,))
    async with (
        kubernetes_testbed(real_clusters, tmp_path) as testbed,
        Scenario(testbed, "named-city", lambda: (Networks(options),)) as scenario,
    ):
        tenancy = NetworksScenario(scenario, 7)
        await tenancy.open()
        await scenario.start_agent(HERE)
        yield tenancy
        await scenario.kill_agent(HERE)
        await tenancy.close()
        await tenancy.clean_up()


def dns_client(port: int, source: str = "127.0.0.1") -> Resolve:
    async def ask(name: str) -> set[str]:
        query = dns.message.make_query(f"{name}.{DOMAIN}", "A")
        try:
            answer = await dns.asyncquery.udp(
                query, "127.0.0.1", timeout=2, port=port, source=source
            )
        except (dns.exception.Timeout, OSError) as error:
            raise AssertionError(f"no answer: {error}") from None
        if answer.rcode() != dns.rcode.NOERROR:
            return {dns.rcode.to_text(answer.rcode())}
        return {record.to_text() for group in answer.answer for record in group}

    return ask


@asynccontextmanager
async def _run_server(command: Sequence[str], folder: Path, port: int) -> AsyncIterator[Resolve]:
    with (folder / f"dns-{port}.log").open("wb") as result:
        process = await asyncio.create_subprocess_exec(*command, stdout=result, stderr=result)
    try:
        yield dns_client(port)
    finally:
        process.terminate()
        await process.wait()


async def dns_kubeconfig(
    fleet: RealFleet, name: NetworkName, folder: Path, *more: dict[str, Any]
) -> tuple[Path, ClientConfig]:
    """A kubeconfig for the account that the agent created for a network's DNS server."""
    cluster = fleet.clusters[HERE]
    account = Account(name.kube_dns, name.dns_namespace, everywhere=more)
    admin = HttpTransport(StaticCredentials(cluster.access))
    try:
        access = await grant(admin, cluster.access, account)
    finally:
        await admin.close()
    file = folder / f"{name}-{len(more)}.kubeconfig"
    write_kubeconfig(file, [Context(HERE, access, name.kube_dns)])
    return file, access


@asynccontextmanager
async def coredns(
    fleet: RealFleet, tenancy: NetworksScenario, name: NetworkName, folder: Path
) -> AsyncIterator[Resolve]:
    """CoreDNS with the generated Corefile and the RBAC rules that it needs."""
    program = (await find_or_build((COREDNS_SERVER,), cache_folder()))[COREDNS_SERVER.name]
    [port] = free_ports(1)
    namespaces = [
        s.metadata.name
        for s in (await tenancy.admin.list(Namespace)).objects
        if s.metadata.labels.get(TENANT) == name.tenant
    ]
    text = render_corefile(name, DOMAIN, namespaces)
    kubeconfig, _ = await dns_kubeconfig(fleet, name, folder, *COREDNS_RULES)
    tenancy.roles.append(f"{name.dns_namespace}:{name.kube_dns}")
    where = f"        kubeconfig {kubeconfig} {HERE}\n        pods verified\n"
    local = text.replace(".:53 {", f".:{port} {{\n    bind 127.0.0.1")
    local = local.replace("        pods verified\n", where)
    kept = [
        line
        for line in local.splitlines()
        if line.strip().split(" ")[0] not in ("health", "ready", "forward", "loop", "reload")
    ]
    file = folder / "Corefile"
    file.write_text("\n".join(kept) + "\n")
    async with _run_server((str(program), "-conf", str(file)), folder, port) as ask:
        yield ask


@asynccontextmanager
async def hanse_dns(
    fleet: RealFleet, tenancy: NetworksScenario, name: NetworkName, folder: Path
) -> AsyncIterator[Resolve]:
    """Our server with the command and account of the deployment that the agent created."""
    [port] = free_ports(1)
    kubeconfig, access = await dns_kubeconfig(fleet, name, folder)
    await _check_tenant_isolation(access, name)
    deployed = await tenancy.admin.read(Deployment, name.kube_dns, name.dns_namespace)
    arguments = deployed.spec.template["spec"]["containers"][0]["args"]
    command, listening = arguments[: arguments.index("--listen")], ("--listen", f"127.0.0.1:{port}")
    program = (sys.executable, "-c", "from hanse.cli import main; main()")
    where = ("--kubeconfig", str(kubeconfig), "--workers", "1")
    async with _run_server((*program, *command, *where, *listening), folder, port) as ask:
        yield ask


async def _check_tenant_isolation(access: ClientConfig, name: NetworkName) -> None:
    transport = HttpTransport(StaticCredentials(access))
    try:
        account = Client(transport)
        await account.list(Service, namespace=name.dns_namespace)
        for space in ("default", ""):
            with pytest.raises(Forbidden):
                await account.list(Service, namespace=space)
        with pytest.raises(Forbidden):
            await account.list(Secret, namespace=name.dns_namespace)
    finally:
        await transport.close()


async def test_both_servers_resolve_the_network_and_no_other(
    real_clusters: RealFleet, tenancy: NetworksScenario, tmp_path: Path
) -> None:
    acme = await tenancy.create_tenant()
    lab = NetworkName(acme, "lab")
    space = await tenancy.create_namespace(acme)
    await tenancy.create_network(acme, "lab")
    await tenancy.scenario.eventually(tenancy.has_phase(str(lab), "Ready"))
    marks = {TENANT: acme, NETWORK: "lab"}
    ports = {"ports": [{"name": "http", "port": 80}]}
    web = await tenancy.admin.create(made(Service, "web", space, labels=marks, spec=ports))
    there = {"type": "ExternalName", "externalName": f"web.{space}.svc.{DOMAIN}"}
    await tenancy.admin.create(made(Service, "alias", space, labels=marks, spec=there))
    other = {TENANT: acme, NETWORK: "default"}
    await tenancy.admin.create(made(Service, "secret", space, labels=other, spec=ports))
    headless = {**ports, "clusterIP": "None"}
    await tenancy.admin.create(made(Service, "db", space, labels=marks, spec=headless))
    endpoint_slice = {
        "labels": {**marks, "kubernetes.io/service-name": "db"},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80}],
        "endpoints": [{"addresses": ["10.9.8.7"], "hostname": "db-0"}],
    }
    await tenancy.admin.create(made(EndpointSlice, "db-1", space, **endpoint_slice))
    await tenancy.create_pod(space, "worker", "lab")
    pod = await tenancy.scenario.eventually(_pod_ip(tenancy, space))
    alias = await tenancy.admin.read(Service, lab.kubernetes, lab.alias_namespace)
    dns_of = await tenancy.admin.read(Service, lab.kube_dns, lab.dns_namespace)
    expected = {
        f"web.{space}.svc": {web.spec.cluster_ip},
        f"alias.{space}.svc": {f"web.{space}.svc.{DOMAIN}.", web.spec.cluster_ip},
        f"secret.{space}.svc": {"NXDOMAIN"},
        f"db.{space}.svc": {"10.9.8.7"},
        f"db-0.db.{space}.svc": {"10.9.8.7"},
        "kubernetes.default.svc": {alias.spec.cluster_ip},
        "kube-dns.kube-system.svc": {dns_of.spec.cluster_ip},
        f"{pod.replace('.', '-')}.{space}.pod": {pod},
        f"10-1-2-3.{space}.pod": {"NXDOMAIN"},
        "kubernetes.kube-system.svc": {"NXDOMAIN"},
    }
    await tenancy.scenario.settled()

    for server in (hanse_dns, coredns):
        async with server(real_clusters, tenancy, lab, tmp_path) as ask:
            await tenancy.scenario.eventually(_answers(ask, expected))
            if server is hanse_dns:
                await _follows_a_new_namespace(ask, tenancy, lab)


async def _follows_a_new_namespace(
    ask: Resolve, tenancy: NetworksScenario, lab: NetworkName
) -> None:
    """The very process answers names of a namespace that the tenant gets now."""
    before = await tenancy.admin.read(Deployment, lab.kube_dns, lab.dns_namespace)
    space = await tenancy.create_namespace(lab.tenant, "later")
    ports = {"ports": [{"name": "http", "port": 80}]}
    marks = {TENANT: lab.tenant, NETWORK: lab.network}
    web = await tenancy.admin.create(made(Service, "web", space, labels=marks, spec=ports))

    await tenancy.scenario.eventually(
        _answers(ask, {f"web.{space}.svc": {web.spec.cluster_ip}, "none.default.svc": {"NXDOMAIN"}})
    )
    after = await tenancy.admin.read(Deployment, lab.kube_dns, lab.dns_namespace)
    assert after.metadata.generation == before.metadata.generation


async def test_the_shared_server_answers_each_client_from_its_own_network(
    real_clusters: RealFleet, tenancy: NetworksScenario, tmp_path: Path
) -> None:
    """With the rights of the chart; clients are pods by the loopback addresses they ask from."""
    acme, bolt = [await tenancy.create_tenant(name) for name in ("ajax", "brig")]
    pods: dict[str, str] = {}
    names: dict[str, str] = {}
    for number, tenant in enumerate((acme, bolt)):
        space = await tenancy.create_namespace(tenant)
        await tenancy.scenario.eventually(tenancy.has_phase(f"{tenant}.default", "Ready"))
        marks = {TENANT: tenant, NETWORK: "default"}
        ports = {"ports": [{"name": "http", "port": 80}]}
        web = await tenancy.admin.create(made(Service, "web", space, labels=marks, spec=ports))
        pods[tenant], names[tenant] = f"127.0.7.{number + 1}", f"web.{space}.svc"
        names[web.spec.cluster_ip] = names[tenant]
        await _create_pod_at(tenancy, space, pods[tenant])
    kubeconfig = await _shared_kubeconfig(real_clusters, tmp_path)
    [port] = free_ports(1)
    program = (sys.executable, "-c", "from hanse.cli import main; main()", "dns", "--networks")
    where = ("--kubeconfig", str(kubeconfig), "--workers", "2", "--listen", f"127.0.0.1:{port}")
    address = {name: ip for ip, name in names.items() if ip not in (acme, bolt)}

    async with _run_server((*program, *where), tmp_path, port):
        for tenant, other in ((acme, bolt), (bolt, acme)):
            ask = dns_client(port, pods[tenant])
            own = {names[tenant]: {address[names[tenant]]}, names[other]: {"NXDOMAIN"}}
            await tenancy.scenario.eventually(_answers(ask, own))
        stranger = dns_client(port, "127.0.7.9")
        await tenancy.scenario.eventually(
            _answers(stranger, {name: {"REFUSED"} for name in (names[acme], names[bolt])})
        )
        await tenancy.admin.delete(Pod, "client", f"{acme}-web")
        gone = dns_client(port, pods[acme])
        await tenancy.scenario.eventually(_answers(gone, {names[acme]: {"REFUSED"}}))


async def _create_pod_at(tenancy: NetworksScenario, space: str, address: str) -> None:
    """A pod that nobody schedules, with an address."""
    await tenancy.create_pod(space, "client", "default", schedulingGates=[{"name": "tests/held"}])
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    await tenancy.admin.patch(Pod, "client", space, {"status": status}, subresource="status")


async def _shared_kubeconfig(fleet: RealFleet, folder: Path) -> Path:
    """A kubeconfig of an account that has the rights of the chart's shared server, and no more."""
    cluster = fleet.clusters[HERE]
    files = {file.name: file for file in network_dns_files()}
    objects = files["network-dns-rights"].objects(PlainValues(Values()))
    rules = [rule for one in objects if one["kind"] == "ClusterRole" for rule in one["rules"]]
    admin = HttpTransport(StaticCredentials(cluster.access))
    try:
        account = Account("shared-dns", "default", everywhere=tuple(rules))
        access = await grant(admin, cluster.access, account)
    finally:
        await admin.close()
    file = folder / "shared.kubeconfig"
    write_kubeconfig(file, [Context(HERE, access, "shared-dns")])
    return file


def _pod_ip(tenancy: NetworksScenario, space: str) -> Check[str]:
    async def check() -> str:
        pod = await tenancy.admin.read(Pod, "worker", space)
        assert pod.status.pod_ip, "no address yet"
        return pod.status.pod_ip

    return check


def _answers(ask: Resolve, expected: dict[str, set[str]]) -> Check[None]:
    async def check() -> None:
        answers = {name: await ask(name) for name in expected}
        assert answers == expected

    return check
