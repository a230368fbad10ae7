"""The kube-ovn provider: Vpc, Subnets, SwitchLBRules and pod annotations."""

from collections.abc import Iterator

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
from hanse.features.networks.names import (
    FEATURE_NAME,
    MAX_NAME_LENGTH,
    NIC,
    parse_network_name,
    shorten_name,
)
from hanse.features.networks.pool_policies import ProviderSubnets
from hanse.features.networks.ports import PortPlan, is_waiting
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
from hanse.model.naming import unique_name
from hanse.model.objects import Meta, Object
from hanse.model.ownership import is_owned_by
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot, Watch, Writes

SWITCH = "ovn.kubernetes.io/logical_switch"
IP_ADDRESS = "ovn.kubernetes.io/ip_address"

MAX_RULE_NAME_LENGTH = MAX_NAME_LENGTH - len("slr-")
"""Characters of a SwitchLBRule's name: kube-ovn makes a Service `slr-NAME` of it."""

_KUBE_OVN, _PRODUCT = "networks as VPCs", "Kube-OVN"
_NOT_SERVED = "this cluster has no kube-ovn: kubeovn.io is not served"


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
        """Raise `InvalidInterface` if the interface is invalid or fits no subnet.

        Also if it requests a gateway's address, or a part of a subnet without an address.
        """
        _parse_supported_interface(network, annotations)

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """The Vpc and Subnets; Pending until every Subnet is ready.

        Failed, without objects, if kube-ovn is not served or a range is malformed.
        """
        if not is_served(Vpc, snapshot) or not is_served(OvnSubnet, snapshot):
            return ProvisionResult("Failed", _NOT_SERVED)
        if errors := list(malformed_ranges(network)):
            return ProvisionResult("Failed", "; ".join(errors))
        vpc = _desired_vpc(network, snapshot)
        subnets = tuple(
            _desired_subnet(network, s, snapshot) for s in network.spec.subnets or (DEFAULT_SUBNET,)
        )
        waiting = [s.metadata.name for s in subnets if not _is_ready(s.metadata.name, snapshot)]
        if waiting:
            message = f"waiting for Subnet {', '.join(waiting[:3])} of kube-ovn"
            return ProvisionResult("Pending", message, (vpc, *subnets))
        return ProvisionResult("Ready", "", (vpc, *subnets))

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """Keep the Vpc until its Subnets are gone, as kube-ovn needs it; `gone` once both are."""
        vpc = _vpc_name(network, snapshot)
        subnets = sorted(
            s.metadata.name for s in snapshot.all(snapshot.local, OvnSubnet) if s.spec.vpc == vpc
        )
        if subnets:
            message = f"kube-ovn removes {', '.join(subnets[:3])}"
            return ProvisionResult(
                "Pending", message, (_desired_vpc(network, snapshot),), gone=False
            )
        remaining = snapshot.get(snapshot.local, Vpc, vpc) is not None
        return ProvisionResult("Pending", f"kube-ovn removes {vpc}", gone=not remaining)

    def port(self, pod: Pod, network: Network, snapshot: Snapshot) -> PortPlan:
        """Ready with the annotations of Subnet and requested address for the pod; no objects.

        While the Subnets are not listed, as without kube-ovn, not ready, with a message only if the
        pod waits; a pod that has its annotations keeps them. Raises `InvalidInterface` as `check`
        does.
        """
        nic, subnet = _parse_supported_interface(network, pod.metadata.annotations)
        if not snapshot.listed(snapshot.local, OvnSubnet):  # the Subnet's name is not known
            return PortPlan(message=_NOT_SERVED if is_waiting(pod) else "")
        annotations = {SWITCH: _subnet_name(network, subnet, snapshot)}
        if nic.ip:
            annotations[IP_ADDRESS] = str(parse_address(nic.ip))
        return PortPlan(ready=True, annotations=annotations)

    def service(
        self,
        service: Service,
        backends: tuple[PortBackends, ...],
        network: Network,
        snapshot: Snapshot,
    ) -> tuple[Object, ...]:
        """One SwitchLBRule for each distinct set of ready endpoints, with the ports that have it.

        None for ports without ready endpoints.
        """
        rules: dict[tuple[str, ...], list[PortBackends]] = {}
        for backend in backends:
            if backend.addresses:
                rules.setdefault(backend.addresses, []).append(backend)
        return tuple(
            _load_balancer_rule(
                service,
                _rule_name(service, network, number, snapshot),
                endpoints,
                port_backends,
            )
            for number, (endpoints, port_backends) in enumerate(sorted(rules.items()))
        )


