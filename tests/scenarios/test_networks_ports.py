"""Pods on a provider's network: they wait for a port, get it, and release it once."""

from typing import Any

import msgspec

from hanse.features.networks.interfaces import parse_cni_args
from hanse.features.networks.names import CNI_ARGS, NIC, READINESS
from hanse.features.networks.ports import PORT_MESSAGE
from hanse.features.networks.vpc import port_name
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network, NetworkPort
from hanse.model.ownership import OWNER
from tests.scenarios.networks import NetworksScenario
from tests.support.scenario import Check, describe_writes

SUBNETS = [{"name": "front", "cidr": "10.30.0.0/28"}]


async def vpc(tenancy: NetworksScenario, **spec: Any) -> tuple[str, str]:
    """A tenant with a network of its own addresses; gives its namespace and the network."""
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    name = await tenancy.create_network(acme, "lab", "vpc", vpcID="v-1", subnets=SUBNETS, **spec)
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    return space, name


def gated(nic: str = "") -> dict[str, Any]:
    """A pod as admission leaves it: behind a gate."""
    notes = {READINESS: "false", **({NIC: nic} if nic else {})}
    return {"annotations": notes, "schedulingGates": [{"name": READINESS}]}


def released(tenancy: NetworksScenario, space: str, name: str) -> Check[Pod]:
    async def check() -> Pod:
        pod = await tenancy.admin.read(Pod, name, space)
        assert READINESS not in pod.metadata.annotations, pod.metadata.annotations
        assert pod.spec.scheduling_gates == ()
        return pod

    return check


def ports(tenancy: NetworksScenario, network: str, *pods: str) -> Check[dict[str, NetworkPort]]:
    """That exactly these pods have a port of a network, its own DNS aside."""

    async def check() -> dict[str, NetworkPort]:
        found = {
            p.spec.pod.name: p
            for p in (await tenancy.admin.list(NetworkPort)).objects
            if p.spec.network == network and not p.spec.pod.name.startswith("kube-dns-")
        }
        assert sorted(found) == sorted(pods), f"{network} has ports of {sorted(found)}"
        return found

    return check


async def nobodys(tenancy: NetworksScenario, *networks: str) -> str:
    """An address that is free in each of these networks, now that their DNS has its own."""

    async def taken() -> set[str]:
        found = [
            p for p in (await tenancy.admin.list(NetworkPort)).objects if p.spec.network in networks
        ]
        assert len(found) == 2 * len(networks), f"DNS of {networks} has {len(found)} ports"
        return {p.spec.address for p in found}

    used = await tenancy.scenario.eventually(taken)
    return next(free for n in range(2, 15) if (free := f"10.30.0.{n}") not in used)


async def test_a_pod_gets_a_port_and_is_let_go_with_what_its_plugin_needs(
    tenancy: NetworksScenario,
) -> None:
    space, network = await vpc(tenancy)

    await tenancy.create_pod(space, "web", "lab", **gated())

    pod = await tenancy.scenario.eventually(released(tenancy, space, "web"))
    (port,) = (await ports(tenancy, network, "web")()).values()
    args = parse_cni_args(pod.metadata.annotations[CNI_ARGS])
    assert args["IPV4"] == port.spec.address
    assert args["MAC"] == port.spec.mac
    assert args["VPCID"] == "v-1"
    assert args["PREFIX"] == "28"
    assert port.spec.pod.uid == pod.metadata.uid
    await tenancy.scenario.settled()


async def test_an_address_asked_for_is_given_and_not_given_to_another(
    tenancy: NetworksScenario,
) -> None:
    space, network = await vpc(tenancy)
    address = await nobodys(tenancy, network)
    asked = f'{{"subnet": "front", "ip": "{address}"}}'
    await tenancy.create_pod(space, "first", "lab", **gated(asked))
    await tenancy.scenario.eventually(released(tenancy, space, "first"))

    await tenancy.create_pod(space, "second", "lab", **gated(asked))

    async def is_gated() -> None:
        pod = await tenancy.admin.read(Pod, "second", space)
        assert f"in use by pod {space}/first" in pod.metadata.annotations.get(PORT_MESSAGE, "")
        assert pod.spec.scheduling_gates

    await tenancy.scenario.eventually(is_gated)
    await tenancy.admin.delete(Pod, "first", space)
    await tenancy.scenario.eventually(released(tenancy, space, "second"))
    (port,) = (await ports(tenancy, network, "second")()).values()
    assert port.metadata.name == port_name(network, address)


async def test_a_port_whose_owner_was_removed_is_owned_again(tenancy: NetworksScenario) -> None:
    space, network = await vpc(tenancy)
    await tenancy.create_pod(space, "web", "lab", **gated())
    await tenancy.scenario.eventually(released(tenancy, space, "web"))
    (before,) = (await ports(tenancy, network, "web")()).values()
    assert OWNER in before.metadata.labels

    unowned = {"metadata": {"labels": {OWNER: None}}}
    await tenancy.admin.patch(NetworkPort, before.name, "", unowned)

    async def is_owned_again() -> None:
        (port,) = (await ports(tenancy, network, "web")()).values()
        assert (port.metadata.labels, port.spec) == (before.metadata.labels, before.spec)

    await tenancy.scenario.eventually(is_owned_again)


