"""The built-in VPC provider: subnets, addresses and MACs as NetworkPort objects."""

from collections.abc import Iterator
from hashlib import blake2b

from hanse.features.networks.addresses import gateway_address, parse_address
from hanse.features.networks.interfaces import (
    VPC_ARGUMENT,
    InterfaceRequest,
    InvalidInterface,
    candidate_subnets,
    format_cni_args,
    parse_interface,
    reject_gateway,
    requested_range,
)
from hanse.features.networks.lookups import VPC
from hanse.features.networks.names import CNI_ARGS, NIC, shorten_name
from hanse.features.networks.ports import PortPlan
from hanse.features.networks.providers import ProvisionResult
from hanse.features.networks.ranges import (
    DEFAULT_SUBNET,
    malformed_ranges,
    parse_range,
    validate_vpc,
    vpc_argument,
)
from hanse.model.facts import Role
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network, NetworkPort, NetworkPortSpec, PortHolder, Subnet
from hanse.model.objects import Meta
from hanse.model.snapshot import Index, Snapshot, Watch, Writes

MAX_PROBES = 4096
"""Addresses of a subnet that are tried for one pod."""

PORTS_BY_NETWORK = Index(NetworkPort, "networks-ports", lambda p: [p.spec.network])
PORTS_BY_POD = Index(
    NetworkPort, "networks-ports-for", lambda p: [f"{p.spec.pod.namespace}/{p.spec.pod.name}"]
)


class VpcProvider:
    """Networks with address spaces of their own, which may overlap those of other networks."""

    name = VPC
    has_ports = True
    watches: tuple[Watch, ...] = (
        Watch(
            Role.LOCAL,
            NetworkPort,
            indexes=(PORTS_BY_NETWORK, PORTS_BY_POD),
            writes=Writes.OBJECTS,
            reason="the address of a pod in its network",
        ),
    )

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:
        """Raise `InvalidInterface` if the interface is invalid or fits no subnet.

        A requested address must also be neither the gateway nor in use.
        """
        nic = parse_interface(annotations)
        subnets = candidate_subnets(network, nic)
        if nic.ip:
            reject_gateway(nic, subnets[0])
            _reject_used_address(network, str(parse_address(nic.ip)), "", snapshot)

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        """Ready, without objects; Failed if a range of the network is malformed."""
        errors = list(malformed_ranges(network))
        return ProvisionResult("Failed", "; ".join(errors)) if errors else ProvisionResult()

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """The result is `Pending`, and `gone` once no NetworkPort of the network is left."""
        remaining = list(snapshot.by(snapshot.local, PORTS_BY_NETWORK, network.metadata.name))
        return ProvisionResult(
            "Pending", f"{len(remaining)} ports are being released", gone=not remaining
        )

    def port(self, pod: Pod, network: Network, snapshot: Snapshot) -> PortPlan:
        """Ready with CNI arguments if the pod has a NetworkPort; else not ready, with a new one.

        That has the requested address or a free one. Without a free one there is only a message, as
        in a network whose VPC another tenant, or whose subnets an older network, has. Raises
        `InvalidInterface` if the request is invalid or its address in use.
        """
        current = find_port(pod, snapshot)
        if current is not None:
            args = format_cni_args(dict(_cni_arguments(current, network, pod)))
            return PortPlan((_desired_port(current),), ready=True, annotations={CNI_ARGS: args})
        if errors := list(validate_vpc(network, snapshot, include_newer=False)):
            return PortPlan(message=f"network {network.metadata.name}: {errors[0]}")
        nic = parse_interface(pod.metadata.annotations)
        subnets = candidate_subnets(network, nic)
        if nic.ip:
            address = str(parse_address(nic.ip))
            reject_gateway(nic, subnets[0])
            _reject_used_address(network, address, pod.metadata.uid, snapshot)
            return PortPlan((_network_port(network, subnets[0], address, pod),))
        for subnet in subnets:
            free = _find_free_address(network, subnet, nic, pod, snapshot)
            if free is not None:
                return PortPlan((_network_port(network, subnet, free, pod),))
        names = ", ".join(f"{s.name} ({requested_range(s, nic)})" for s in subnets)
        return PortPlan(message=f"no address of network {network.metadata.name} is free in {names}")


def find_port(pod: Pod, snapshot: Snapshot) -> NetworkPort | None:
    """The NetworkPort of a pod, by its uid; None if there is none, or it is being deleted."""
    found = snapshot.by(
        snapshot.local, PORTS_BY_POD, f"{pod.metadata.namespace}/{pod.metadata.name}"
    )
    return next(
        (
            p
            for p in found
            if p.spec.pod.uid == pod.metadata.uid and p.metadata.deletion_timestamp is None
        ),
        None,
    )