def _parse_supported_interface(
    network: Network, annotations: dict[str, str]
) -> tuple[InterfaceRequest, Subnet]:
    """The requested interface and the first subnet that matches it.

    Raises `InvalidInterface` if it is invalid or none matches, and for a gateway's address, or a
    part of a subnet without an address.
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
    service: Service, name: str, endpoints: tuple[str, ...], port_backends: list[PortBackends]
) -> SwitchLBRule:
    """The SwitchLBRule of a Service for one set of endpoints.

    It has the Service's cluster IP, and its ClientIP affinity.
    """
    affinity = "ClientIP" if service.spec.session_affinity == "ClientIP" else ""
    return SwitchLBRule(
        metadata=Meta(name=name),
        spec=SwitchLBRuleSpec(
            vip=service.spec.cluster_ip,
            namespace=service.metadata.namespace,
            endpoints=endpoints,
            session_affinity=affinity,
            ports=tuple(
                SwitchPort(name=b.name, port=b.port, target_port=b.target, protocol=b.protocol)
                for b in port_backends
            ),
        ),
    )


def _desired_vpc(network: Network, snapshot: Snapshot) -> Vpc:
    """The Vpc of a network, for all namespaces of its tenant that are not terminating."""
    tenant = parse_network_name(network.metadata.name).tenant
    namespaces = tuple(n.metadata.name for n in tenant_namespaces(tenant, snapshot))
    name = _vpc_name(network, snapshot)
    return Vpc(metadata=Meta(name=name), spec=VpcSpec(namespaces=namespaces))


def _vpc_name(network: Network, snapshot: Snapshot) -> str:
    """The name of a network's Vpc: that of the one it has, else `TENANT-NETWORK`.

    With a hash instead if that is ambiguous, too long, or taken.
    """
    return _own_name(Vpc, _network_key(network), _name_parts(network), snapshot)


def _subnet_name(network: Network, subnet: Subnet, snapshot: Snapshot) -> str:
    """The name of the kube-ovn Subnet: that of the one it has, else `TENANT-NETWORK-SUBNET`.

    With a hash instead if that is ambiguous, too long, or taken.
    """
    parts = (*_name_parts(network), subnet.name)
    return _own_name(OvnSubnet, _network_key(network), parts, snapshot)


def _rule_name(service: Service, network: Network, number: int, snapshot: Snapshot) -> str:
    """The name of a Service's SwitchLBRule for the set of endpoints with this number.

    That of the one it has, else `TENANT-NETWORK-NAMESPACE-SERVICE-NUMBER`; with a hash instead if
    that is ambiguous, too long, or taken.
    """
    meta = service.metadata
    parts = (*_name_parts(network), meta.namespace, meta.name, str(number))
    key = Key("service", meta.name, meta.namespace)
    return _own_name(SwitchLBRule, key, parts, snapshot, MAX_RULE_NAME_LENGTH)


def provider_subnets(snapshot: Snapshot) -> Iterator[ProviderSubnets]:
    """Each network of type kube-ovn with the names of its Subnets, whether or not these exist."""
    for network in snapshot.all(snapshot.local, Network):
        if network.spec.type == KubeOvnProvider.name:
            subnets = network.spec.subnets or (DEFAULT_SUBNET,)
            names = tuple(_subnet_name(network, subnet, snapshot) for subnet in subnets)
            yield ProviderSubnets(parse_network_name(network.metadata.name), names)


def _network_key(network: Network) -> Key:
    """The key that owns the Vpc and the Subnets of a network."""
    return Key("network", network.metadata.name)


def _name_parts(network: Network) -> tuple[str, str]:
    """The tenant of a network, and its name within the tenant."""
    name = parse_network_name(network.metadata.name)
    return name.tenant, name.network


def _own_name(
    kind: type[Object],
    key: Key,
    parts: tuple[str, ...],
    snapshot: Snapshot,
    limit: int = MAX_NAME_LENGTH,
) -> str:
    """The name of an object of a key: its parts with dashes, or with a hash if that is ambiguous.

    It is ambiguous if a part has other characters than letters and digits, if it is too long, or if
    another owner's object has it. A name that an object of this key has already stays.
    """
    plain = shorten_name("-".join(parts).replace(".", "-"), limit)
    unique = unique_name(*parts, most=limit)
    for name in (plain, unique):
        current = snapshot.get(snapshot.local, kind, name)
        if current is not None and is_owned_by(current, FEATURE_NAME, str(key), snapshot.local):
            return name
    ambiguous = not all(part.isalnum() for part in parts) or len("-".join(parts)) > limit
    return unique if ambiguous or snapshot.get(snapshot.local, kind, plain) is not None else plain


def _desired_subnet(network: Network, subnet: Subnet, snapshot: Snapshot) -> OvnSubnet:
    """The kube-ovn Subnet; its gateway is empty if the CIDR is malformed."""
    range_ = parse_range(subnet.cidr)
    gateway = str(gateway_address(range_)) if range_ is not None else ""
    return OvnSubnet(
        metadata=Meta(name=_subnet_name(network, subnet, snapshot)),
        spec=OvnSubnetSpec(
            vpc=_vpc_name(network, snapshot), cidr_block=subnet.cidr, gateway=gateway
        ),
    )


def _is_ready(name: str, snapshot: Snapshot) -> bool:
    """Whether the kube-ovn Subnet of that name exists and has condition Ready=True."""
    current = snapshot.get(snapshot.local, OvnSubnet, name)
    conditions = (current.status.conditions if current is not None else None) or ()
    return any(c.type == "Ready" and c.status == "True" for c in conditions)