async def test_a_full_subnet_makes_pods_wait_until_one_goes(tenancy: NetworksScenario) -> None:
    space, network = await vpc(tenancy)
    names = [f"p{n}" for n in range(11)]  # of 16: the range's ends, its gateway and two for DNS
    for name in names:
        await tenancy.create_pod(space, name, "lab", **gated())
    for name in names:
        await tenancy.scenario.eventually(released(tenancy, space, name))
    found = await ports(tenancy, network, *names)()
    assert len({p.spec.address for p in found.values()}) == len(names)

    await tenancy.create_pod(space, "late", "lab", **gated())

    async def is_gated() -> None:
        pod = await tenancy.admin.read(Pod, "late", space)
        assert "is free in front (10.30.0.0/28)" in pod.metadata.annotations.get(PORT_MESSAGE, "")

    await tenancy.scenario.eventually(is_gated)
    await tenancy.admin.delete(Pod, "p3", space)
    await tenancy.scenario.eventually(released(tenancy, space, "late"))


async def test_a_port_is_given_back_once_also_when_the_agent_was_away(
    tenancy: NetworksScenario,
) -> None:
    space, network = await vpc(tenancy)
    for name in ("stays", "goes"):
        await tenancy.create_pod(space, name, "lab", **gated())
        await tenancy.scenario.eventually(released(tenancy, space, name))
    await tenancy.scenario.kill_agent("lubeck")

    await tenancy.admin.delete(Pod, "goes", space)
    await tenancy.scenario.eventually(tenancy.gone(Pod, "goes", space))
    start = len(tenancy.scenario.network.sent)
    await tenancy.scenario.start_agent("lubeck")

    await tenancy.scenario.eventually(ports(tenancy, network, "stays"))
    await tenancy.scenario.settled()
    writes = [w for w in tenancy.scenario.writes_since(start) if "/networkports" in w.request.path]
    assert [w.request.method for w in writes] == ["DELETE"], describe_writes(writes)


async def test_a_pod_made_anew_under_its_name_has_a_port_of_its_own(
    tenancy: NetworksScenario,
) -> None:
    space, network = await vpc(tenancy)
    await tenancy.create_pod(space, "web", "lab", **gated())
    await tenancy.scenario.eventually(released(tenancy, space, "web"))
    await tenancy.admin.delete(Pod, "web", space)
    await tenancy.scenario.eventually(tenancy.gone(Pod, "web", space))

    again = await tenancy.create_pod(space, "web", "lab", **gated())

    await tenancy.scenario.eventually(released(tenancy, space, "web"))
    found = await tenancy.scenario.eventually(ports(tenancy, network, "web"))
    assert found["web"].spec.pod.uid == again.metadata.uid


async def test_a_network_goes_after_its_last_port(tenancy: NetworksScenario) -> None:
    space, network = await vpc(tenancy)
    await tenancy.create_pod(space, "web", "lab", **gated())
    await tenancy.scenario.eventually(released(tenancy, space, "web"))

    await tenancy.admin.delete(Network, network, "")
    await tenancy.scenario.eventually(tenancy.has_phase(network, "Terminating", f"Pod {space}/web"))
    await tenancy.admin.delete(Pod, "web", space)

    await tenancy.scenario.eventually(tenancy.gone(Network, network))
    await ports(tenancy, network)()


async def test_two_networks_may_have_the_same_addresses(tenancy: NetworksScenario) -> None:
    space, network = await vpc(tenancy)
    acme = (await tenancy.admin.read(Network, network)).metadata.name.partition(".")[0]
    other = await tenancy.create_network(acme, "twin", "vpc", vpcID="v-2", subnets=SUBNETS)
    await tenancy.scenario.eventually(tenancy.has_phase(other, "Ready"))
    asked = f'{{"ip": "{await nobodys(tenancy, network, other)}"}}'

    await tenancy.create_pod(space, "one", "lab", **gated(asked))
    await tenancy.create_pod(space, "two", "twin", **gated(asked))

    await tenancy.scenario.eventually(released(tenancy, space, "one"))
    await tenancy.scenario.eventually(released(tenancy, space, "two"))


async def test_a_network_of_an_external_provider_waits_for_its_answer(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    name = await tenancy.create_network(acme, "far", "mizar")
    await tenancy.scenario.eventually(
        tenancy.has_phase(name, "Pending", "waiting for provider mizar")
    )
    at = "2026-01-01T00:00:00Z"
    condition = {"type": "Provisioned", "reason": "X", "message": "", "lastTransitionTime": at}

    for status, phase in (("False", "Failed"), ("Unknown", "Unknown"), ("True", "Ready")):
        standing = (await tenancy.admin.read(Network, name)).status.conditions
        kept = [c for c in standing if c.type != "Provisioned"]
        change = {"conditions": [*msgspec.to_builtins(kept), {**condition, "status": status}]}
        await tenancy.admin.patch(Network, name, "", {"status": change}, subresource="status")
        await tenancy.scenario.eventually(tenancy.has_phase(name, phase))


async def test_a_network_with_outside_addresses_is_ready_with_its_dns_address(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    name = await tenancy.create_network(
        acme, "ext", service={"ipam": "External", "cidrs": ["10.31.0.0/24"]}
    )
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Pending", "status.dnsServiceIP"))

    change = {"status": {"dnsServiceIP": "10.31.0.53"}}
    await tenancy.admin.patch(Network, name, "", change, subresource="status")

    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    assert (await tenancy.dns_of(name)).spec.cluster_ip == "10.31.0.53"


async def test_without_kube_ovn_its_networks_say_so(tenancy: NetworksScenario) -> None:
    acme = await tenancy.create_tenant()

    name = await tenancy.create_network(acme, "ovn", "kube-ovn", subnets=SUBNETS)

    await tenancy.scenario.eventually(tenancy.has_phase(name, "Failed", "kubeovn.io is not served"))
