"""A tenant's administrator with every right that RBAC can give attacks other tenants.

Each attack is refused by the API server: with agents running, and by admission policies alone.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from hanse.features.networks.names import DNS, NETWORK, TENANT
from hanse.kube.client import Client
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networks import Network, NetworkAccess, NetworkPort, Tenant
from hanse.model.kinds.rbac import RbacRole
from hanse.model.objects import Object
from tests.scenarios.networks import NetworksScenario, made, refusal
from tests.scenarios.test_networks_tenants import POD, two_tenants

PORTS = {"ports": [{"port": 80}]}
SECURITY = "pod-security.kubernetes.io/enforce"


class Attacker:
    """An administrator of one tenant, and the names of the other's things."""

    def __init__(self, client: Client, space: str, other: str) -> None:
        self.client = client
        self.space, self.other = space, other
        self.own, self.victim = (s.removesuffix("-web") for s in (space, other))

    def creations(self) -> Iterator[tuple[str, Object]]:
        """New objects, each with what refuses it."""
        spec = {**POD, "hostNetwork": True}
        yield "hostNetwork", made(Pod, "host", self.space, spec=spec)
        taken = {TENANT: self.victim, NETWORK: "default"}
        yield "tenant", made(Pod, "forged", self.space, labels=taken, spec=POD)
        yield "tenant", made(Service, "forged", self.space, labels=taken, spec=PORTS)
        for address in ("10.0.0.1", "192.0.2.7"):
            exposed = {**PORTS, "externalIPs": [address]}
            yield "externalIPs", made(Service, "redirect", self.space, spec=exposed)
        yield from self._squatters()
        yield "tenants", made(Tenant, "mine")
        subject = {"networks": ["*"], "to": [{"cidr": "0.0.0.0/0"}]}
        yield "networkaccesses", made(NetworkAccess, "all", spec=subject)
        port: dict[str, Any] = {
            "network": f"{self.victim}.default",
            "subnet": "a",
            "address": "10.0.0.9",
        }
        port |= {"mac": "02:00:00:00:00:01", "pod": {"namespace": "a", "name": "b", "uid": "c"}}
        yield "networkports", made(NetworkPort, "x", spec=port)
        yield "whose a namespace is", made(Namespace, "grab", labels={TENANT: self.victim})

    def _squatters(self) -> Iterator[tuple[str, Object]]:
        reserved = "kube-dns-* and kubernetes-*"
        home, system = f"{self.own}-default", f"{self.own}-kube-system"
        yield reserved, made(Service, "kube-dns-next", system, spec=PORTS)
        yield reserved, made(Service, "kubernetes-next", home, spec=PORTS)
        yield reserved, made(RbacRole, "kube-dns-next", self.space)
        labels = {"kubernetes.io/service-name": "kubernetes-default"}
        endpoints = [{"addresses": ["192.0.2.1"]}]
        more = {"addressType": "IPv4", "endpoints": endpoints}
        yield reserved, made(EndpointSlice, "joined", home, labels=labels, **more)

    def changes(self) -> Iterator[tuple[str, type[Object], str, str, dict[str, Any], str]]:
        """Changes of what is there: what refuses it, the object, the patch, the subresource."""
        for name in (TENANT, NETWORK, DNS):
            labels = {"metadata": {"labels": {name: "stolen"}}}
            for subresource in ("", "status"):
                yield "cannot be changed", Pod, "web", self.space, labels, subresource
            yield "cannot be changed", Service, "web", self.space, labels, ""
        balancer = {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
        yield "status", Service, "web", self.space, balancer, "status"
        privileged = {"metadata": {"labels": {SECURITY: "privileged"}}}
        yield SECURITY, Namespace, f"{self.own}-default", "", privileged, ""
        tenant = {"spec": {"admins": [{"name": "anna"}]}}
        yield "tenants", Tenant, self.victim, "", tenant, ""
        status = {"status": {"dnsServiceIP": "10.0.0.66"}}
        yield "networks", Network, f"{self.victim}.default", "", status, "status"


async def attacker(tenancy: NetworksScenario) -> Attacker:
    space, other = await two_tenants(tenancy)
    await tenancy.create_pod(space, "web", "default")
    labels = {TENANT: space.removesuffix("-web"), NETWORK: "default"}
    await tenancy.admin.create(made(Service, "web", space, labels=labels, spec=PORTS))
    return Attacker(await tenancy.tenant_client(), space, other)


async def is_refused(hostile: Attacker) -> None:
    """That every attack is refused, for the reason that it should be."""
    for why, obj in hostile.creations():
        message = await refusal(hostile.client.create(obj, dry_run=True))
        assert why in message, (type(obj).kind.name, message)
    for why, kind, name, space, change, subresource in hostile.changes():
        patch = hostile.client.patch(kind, name, space, change, subresource=subresource)
        message = await refusal(patch)
        assert why in message, (kind.kind.name, change, message)


async def test_attacks_are_refused_while_agents_run(guarded: NetworksScenario) -> None:
    hostile = await attacker(guarded)

    await guarded.scenario.eventually(lambda: is_refused(hostile))

    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD, "hostNetwork": True}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = made(Deployment, "host", hostile.space, spec=spec)
    assert "hostNetwork" in await refusal(hostile.client.create(deployment))


