"""The kube-ovn provider: Vpc, Subnets, SwitchLBRules and pod annotations."""

from hanse.features.networks.addresses import gateway_address, parse_address
from hanse.features.networks.backends import PortBackends
from hanse.features.networks.interfaces import (
    InterfaceRequest,
    InvalidInterface,
    candidate_subnets,
    parse_interface,
    reject_gateway,
    requested_range,
)
from hanse.features.networks.lookups import is_served, tenant_namespaces
from hanse.features.networks.names import NIC, parse_network_name, shorten_name
from hanse.features.networks.ports import PortPlan
from hanse.features.networks.providers import ProvisionResult
from hanse.features.networks.ranges import DEFAULT_SUBNET, malformed_ranges, parse_range
from hanse.model.facts import Role
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.kubeovn import (
    OvnSubnet,
    OvnSubnetSpec,
    SwitchLBRule,
    SwitchLBRuleSpec,
    SwitchPort,
    Vpc,
    VpcSpec,
)
from hanse.model.kinds.networks import Network, Subnet
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import Snapshot, Watch, Writes

SWITCH = "ovn.kubernetes.io/logical_switch"
IP_ADDRESS = "ovn.kubernetes.io/ip_address"


_KUBE_OVN, _PRODUCT = "networks as VPCs", "Kube-OVN"


class KubeOvnProvider:
    """A network becomes a Vpc of kube-ovn, a subnet one of its Subnets."""

    name = "kube-ovn"
    has_ports = True
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, Vpc, writes=Writes.OBJECTS, reason=_KUBE_OVN, only_with=_PRODUCT),
        Watch(Role.LOCAL, OvnSubnet, writes=Writes.OBJECTS, reason=_KUBE_OVN, only_with=_PRODUCT),
        Watch(
            Role.LOCAL, SwitchLBRule, writes=Writes.OBJECTS, reason=_KUBE_OVN, only_with=_PRODUCT
        ),
    )

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:  # noqa: ARG002 - the contract
        """Raise `InvalidInterface` for an interface that kube-ovn cannot give."""
        _parse_supported_interface(network, annotations)

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """The Vpc and Subnets; Pending until every Subnet is ready.

        Failed, without objects, if kube-ovn is not served or a range is malformed.
        """
        if not is_served(Vpc, snapshot) or not is_served(OvnSubnet, snapshot):
            return ProvisionResult(
                "Failed", "this cluster has no kube-ovn: kubeovn.io is not served"
            )
        if errors := list(malformed_ranges(network)):
            return ProvisionResult("Failed", "; ".join(errors))
        vpc = _desired_vpc(network, snapshot)
        subnets = tuple(
            _desired_subnet(network, s) for s in network.spec.subnets or (DEFAULT_SUBNET,)
        )
        waiting = [s.metadata.name for s in subnets if not _is_ready(s.metadata.name, snapshot)]
        if waiting:
            message = f"waiting for Subnet {', '.join(waiting[:3])} of kube-ovn"
            return ProvisionResult("Pending", message, (vpc, *subnets))
        return ProvisionResult("Ready", "", (vpc, *subnets))

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """Keep the Vpc until its Subnets are gone, as kube-ovn needs it; `gone` once both are."""
        subnets = sorted(
            s.metadata.name
            for s in snapshot.all(snapshot.local, OvnSubnet)
            if s.spec.vpc == _vpc_name(network)
        )
        if subnets:
            message = f"kube-ovn removes {', '.join(subnets[:3])}"
            return ProvisionResult(
                "Pending", message, (_desired_vpc(network, snapshot),), gone=False
            )
        remaining = snapshot.get(snapshot.local, Vpc, _vpc_name(network)) is not None
        return ProvisionResult(
            "Pending", f"kube-ovn removes {_vpc_name(network)}", gone=not remaining
        )

    def port(self, pod: Pod, network: Network, snapshot: Snapshot) -> PortPlan:  # noqa: ARG002 - the contract
        """Pod annotations with the Subnet and the requested address; always ready, without objects.

        Raises `InvalidInterface` as `check` does.
        """
        nic, subnet = _parse_supported_interface(network, pod.metadata.annotations)
        annotations = {SWITCH: _subnet_name(network, subnet)}
        if nic.ip:
            annotations[IP_ADDRESS] = str(parse_address(nic.ip))
        return PortPlan(ready=True, annotations=annotations)

    def service(
        self, service: Service, backends: tuple[PortBackends, ...], network: Network
    ) -> tuple[Object, ...]:
        """One SwitchLBRule for each distinct set of ready endpoints; none for ports without any."""
        rules: dict[tuple[str, ...], list[PortBackends]] = {}
        for backend in backends:
            if backend.addresses:
                rules.setdefault(backend.addresses, []).append(backend)
        return tuple(
            _load_balancer_rule(service, network, number, endpoints, port_backends)
            for number, (endpoints, port_backends) in enumerate(sorted(rules.items()))
        )


