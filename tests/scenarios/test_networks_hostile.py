"""A tenant's administrator with every right that RBAC can give attacks other tenants.

Each attack is refused by the API server: with agents running, and by admission policies alone.
"""

from collections.abc import Awaitable
from itertools import chain
from typing import Any

import pytest

from hanse.features.networks.names import CNI_ARGS, NETWORK, READINESS, TENANT, NetworkName
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networks import Network, NetworkPort, Tenant
from hanse.model.objects import Object
from hanse.model.ownership import OWNER
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
GATES = [{"name": READINESS}]


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


@pytest.mark.needs("vap")
@pytest.mark.parametrize(
    "filler", [pytest.param("", id="short"), pytest.param("x" * 48, id="long")]
)
async def test_names_of_the_api_servers_alias_are_reserved_however_long_the_tenants_name(
    tenancy: NetworksScenario, filler: str
) -> None:
    acme = await tenancy.create_tenant(f"acme{filler}")
    home = NetworkName(acme).alias_namespace
    anna = await tenancy.tenant_client()
    alias = made(Service, "kubernetes-next", home, spec=PORTS)
    plain = made(Service, "kubernetes-next", await tenancy.create_namespace(acme, "w"), spec=PORTS)

    async def is_reserved() -> None:
        assert "kube-dns-* and kubernetes-*" in await refusal(anna.create(alias, dry_run=True))

    await tenancy.scenario.eventually(is_reserved)

    async def is_allowed() -> None:  # addresses can be had some time after the server is up
        assert await answer(anna.create(plain, dry_run=True)) == ALLOWED

    await tenancy.scenario.eventually(is_allowed)


async def administered_tenants(guarded: NetworksScenario) -> tuple[str, str, str, Client]:
    """A namespace of a tenant, that tenant and another, and the administrator of the first."""
    space, other = await two_tenants(guarded)
    acme, bolt = space.removesuffix("-web"), other.removesuffix("-web")
    await guarded.edit(Tenant, acme, {"spec": {"admins": [{"kind": "User", "name": "anna"}]}})
    return space, acme, bolt, await guarded.tenant_client()


async def test_networks_are_written_by_administrators_of_their_tenant_only(
    guarded: NetworksScenario,
) -> None:
    _, acme, bolt, anna = await administered_tenants(guarded)

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


async def test_a_network_is_not_gone_while_its_pods_run_whatever_its_tenant_does(
    guarded: NetworksScenario,
) -> None:
    """Else another tenant could get its VPC, with these pods in it."""
    space, acme, bolt, anna = await administered_tenants(guarded)
    vpc = {"type": "vpc", "tenant": acme, "vpcID": f"{bolt}-default-network"}
    name = f"{acme}.vpc"

    async def is_admin() -> None:
        await anna.create(made(Network, name, spec=vpc))

    await guarded.scenario.eventually(is_admin)
    await guarded.scenario.eventually(guarded.has_phase(name, "Ready"))
    await anna.create(made(Pod, "web", space, labels={NETWORK: "vpc"}, spec=POD))
    free = {"metadata": {"finalizers": None}}

    assert "metadata.finalizers: keep" in await refusal(anna.patch(Network, name, "", free))
    await anna.delete(Network, name, "")
    await guarded.scenario.eventually(guarded.has_phase(name, "Terminating", f"Pod {space}/web"))
    assert "metadata.finalizers: keep" in await refusal(anna.patch(Network, name, "", free))
    taken = made(Network, f"{bolt}.vpc", spec={**vpc, "tenant": bolt})
    assert f"is of tenant {acme}" in await refusal(guarded.admin.create(taken))
    recreated = made(Network, name, spec={**vpc, "vpcID": "another"})
    assert "already exists" in await refusal(anna.create(recreated))

    await anna.delete(Pod, "web", space)
    await guarded.scenario.eventually(guarded.gone(Network, name))


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
    for owner in ({}, {OWNER: "networks-forged"}):
        kept = made(Service, f"squatter{len(owner)}", plain, labels={**labels, **owner}, spec=PORTS)
        await tenancy.admin.create(kept)

    await tenancy.admin.delete(Network, name, "")

    await tenancy.scenario.eventually(tenancy.gone(Network, name))


async def test_labels_outside_of_a_tenants_namespaces_give_no_address_in_a_network(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    subnets = [{"name": "a", "cidr": "10.205.0.0/24"}]
    vpc = {"vpcID": f"{acme}-1", "subnets": subnets}
    name = await tenancy.create_network(acme, "vpc", "vpc", **vpc)
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    labels, plain = {TENANT: acme, NETWORK: "vpc"}, tenancy.scenario.namespace
    waiting = {"annotations": {READINESS: "false"}, "spec": {**POD, "schedulingGates": GATES}}

    for where in (plain, space):
        await tenancy.admin.create(made(Pod, f"{acme}-web", where, labels=labels, **waiting))

    async def holders() -> None:
        ports = (await tenancy.admin.list(NetworkPort)).objects
        found = {p.spec.pod.namespace for p in ports if p.spec.network == name}
        assert found == {space, NetworkName(acme).dns_namespace}

    await tenancy.scenario.eventually(holders)
    await tenancy.scenario.settled()
    await holders()
    forged = await tenancy.admin.read(Pod, f"{acme}-web", plain)
    assert CNI_ARGS not in forged.metadata.annotations
