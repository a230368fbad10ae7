"""A tenant's administrator with every right that RBAC can give attacks other tenants.

Each attack is refused by the API server: with agents running, and by admission policies alone.
"""

from collections.abc import Awaitable
from itertools import chain
from typing import Any

import pytest

from hanse.features.networks.names import NETWORK, TENANT
from hanse.kube.errors import KubeError
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networks import Network, Tenant
from hanse.model.objects import Object
from tests.scenarios.network_attacks import PORTS, Attacker
from tests.scenarios.networks import HERE, NetworksScenario, made, refusal
from tests.scenarios.test_networks_tenants import POD, two_tenants


async def attacker(tenancy: NetworksScenario) -> Attacker:
    space, other = await two_tenants(tenancy)
    await tenancy.create_pod(space, "web", "default")
    labels = {TENANT: space.removesuffix("-web"), NETWORK: "default"}
    await tenancy.admin.create(made(Service, "web", space, labels=labels, spec=PORTS))
    api = await tenancy.admin.read(Service, "kubernetes", "default")
    servers = (await tenancy.admin.read(EndpointSlice, "kubernetes", "default")).endpoints or ()
    platform = (api.spec.cluster_ip, *(a for one in servers for a in one.addresses))
    return Attacker(await tenancy.tenant_client(), space, other, platform)


ALLOWED = "it was allowed"


async def answer(attempt: Awaitable[object]) -> str:
    """The error of a request, or that it was allowed."""
    try:
        await attempt
    except KubeError as error:
        return str(error)
    return ALLOWED


async def creation(hostile: Attacker, obj: Object) -> str:
    """The answer to a creation, of which nothing stays.

    It is no dry run for a Service: while the ServiceCIDR of another network is being deleted, an
    API server refuses some of those before it evaluates policies.
    """
    said = await answer(hostile.client.create(obj, dry_run=not isinstance(obj, Service)))
    if said == ALLOWED and isinstance(obj, Service):
        await hostile.client.delete(Service, obj.metadata.name, obj.metadata.namespace)
    return said


async def otherwise_created(hostile: Attacker) -> list[tuple[str, str]]:
    """The objects that policies should refuse, each with its answer, if that is another."""
    return [
        (type(o).kind.name, message)
        for why, o in hostile.creations()
        if why not in (message := await creation(hostile, o))
    ]


async def are_in_force(hostile: Attacker) -> None:
    """That the API server evaluates all policies, which it takes up one after the other."""
    assert await otherwise_created(hostile) == []


async def otherwise_refused(hostile: Attacker) -> list[tuple[str, str]]:
    """The attacks that policies should refuse, each with its answer, if that is another."""
    raw = ((why, str(r.body), hostile.client.send(r)) for why, r in hostile.node_access())
    changed = (
        (why, f"{kind.kind.name} {change}", hostile.client.patch(kind, n, s, change, subresource=r))
        for why, kind, n, s, change, r in hostile.changes()
    )
    deleted = (
        (why, f"{kind.kind.name} {n}", hostile.client.delete(kind, n, s))
        for why, kind, n, s in hostile.deletions()
    )
    otherwise = [
        (what, message)
        for why, what, attempt in chain(raw, changed, deleted)
        if why not in (message := await answer(attempt))
    ]
    return await otherwise_created(hostile) + otherwise


async def otherwise_refused_by_webhooks(hostile: Attacker) -> list[tuple[str, str]]:
    """The same for attacks that webhooks refuse, which fail while nobody answers."""
    made_anew = (
        (why, type(o).kind.name, hostile.client.create(o, dry_run=True))
        for why, o in hostile.reviewed_creations()
    )
    deleted = (
        (why, n, hostile.client.delete(kind, n, ""))
        for why, kind, n in hostile.reviewed_deletions()
    )
    return [
        (what, message)
        for why, what, attempt in chain(made_anew, deleted)
        if why not in (message := await answer(attempt))
    ]


async def test_attacks_are_refused_while_agents_run_and_when_they_have_stopped(
    guarded: NetworksScenario,
) -> None:
    hostile = await attacker(guarded)

    await guarded.scenario.eventually(lambda: are_in_force(hostile))
    assert await otherwise_refused(hostile) == []
    assert await otherwise_refused_by_webhooks(hostile) == []

    for running in list(guarded.scenario.agents):
        await guarded.scenario.kill_agent(running)
    answers = await otherwise_refused(hostile) + await otherwise_refused_by_webhooks(hostile)
    await guarded.scenario.start_agent(HERE)
    await guarded.scenario.eventually(guarded.webhook_is_called)
    assert [what for what, message in answers if message == ALLOWED] == []


@pytest.mark.needs("vap")
async def test_attacks_are_refused_by_policies_alone(tenancy: NetworksScenario) -> None:
    hostile = await attacker(tenancy)

    await tenancy.scenario.eventually(lambda: are_in_force(hostile))
    assert await otherwise_refused(hostile) == []


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