def _parse_supported_interface(
    network: Network, annotations: dict[str, str]
) -> tuple[InterfaceRequest, Subnet]:
    """The requested interface and its subnet; raises `InvalidInterface` if not supported.

    That is a gateway's address, or a part of a subnet without an address.
    """
    nic = parse_interface(annotations)
    subnet = candidate_subnets(network, nic)[0]
    reject_gateway(nic, subnet)
    if not nic.ip and requested_range(subnet, nic) != parse_range(subnet.cidr):
        raise InvalidInterface(
            f"metadata.annotations[{NIC}]: kube-ovn gives addresses of whole subnets; name subnet "
            f"{subnet.name} ({subnet.cidr}), or an ip"
        )
    return nic, subnet


def _load_balancer_rule(
    service: Service,
    network: Network,
    number: int,
    endpoints: tuple[str, ...],
    port_backends: list[PortBackends],
) -> SwitchLBRule:
    """The SwitchLBRule of a Service for one set of endpoints; `number` makes its name unique."""
    meta = service.metadata
    name = f"{network.metadata.name}-{meta.namespace}-{meta.name}-{number}".replace(".", "-")
    affinity = "ClientIP" if service.spec.session_affinity == "ClientIP" else ""
    return SwitchLBRule(
        metadata=Meta(name=shorten_name(name)),
        spec=SwitchLBRuleSpec(
            vip=service.spec.cluster_ip,
            namespace=meta.namespace,
            endpoints=endpoints,
            session_affinity=affinity,
            ports=tuple(
                SwitchPort(name=b.name, port=b.port, target_port=b.target, protocol=b.protocol)
                for b in port_backends
            ),
        ),
    )


def _desired_vpc(network: Network, snapshot: Snapshot) -> Vpc:
    """The Vpc of a network, for all namespaces of its tenant."""
    tenant = parse_network_name(network.metadata.name).tenant
    namespaces = tuple(n.metadata.name for n in tenant_namespaces(tenant, snapshot))
    return Vpc(metadata=Meta(name=_vpc_name(network)), spec=VpcSpec(namespaces=namespaces))


def _vpc_name(network: Network) -> str:
    """The name of a network's Vpc: the network's with a dash for the dot."""
    return shorten_name(network.metadata.name.replace(".", "-"))


def _subnet_name(network: Network, subnet: Subnet) -> str:
    """The name of the kube-ovn Subnet: `TENANT-NETWORK-SUBNET`."""
    return shorten_name(f"{network.metadata.name.replace('.', '-')}-{subnet.name}")


def _desired_subnet(network: Network, subnet: Subnet) -> OvnSubnet:
    """The kube-ovn Subnet; its gateway is empty if the CIDR is malformed."""
    range_ = parse_range(subnet.cidr)
    gateway = str(gateway_address(range_)) if range_ is not None else ""
    return OvnSubnet(
        metadata=Meta(name=_subnet_name(network, subnet)),
        spec=OvnSubnetSpec(vpc=_vpc_name(network), cidr_block=subnet.cidr, gateway=gateway),
    )


def _is_ready(name: str, snapshot: Snapshot) -> bool:
    """Whether the kube-ovn Subnet of that name exists and has condition Ready=True."""
    current = snapshot.get(snapshot.local, OvnSubnet, name)
    conditions = (current.status.conditions if current is not None else None) or ()
    return any(c.type == "Ready" and c.status == "True" for c in conditions)