def port_name(network: str, address: str) -> str:
    """The name of an address's NetworkPort: `NETWORK-ADDRESS`, with dashes, at most 253 characters.

    It is always the same, so that an address never has two ports; those of IPv6 end in a hash.
    """
    dashed = address.replace(":", "-").replace(".", "-").strip("-")
    digest = blake2b(address.encode(), digest_size=3).hexdigest() if ":" in address else ""
    return shorten_name("-".join(part for part in (network, dashed, digest) if part), 253)


def mac_address(network: str, address: str) -> str:
    """A MAC address that begins with 02, always the same for an address in a network.

    It is a hash of both, which another address might share.
    """
    digest = blake2b(f"{network}/{address}".encode(), digest_size=5).digest()
    return ":".join(f"{byte:02x}" for byte in b"\x02" + digest)


def _find_free_address(
    network: Network, subnet: Subnet, nic: InterfaceRequest, pod: Pod, snapshot: Snapshot
) -> str | None:
    """An address of a subnet without a NetworkPort; None if none is among MAX_PROBES tried ones.

    If `nic` names a part of the subnet, one of that. The search starts at a hash of the pod's uid,
    and leaves out the subnet's first two addresses and the IPv4 broadcast one. None, too, if its
    CIDR is invalid. Nothing is reserved.
    """
    range_, part = parse_range(subnet.cidr), requested_range(subnet, nic)
    if range_ is None or part is None:
        return None
    range_offset = int(part.network_address) - int(range_.network_address)
    first = max(2, range_offset)
    last = min(
        range_.num_addresses - (1 if range_.version == 4 else 0), range_offset + part.num_addresses
    )
    count = last - first
    if count <= 0:
        return None
    digest = blake2b(pod.metadata.uid.encode(), digest_size=8).digest()
    start = int.from_bytes(digest) % count
    for step in range(min(count, MAX_PROBES)):
        address = str(range_[first + (start + step) % count])
        if (
            snapshot.get(snapshot.local, NetworkPort, port_name(network.metadata.name, address))
            is None
        ):
            return address
    return None


def _reject_used_address(network: Network, address: str, uid: str, snapshot: Snapshot) -> None:
    """Raise `InvalidInterface` if a NetworkPort of another pod uid has the address."""
    holder = snapshot.get(snapshot.local, NetworkPort, port_name(network.metadata.name, address))
    if holder is not None and holder.spec.pod.uid != uid:
        holder_name = f"{holder.spec.pod.namespace}/{holder.spec.pod.name}"
        raise InvalidInterface(
            f"metadata.annotations[{NIC}]: ip {address} is in use by pod {holder_name}; "
            "choose another, or leave it out"
        )


def _network_port(network: Network, subnet: Subnet, address: str, pod: Pod) -> NetworkPort:
    """The NetworkPort that assigns an address and its MAC address to a pod."""
    name = network.metadata.name
    return NetworkPort(
        metadata=Meta(name=port_name(name, address)),
        spec=NetworkPortSpec(
            network=name,
            subnet=subnet.name,
            address=address,
            mac=mac_address(name, address),
            pod=PortHolder(
                namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
            ),
        ),
    )


def _desired_port(port: NetworkPort) -> NetworkPort:
    """The desired port, without the metadata of the API server and the runtime."""
    return NetworkPort(metadata=Meta(name=port.metadata.name), spec=port.spec)


def _cni_arguments(port: NetworkPort, network: Network, pod: Pod) -> Iterator[tuple[str, str]]:
    """The CNI arguments of a port, as pairs: interface, address, prefix, gateway, MAC and VPC id.

    The interface only if the pod's annotation is valid and names one; prefix and gateway only if
    the subnet's range is valid, of the default subnet if the network lacks the port's.
    """
    try:
        name = parse_interface(pod.metadata.annotations).name
    except InvalidInterface:
        name = ""  # it has its port, even if the annotation is invalid now
    if name:
        yield "IFNAME", name
    family = "IPV6" if ":" in port.spec.address else "IPV4"
    yield family, port.spec.address
    subnet = next((s for s in network.spec.subnets if s.name == port.spec.subnet), None)
    range_ = parse_range(subnet.cidr if subnet is not None else DEFAULT_SUBNET.cidr)
    if range_ is not None:
        yield "PREFIX", str(range_.prefixlen)
        yield "GATEWAY", str(gateway_address(range_))
    yield "MAC", port.spec.mac
    yield VPC_ARGUMENT, vpc_argument(network)