@pytest.mark.needs("vap")
async def test_attacks_are_refused_by_policies_alone(tenancy: NetworksScenario) -> None:
    hostile = await attacker(tenancy)

    await tenancy.scenario.eventually(lambda: is_refused(hostile))


async def test_networks_are_written_by_administrators_of_their_tenant_only(
    guarded: NetworksScenario,
) -> None:
    space, other = await two_tenants(guarded)
    acme, bolt = space.removesuffix("-web"), other.removesuffix("-web")
    await guarded.edit(Tenant, acme, {"spec": {"admins": [{"kind": "User", "name": "anna"}]}})
    anna = await guarded.tenant_client()

    async def is_admin() -> None:
        await anna.create(made(Network, f"{acme}.lab", spec={"type": "flat", "tenant": acme}))

    await guarded.scenario.eventually(is_admin)
    for attempt in (
        anna.create(made(Network, f"{bolt}.lab", spec={"type": "flat", "tenant": bolt})),
        anna.patch(Network, f"{bolt}.default", "", {"spec": {"service": {"ipam": "External"}}}),
        anna.delete(Network, f"{bolt}.default", ""),
    ):
        assert f"no administrator of tenant {bolt}" in await refusal(attempt)
    await anna.delete(Network, f"{acme}.lab", "")


async def test_what_pods_rest_on_never_changes(guarded: NetworksScenario) -> None:
    space, other = await two_tenants(guarded)
    acme, bolt = space.removesuffix("-web"), other.removesuffix("-web")
    ranges = {"cidrs": ["10.93.0.0/27"]}
    name = await guarded.create_network(acme, "own", service=ranges)
    ready = await guarded.scenario.eventually(guarded.has_phase(name, "Ready"))
    subnets = [{"name": "a", "cidr": "10.31.0.0/24"}]
    vpc = await guarded.create_network(acme, "vpc", "vpc", vpcID=f"{acme}-1", subnets=subnets)

    async def refused(network: str, spec: dict[str, Any]) -> str:
        return await refusal(guarded.admin.patch(Network, network, "", {"spec": spec}))

    moved = {"service": {"cidrs": ["10.94.0.0/27"]}}

    async def in_use() -> None:
        assert "10.93.0.0/27 is in use" in await refused(name, moved)

    await guarded.scenario.eventually(in_use)
    assert "spec.vpcID" in await refused(vpc, {"vpcID": "another"})
    assert "spec.subnets" in await refused(vpc, {"subnets": [{"name": "a", "cidr": "10.9.0.0/24"}]})
    more = {"cidrs": ["10.94.0.0/27", *ranges["cidrs"]]}
    await guarded.edit(Network, name, {"spec": {"service": more}})
    grown = await guarded.scenario.eventually(guarded.has_phase(name, "Ready"))
    assert grown.status.dns_service_ip == ready.status.dns_service_ip
    taken = {"type": "vpc", "tenant": bolt, "vpcID": f"{acme}-1"}
    shared = made(Network, f"{bolt}.vpc", spec=taken)
    assert f"is of tenant {acme}" in await refusal(guarded.admin.create(shared))
    await guarded.scenario.eventually(guarded.has_phase(vpc, "Ready"))
    pinned = {**POD, "nodeName": "lubeck-node-1"}
    pod = made(Pod, "pinned", space, labels={NETWORK: "vpc"}, spec=pinned)
    assert "spec.nodeName" in await refusal(guarded.admin.create(pod))


async def test_labels_outside_of_a_tenants_namespaces_keep_no_network(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    name = await tenancy.create_network(acme, "lab")
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    labels = {TENANT: acme, NETWORK: "lab"}
    plain = tenancy.scenario.namespace
    await tenancy.admin.create(made(Pod, f"{acme}-squatter", plain, labels=labels, spec=POD))

    await tenancy.admin.delete(Network, name, "")

    await tenancy.scenario.eventually(tenancy.gone(Network, name))
