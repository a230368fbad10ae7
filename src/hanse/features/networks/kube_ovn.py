"""Networks by kube-ovn, in clusters that have it: its Vpc and Subnets, and its words for pods."""

from hanse.features.networks.addresses import address_in, gateway_of
from hanse.features.networks.backends import Backend
from hanse.features.networks.names import NIC, fitted, parsed
from hanse.features.networks.nic import (
    DEFAULT_SUBNET,
    BadNic,
    Nic,
    nic_of,
    part_of,
    refuse_gateway,
    subnets_of,
)
from hanse.features.networks.ports import PortPlan
from hanse.features.networks.providers import Provision
from hanse.features.networks.ranges import malformed, range_in
from hanse.features.networks.sight import is_served, namespaces_of
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


class KubeOvnProvider:
    """Each network is a Vpc of kube-ovn's, each subnet one of its Subnets."""

    name = "kube-ovn"
    has_ports = True
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, Vpc, writes=Writes.OBJECTS),
        Watch(Role.LOCAL, OvnSubnet, writes=Writes.OBJECTS),
        Watch(Role.LOCAL, SwitchLBRule, writes=Writes.OBJECTS),
    )

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:  # noqa: ARG002 - the contract
        _asked(network, annotations)

    def up(self, network: Network, snapshot: Snapshot) -> Provision:
        if not is_served(Vpc, snapshot) or not is_served(OvnSubnet, snapshot):
            return Provision("Failed", "this cluster has no kube-ovn: kubeovn.io is not served")
        if faults := list(malformed(network)):
            return Provision("Failed", "; ".join(faults))
        vpc = _whole(network, snapshot)
        subnets = tuple(_subnet(network, s) for s in network.spec.subnets or (DEFAULT_SUBNET,))
        waiting = [s.metadata.name for s in subnets if not _is_ready(s.metadata.name, snapshot)]
        if waiting:
            told = f"waiting for Subnet {', '.join(waiting[:3])} of kube-ovn"
            return Provision("Pending", told, (vpc, *subnets))
        return Provision("Ready", "", (vpc, *subnets))

    def down(self, network: Network, snapshot: Snapshot) -> Provision:
        """Subnets first: kube-ovn does not take down a Vpc that has any."""
        subnets = sorted(
            s.metadata.name
            for s in snapshot.all(snapshot.local, OvnSubnet)
            if s.spec.vpc == _vpc(network)
        )
        if subnets:
            told = f"kube-ovn removes {', '.join(subnets[:3])}"
            return Provision("Pending", told, (_whole(network, snapshot),), gone=False)
        left = snapshot.get(snapshot.local, Vpc, _vpc(network)) is not None
        return Provision("Pending", f"kube-ovn removes {_vpc(network)}", gone=not left)

    def port(self, pod: Pod, network: Network, snapshot: Snapshot) -> PortPlan:  # noqa: ARG002 - the contract
        nic, subnet = _asked(network, pod.metadata.annotations)
        told = {SWITCH: _switch(network, subnet)}
        if nic.ip:
            told[IP_ADDRESS] = str(address_in(nic.ip))
        return PortPlan(ready=True, annotations=told)

    def service(
        self, service: Service, backends: tuple[Backend, ...], network: Network
    ) -> tuple[Object, ...]:
        """One rule for each set of endpoints: those of a port may differ from another's."""
        rules: dict[tuple[str, ...], list[Backend]] = {}
        for backend in backends:
            if backend.addresses:
                rules.setdefault(backend.addresses, []).append(backend)
        return tuple(
            _rule(service, network, number, endpoints, several)
            for number, (endpoints, several) in enumerate(sorted(rules.items()))
        )


def _asked(network: Network, annotations: dict[str, str]) -> tuple[Nic, Subnet]:
    """The interface and its subnet; raises `BadNic` for what kube-ovn cannot give."""
    nic = nic_of(annotations)
    subnet = subnets_of(network, nic)[0]
    refuse_gateway(nic, subnet)
    if not nic.ip and part_of(subnet, nic) != range_in(subnet.cidr):
        raise BadNic(
            f"metadata.annotations[{NIC}]: kube-ovn gives addresses of whole subnets; name subnet "
            f"{subnet.name} ({subnet.cidr}), or an ip"
        )
    return nic, subnet


def _rule(
    service: Service,
    network: Network,
    number: int,
    endpoints: tuple[str, ...],
    several: list[Backend],
) -> SwitchLBRule:
    meta = service.metadata
    name = f"{network.metadata.name}-{meta.namespace}-{meta.name}-{number}".replace(".", "-")
    affinity = "ClientIP" if service.spec.session_affinity == "ClientIP" else ""
    return SwitchLBRule(
        metadata=Meta(name=fitted(name)),
        spec=SwitchLBRuleSpec(
            vip=service.spec.cluster_ip,
            namespace=meta.namespace,
            endpoints=endpoints,
            session_affinity=affinity,
            ports=tuple(
                SwitchPort(name=b.name, port=b.port, target_port=b.target, protocol=b.protocol)
                for b in several
            ),
        ),
    )


def _whole(network: Network, snapshot: Snapshot) -> Vpc:
    """A network as a Vpc, for all namespaces of its tenant."""
    tenant = parsed(network.metadata.name).tenant
    spaces = tuple(n.metadata.name for n in namespaces_of(tenant, snapshot))
    return Vpc(metadata=Meta(name=_vpc(network)), spec=VpcSpec(namespaces=spaces))


def _vpc(network: Network) -> str:
    return fitted(network.metadata.name.replace(".", "-"))


def _switch(network: Network, subnet: Subnet) -> str:
    return fitted(f"{network.metadata.name.replace('.', '-')}-{subnet.name}")


def _subnet(network: Network, subnet: Subnet) -> OvnSubnet:
    range_ = range_in(subnet.cidr)
    gateway = str(gateway_of(range_)) if range_ is not None else ""
    return OvnSubnet(
        metadata=Meta(name=_switch(network, subnet)),
        spec=OvnSubnetSpec(vpc=_vpc(network), cidr_block=subnet.cidr, gateway=gateway),
    )


def _is_ready(name: str, snapshot: Snapshot) -> bool:
    standing = snapshot.get(snapshot.local, OvnSubnet, name)
    conditions = (standing.status.conditions if standing is not None else None) or ()
    return any(c.type == "Ready" and c.status == "True" for c in conditions)
