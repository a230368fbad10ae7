"""Pods of VPCs on this node: their addresses may be others' too, and their interfaces are not.

Which interface is whose is said by the CNI plugin, and whose the pod is by its namespace: nothing
of it is what a tenant writes.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_interface
from typing import Any

from msgspec import Struct

from hanse.features.networks.cni import PodRef
from hanse.features.networks.lookups import FLAT, pod_network
from hanse.features.networks.names import NetworkName, parse_network_name
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networks import Network
from hanse.model.snapshot import Snapshot

INTERFACE_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,15}")


class Attachment(Struct, frozen=True):
    """A pod's interface on this node, and the addresses that its plugin gave it."""

    pod: PodRef
    interface: str
    joined: tuple[str, ...] = ()
    """Its bridge, or its VRF and all interfaces of that: packets may come in and go out by them."""
    addresses: tuple[str, ...] = ()


class VpcFacts(Struct, frozen=True, order=True):
    """A VPC with pods on this node: the interfaces of the node that are its alone."""

    id: str
    networks: tuple[NetworkName, ...] = ()
    interfaces: tuple[str, ...] = ()
    single: tuple[tuple[str, str], ...] = ()
    """Interface and address of each pod that has an interface of the node to itself."""


def attachment(
    ref: PodRef, result: Mapping[str, Any], joined: Callable[[str], tuple[str, ...] | None]
) -> Attachment | None:
    """The interface of a pod on the node by the result of its plugin, with its addresses.

    None if the result does not list exactly one, or an address cannot be parsed. `joined` gives
    those that an interface of the node is joined with, and None if it is no pod's.
    """
    interfaces = [one for one in result.get("interfaces") or () if isinstance(one, dict)]
    listed = {str(one.get("name", "")) for one in interfaces if not one.get("sandbox")}
    names = [(n, joined(n)) for n in sorted(listed) if INTERFACE_NAME.fullmatch(n)]
    found = [(name, others) for name, others in names if others is not None]
    if len(found) != 1:
        return None
    given = [one.get("address", "") for one in result.get("ips") or () if isinstance(one, dict)]
    try:
        addresses = tuple(sorted(str(ip_interface(str(text)).ip) for text in given))
    except ValueError:
        return None
    return Attachment(ref, *found[0], addresses)


def vpc_facts(attachments: Iterable[Attachment], snapshot: Snapshot) -> tuple[VpcFacts, ...]:
    """The VPCs of pods on this node, sorted, each with its networks and interfaces.

    An interface is a VPC's only if all pods joined to it are in that VPC; addresses are those of
    pods with one to themselves. Pods that the snapshot lacks or has with another uid do not count.
    """
    members: dict[str, list[tuple[Attachment, NetworkName]]] = {}
    users: dict[str, set[str]] = {}
    for one in attachments:
        pod = snapshot.get(snapshot.local, Pod, one.pod.name, one.pod.namespace)
        if pod is None or not one.pod.is_of(pod):
            continue
        name, vpc = _network_and_vpc(pod, snapshot)
        for interface in (one.interface, *one.joined):
            users.setdefault(interface, set()).add(vpc)
        if vpc:
            members.setdefault(vpc, []).append((one, name))
    return tuple(
        VpcFacts(
            vpc,
            tuple(sorted({name for _, name in found})),
            tuple(sorted(i for i, vpcs in users.items() if vpcs == {vpc})),
            tuple(
                sorted((a.interface, ip) for a, _ in found if not a.joined for ip in a.addresses)
            ),
        )
        for vpc, found in sorted(members.items())
    )


def vpc_networks(pods: Iterable[Pod], snapshot: Snapshot) -> tuple[tuple[NetworkName, str], ...]:
    """The networks with a VPC that pods are in, each once with its VPC, sorted."""
    found = {_network_and_vpc(pod, snapshot) for pod in pods}
    return tuple(sorted((name, vpc) for name, vpc in found if vpc))


def _network_and_vpc(pod: Pod, snapshot: Snapshot) -> tuple[NetworkName, str]:
    """The network of a pod, and `TENANT/VPC-ID` of that.

    Without a network both are empty; the VPC also in a network without one.
    """
    namespace = snapshot.get(snapshot.local, Namespace, pod.metadata.namespace)
    network = pod_network(pod, namespace, snapshot)
    if network is None:
        return NetworkName("", ""), ""
    return parse_network_name(network.metadata.name), vpc_of(network)


def vpc_of(network: Network) -> str:
    """`TENANT/VPC-ID` of a network; empty if it has no vpcID, or is of type flat."""
    spec = network.spec
    return f"{spec.tenant}/{spec.vpc_id}" if spec.vpc_id and spec.type != FLAT else ""
