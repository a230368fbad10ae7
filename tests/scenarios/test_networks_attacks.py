"""The administrator of a tenant, by a table of requests: none of them is allowed, agents or not."""

import asyncio
from typing import Any

import pytest

from hanse.features.networks.names import NETWORK, TENANT
from hanse.kube.client import Client
from hanse.model.kinds.core import Node, Pod, Service
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Tenant
from hanse.model.ownership import OWNER
from tests.scenarios.network_attack_table import (
    Place,
    Row,
    policy_rows,
    requests,
    webhook_rows,
)
from tests.scenarios.networks import HERE, NetworksScenario, made
from tests.scenarios.test_networks_hostile import ALLOWED, answer
from tests.scenarios.test_networks_tenants import two_tenants

RANGES = {
    "pods_on_node": "10.201.0.0/25",
    "of_node": "10.202.0.0/28",
    "of_pod": "198.51.100.0/28",
    "of_network": "10.93.0.0/24",
    "the_load_balancer_of": "10.203.0.0/28",
}
"""What a network's Services may not have, by what the refusal says."""


async def place(tenancy: NetworksScenario, *, real: bool) -> Place:
    """Two tenants with VPCs, and addresses of the cluster that are taken."""
    space, other = await two_tenants(tenancy)
    own, victim = space.removesuffix("-web"), other.removesuffix("-web")
    await tenancy.edit(Tenant, own, {"spec": {"admins": [{"kind": "User", "name": "anna"}]}})
    subnets = [{"name": "a", "cidr": "10.204.0.0/24"}]
    for tenant in (own, victim):
        vpc = {"vpcID": f"{tenant}-v", "subnets": subnets}
        name = await tenancy.create_network(tenant, "vpc", "vpc", **vpc)
        await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    await tenancy.create_network(victim, "own", service={"cidrs": ["10.93.0.0/27"]})
    node = {"podCIDR": "10.201.0.0/24", "podCIDRs": ["10.201.0.0/24"]}
    addresses = [{"type": "InternalIP", "address": "10.202.0.7"}]
    name = f"{own}-node"
    await tenancy.admin.create(made(Node, name, spec=node, status={"addresses": addresses}))
    tenancy.scenario.closing.push_async_callback(tenancy.admin.delete, Node, name, "")
    ports = {"ports": [{"port": 80}]}
    unmanaged = "example.com/none"  # else its controller may replace the address later
    exposed = {**ports, "type": "LoadBalancer", "loadBalancerClass": unmanaged}
    theirs = {TENANT: victim, NETWORK: "default"}
    await tenancy.admin.create(made(Service, "lb", other, labels=theirs, spec=exposed))
    await tenancy.create_pod(other, "pod", "default", nodeName=name)
    for kind, called, status in (
        (Node, name, {"addresses": addresses}),
        (Service, "lb", {"loadBalancer": {"ingress": [{"ip": "10.203.0.9"}]}}),
        (Pod, "pod", {"podIP": "198.51.100.7", "podIPs": [{"ip": "198.51.100.7"}]}),
    ):
        where = "" if kind is Node else other
        change = {"status": status}
        await tenancy.admin.patch(kind, called, where, change, subresource="status")
    labels = {TENANT: own, NETWORK: "default"}
    waiting = [{"name": "example.com/wait"}]
    await tenancy.create_pod(space, "web", "default", schedulingGates=waiting)
    await tenancy.admin.create(made(Service, "web", space, labels=labels, spec=ports))
    return Place(own, victim, real=real, ranges=RANGES)


async def otherwise(anna: Client, rows: list[Row]) -> list[tuple[str, str, str]]:
    """The requests that are answered otherwise than by their refusal, with the answer."""
    return [
        (why, what, said)
        for why, what, request in requests(iter(rows))
        if why not in (said := await answer(anna.send(request)))
    ]


async def test_no_request_of_the_table_is_allowed(
    guarded: NetworksScenario, pytestconfig: pytest.Config
) -> None:
    at = await place(guarded, real=pytestconfig.getoption("--engine") == "kubernetes")
    kept, reviewed = list(policy_rows(at)), list(webhook_rows(at))
    anna = await guarded.tenant_client()

    async def are_refused() -> None:
        assert await otherwise(anna, kept) == []
        assert await otherwise(anna, reviewed) == []

    await guarded.scenario.eventually(are_refused)
    for running in list(guarded.scenario.agents):
        await guarded.scenario.kill_agent(running)
    answers = await otherwise(anna, kept) + await otherwise(anna, reviewed)
    await guarded.scenario.start_agent(HERE)
    await guarded.scenario.eventually(guarded.webhook_is_called)
    assert [one for one in answers if one[2] == ALLOWED] == []


async def test_policies_of_charts_add_none_of_ours_and_names_do_not_collide(
    guarded: NetworksScenario,
) -> None:
    """Four deny policies of three labels each, and networks named as policies once were."""
    space, _ = await two_tenants(guarded)
    tenant = space.removesuffix("-web")
    await guarded.scenario.eventually(guarded.there(NetworkPolicy, "hanse-deny", space))

    async def ours() -> dict[str, int]:
        found = (await guarded.admin.list(NetworkPolicy, namespace=space)).objects
        return {p.metadata.name: p.metadata.generation for p in found if OWNER in p.metadata.labels}

    async def settled() -> dict[str, int]:
        before = await ours()
        await asyncio.sleep(1)
        assert await ours() == before
        return before

    before = await guarded.scenario.eventually(settled)
    anna = await guarded.tenant_client()
    for number in range(4):
        labels = {f"{part}-{number}": "x" for part in ("name", "instance", "component")}
        spec: dict[str, Any] = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}
        await anna.create(made(NetworkPolicy, f"deny-{number}", space, spec=spec))
    for name in ("unnamed", "default-unnamed"):
        network = await guarded.create_network(tenant, name)
        await guarded.scenario.eventually(guarded.has_phase(network, "Ready"))

    after = await guarded.scenario.eventually(settled)
    assert len(after) <= len(before) + 2  # one for each network that is new
    assert max(after.values()) <= max(before.values()) + 4
    every = (await guarded.admin.list(NetworkPolicy, namespace=space)).objects
    assert len(every) == len(after) + 4
