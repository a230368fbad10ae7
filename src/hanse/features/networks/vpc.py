"""The built-in provider of virtual networks: subnets, addresses and MACs, kept in objects."""

from collections.abc import Iterator
from hashlib import blake2b

from hanse.features.networks.addresses import gateway_address, parse_address
from hanse.features.networks.interfaces import (
    DEFAULT_SUBNET,
    InterfaceRequest,
    InvalidInterface,
    candidate_subnets,
    format_cni_args,
    parse_interface,
    reject_gateway,
    requested_range,
)
from hanse.features.networks.names import CNI_ARGS, NIC, shorten_name
from hanse.features.networks.ports import PortPlan
from hanse.features.networks.providers import ProvisionResult
from hanse.features.networks.ranges import malformed_ranges, parse_range
from hanse.model.facts import Role
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network, NetworkPort, NetworkPortSpec, PortHolder, Subnet
from hanse.model.objects import Meta
from hanse.model.snapshot import Index, Snapshot, Watch, Writes

MAX_PROBES = 4096
"""Places of a subnet that are tried for one pod; more are full than not by then."""

PORTS_OF = Index(NetworkPort, "networks-ports", lambda p: [p.spec.network])
PORTS_FOR = Index(
    NetworkPort, "networks-ports-for", lambda p: [f"{p.spec.pod.namespace}/{p.spec.pod.name}"]
)


class VpcProvider:
    """Networks whose addresses are their own: they may be those of other networks too."""

    name = "vpc"
    has_ports = True
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, NetworkPort, indexes=(PORTS_OF, PORTS_FOR), writes=Writes.OBJECTS),
    )

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:
        nic = parse_interface(annotations)
        subnets = candidate_subnets(network, nic)
        if nic.ip:
            reject_gateway(nic, subnets[0])
            _refuse_taken(network, str(parse_address(nic.ip)), "", snapshot)

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        faults = list(malformed_ranges(network))
        return ProvisionResult("Failed", "; ".join(faults)) if faults else ProvisionResult()

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        left = list(snapshot.by(snapshot.local, PORTS_OF, network.metadata.name))
        return ProvisionResult("Pending", f"{len(left)} ports are being released", gone=not left)

    def port(self, pod: Pod, network: Network, snapshot: Snapshot) -> PortPlan:
        standing = find_port(pod, snapshot)
        if standing is not None:
            args = format_cni_args(dict(_arguments(standing, network, pod)))
            return PortPlan((_fresh(standing),), ready=True, annotations={CNI_ARGS: args})
        nic = parse_interface(pod.metadata.annotations)
        subnets = candidate_subnets(network, nic)
        if nic.ip:
            address = str(parse_address(nic.ip))
            reject_gateway(nic, subnets[0])
            _refuse_taken(network, address, pod.metadata.uid, snapshot)
            return PortPlan((_port(network, subnets[0], address, pod),))
        for subnet in subnets:
            chosen = _free(network, subnet, nic, pod, snapshot)
            if chosen is not None:
                return PortPlan((_port(network, subnet, chosen, pod),))
        names = ", ".join(f"{s.name} ({requested_range(s, nic)})" for s in subnets)
        return PortPlan(message=f"no address of network {network.metadata.name} is free in {names}")


def find_port(pod: Pod, snapshot: Snapshot) -> NetworkPort | None:
    """The port of that very pod."""
    found = snapshot.by(snapshot.local, PORTS_FOR, f"{pod.metadata.namespace}/{pod.metadata.name}")
    return next(
        (
            p
            for p in found
            if p.spec.pod.uid == pod.metadata.uid and p.metadata.deletion_timestamp is None
        ),
        None,
    )


def port_name(network: str, address: str) -> str:
    """The name that the port of an address has, so that there is never a second one."""
    dashed = address.replace(":", "-").replace(".", "-").strip("-")
    digest = blake2b(address.encode(), digest_size=3).hexdigest() if ":" in address else ""
    return shorten_name("-".join(part for part in (network, dashed, digest) if part), 253)


def mac_address(network: str, address: str) -> str:
    """A hardware address that is locally administered and the same whenever it is asked for."""
    digest = blake2b(f"{network}/{address}".encode(), digest_size=5).digest()
    return ":".join(f"{byte:02x}" for byte in b"\x02" + digest)


def _free(
    network: Network, subnet: Subnet, nic: InterfaceRequest, pod: Pod, snapshot: Snapshot
) -> str | None:
    """A free address; where to begin depends on the pod, so that few look at the same place."""
    range_, part = parse_range(subnet.cidr), requested_range(subnet, nic)
    if range_ is None or part is None:
        return None
    begins = int(part.network_address) - int(range_.network_address)
    first = max(2, begins)
    last = min(
        range_.num_addresses - (1 if range_.version == 4 else 0), begins + part.num_addresses
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


def _refuse_taken(network: Network, address: str, uid: str, snapshot: Snapshot) -> None:
    holder = snapshot.get(snapshot.local, NetworkPort, port_name(network.metadata.name, address))
    if holder is not None and holder.spec.pod.uid != uid:
        who = f"{holder.spec.pod.namespace}/{holder.spec.pod.name}"
        raise InvalidInterface(
            f"metadata.annotations[{NIC}]: ip {address} is in use by pod {who}; "
            "choose another, or leave it out"
        )


def _port(network: Network, subnet: Subnet, address: str, pod: Pod) -> NetworkPort:
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


def _fresh(port: NetworkPort) -> NetworkPort:
    """The port as it is desired, without what the server and the engine put on it."""
    return NetworkPort(metadata=Meta(name=port.metadata.name), spec=port.spec)


def _arguments(port: NetworkPort, network: Network, pod: Pod) -> Iterator[tuple[str, str]]:
    try:
        name = parse_interface(pod.metadata.annotations).name
    except InvalidInterface:
        name = ""  # it has its port, however it is annotated since
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
    yield "VPCID", network.spec.vpc_id.replace(";", "-").replace("=", "-")
