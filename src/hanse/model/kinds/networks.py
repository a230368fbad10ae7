"""The group `arktos.futurewei.com`: tenants and the networks they have to themselves."""

from typing import Annotated, ClassVar, Literal

from hanse.model.conditions import MAX_MESSAGE_LENGTH
from hanse.model.kinds.field_types import Address, Cidr, Conditions
from hanse.model.objects import Kind, Object, Value, wire_field
from hanse.model.schema import LABEL, Column, Crd, Schema, ValidationRule

GROUP = "arktos.futurewei.com"

Phase = Literal["Pending", "Ready", "Failed", "Unknown", "Terminating", ""]
IPAM = Literal["Arktos", "Kubernetes", "External", ""]

Label = Annotated[str, Schema(pattern=LABEL, min_length=1, max_length=63)]
TENANT_DOT_NETWORK = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\.[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class TenantAdmin(Value, frozen=True, kw_only=True):
    """Somebody who administers a tenant, as RBAC knows them."""

    kind: Annotated[Literal["User", "Group", "ServiceAccount"], Schema("What it names.")] = "User"
    name: Annotated[str, Schema("The name.", min_length=1, max_length=253)]
    namespace: Annotated[str, Schema("The namespace of a ServiceAccount.", max_length=63)] = ""


class TenantSpec(Value, frozen=True, kw_only=True):
    """What a tenant is given when it is created."""

    admins: Annotated[
        tuple[TenantAdmin, ...],
        Schema("Who may write its Networks, beside the cluster's administrators.", max_items=64),
    ] = ()

    namespaces: Annotated[
        tuple[Label, ...],
        Schema("Namespaces to create, each as <tenant>-<name>.", unique=True, max_items=64),
    ] = ()


class TenantStatus(Value, frozen=True, kw_only=True):
    """What a tenant has."""

    default_network: Annotated[str, Schema("Its default network.", max_length=127)] = ""
    conditions: Conditions = ()


class Tenant(Object, frozen=True, kw_only=True):
    """Somebody with namespaces and networks of their own."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "Tenant", "tenants", namespaced=False)
    crd: ClassVar[Crd] = Crd(
        short_names=("ten",),
        columns=(Column("Network", ".status.defaultNetwork"),),
        name=Schema(pattern=LABEL, max_length=63),
    )

    spec: TenantSpec = TenantSpec()
    status: TenantStatus = TenantStatus()


class NetworkService(Value, frozen=True, kw_only=True):
    """Where the addresses of a network's Services come from."""

    ipam: Annotated[
        IPAM, Schema("Who gives them out; Arktos where there are cidrs, else Kubernetes.")
    ] = ""
    cidrs: Annotated[
        tuple[Cidr, ...], Schema("The ranges, used in this order.", max_items=16, unique=True)
    ] = ()


class Subnet(Value, frozen=True, kw_only=True):
    """A part of a network's addresses."""

    name: Annotated[Label, Schema("The subnet's name.")]
    cidr: Annotated[Cidr, Schema("Its range.")]


class NetworkSpec(Value, frozen=True, kw_only=True):
    """What kind of network it is, and whose."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.type != 'vpc' || has(self.vpcID)", "vpcID is needed for type vpc", ".vpcID"
        ),
    )

    type: Annotated[
        Label, Schema("The provider: flat, vpc, mizar or another's name.", immutable=True)
    ]
    tenant: Annotated[Label, Schema("The tenant it belongs to.", immutable=True)] = ""
    vpc_id: Annotated[
        str,
        Schema("The provider's id of a vpc network.", min_length=1, max_length=253, immutable=True),
    ] = wire_field("vpcID", "")
    service: Annotated[NetworkService, Schema("Where Service addresses come from.")] = (
        NetworkService()
    )
    subnets: Annotated[
        tuple[Subnet, ...],
        Schema("Subnets of a vpc network.", keys=("name",), max_items=64),
    ] = ()


class NetworkStatus(Value, frozen=True, kw_only=True):
    """How far a network has come."""

    phase: Annotated[Phase, Schema("Where it is in its life.")] = ""
    message: Annotated[str, Schema("Why it is there.", max_length=MAX_MESSAGE_LENGTH)] = ""
    dns_service_ip: Annotated[Address, Schema("The address of its DNS.")] = wire_field(
        "dnsServiceIP", ""
    )
    service_cidrs: Annotated[
        tuple[Cidr, ...],
        Schema("The ranges of its Services that an external provider named.", max_items=16),
    ] = wire_field("serviceCIDRs", ())
    conditions: Conditions = ()


class Network(Object, frozen=True, kw_only=True):
    """A network of a tenant: pods and Services in it see only each other."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "Network", "networks", namespaced=False)
    crd: ClassVar[Crd] = Crd(
        short_names=("ne", "net"),
        columns=(
            Column("Type", ".spec.type"),
            Column("VPC", ".spec.vpcID"),
            Column("Phase", ".status.phase"),
            Column("DNS", ".status.dnsServiceIP"),
        ),
        rules=(
            ValidationRule(
                "has(self.spec.tenant) && self.metadata.name.startsWith(self.spec.tenant + '.')",
                "the object's name must be <spec.tenant>.<network>, such as acme.default",
                ".spec.tenant",
            ),
        ),
        name=Schema(pattern=TENANT_DOT_NETWORK, max_length=127),
    )

    spec: NetworkSpec
    status: NetworkStatus = NetworkStatus()

    @property
    def service_cidrs(self) -> tuple[str, ...]:
        """The CIDRs of its Services: of its spec, or else those that its provider put in status."""
        return self.spec.service.cidrs or self.status.service_cidrs


class PortHolder(Value, frozen=True, kw_only=True):
    """The pod that a port is for."""

    namespace: Annotated[str, Schema("The pod's namespace.", max_length=63)]
    name: Annotated[str, Schema("The pod's name.", max_length=253)]
    uid: Annotated[str, Schema("Of that very pod, not of one named alike.", max_length=63)]


class NetworkPortSpec(Value, frozen=True, kw_only=True):
    """An address of a network and who has it."""

    network: Annotated[
        str,
        Schema(
            "The network, as <tenant>.<network>.",
            pattern=TENANT_DOT_NETWORK,
            max_length=127,
            immutable=True,
        ),
    ]
    subnet: Annotated[Label, Schema("The subnet's name.", immutable=True)]
    address: Annotated[Address, Schema("The address.", immutable=True)]
    mac: Annotated[
        str,
        Schema("The hardware address.", pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$", immutable=True),
    ]
    pod: Annotated[PortHolder, Schema("The pod that has it.", immutable=True)]


class NetworkPort(Object, frozen=True, kw_only=True):
    """A port of a network; its name is made of network and address, so there is one for each."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "NetworkPort", "networkports", namespaced=False)
    crd: ClassVar[Crd] = Crd(
        short_names=("nep",),
        columns=(
            Column("Network", ".spec.network"),
            Column("Address", ".spec.address"),
            Column("Namespace", ".spec.pod.namespace"),
            Column("Pod", ".spec.pod.name"),
        ),
        status=False,
    )

    spec: NetworkPortSpec


class NetworkPeeringSpec(Value, frozen=True, kw_only=True):
    """Which two networks shall reach each other."""

    network: Annotated[
        Label, Schema("The network of this namespace's tenant, by its short name.", immutable=True)
    ] = "default"
    peer: Annotated[
        str,
        Schema(
            "The other network, as <tenant>.<network>.",
            pattern=TENANT_DOT_NETWORK,
            max_length=127,
            immutable=True,
        ),
    ]


class NetworkPeeringStatus(Value, frozen=True, kw_only=True):
    """Whether both sides agree."""

    phase: Annotated[
        Literal["Pending", "Ready", "Failed", ""], Schema("Ready once the other side agrees.")
    ] = ""
    tenant_uid: Annotated[
        str, Schema("The tenant that agrees: not a later one of its name.", max_length=63)
    ] = wire_field("tenantUID", "")
    peer_tenant_uid: Annotated[str, Schema("The tenant it agrees with.", max_length=63)] = (
        wire_field("peerTenantUID", "")
    )
    conditions: Conditions = ()


class NetworkPeering(Object, frozen=True, kw_only=True):
    """One tenant's consent that its network reaches another's; it holds once both consent."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "NetworkPeering", "networkpeerings")
    crd: ClassVar[Crd] = Crd(
        short_names=("nepeer",),
        columns=(
            Column("Network", ".spec.network"),
            Column("Peer", ".spec.peer"),
            Column("Phase", ".status.phase"),
        ),
    )

    spec: NetworkPeeringSpec
    status: NetworkPeeringStatus = NetworkPeeringStatus()


class AccessPort(Value, frozen=True, kw_only=True):
    """A port of the side that answers."""

    protocol: Annotated[Literal["TCP", "UDP", "SCTP"], Schema("The protocol.")] = "TCP"
    port: Annotated[int, Schema("The port.", minimum=1, maximum=65535)]


class AccessPeer(Value, frozen=True, kw_only=True):
    """The other side: pods of the platform, machines outside the cluster, or nodes."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "(has(self.namespace) ? 1 : 0) + (has(self.cidr) ? 1 : 0) + "
            "(has(self.nodes) && self.nodes ? 1 : 0) == 1",
            "exactly one of namespace, cidr and nodes is needed",
        ),
    )

    namespace: Annotated[
        str, Schema("The pods of a namespace without a tenant.", min_length=1, max_length=63)
    ] = ""
    cidr: Annotated[
        Cidr, Schema("Addresses outside the cluster; those of pods and nodes are never meant.")
    ] = ""
    nodes: Annotated[bool, Schema("The nodes of the cluster.")] = False
    ports: Annotated[tuple[AccessPort, ...], Schema("Ports; without any, all.", max_items=32)] = ()


class NetworkAccessSpec(Value, frozen=True, kw_only=True):
    """What the platform allows networks beside themselves."""

    networks: Annotated[
        tuple[Annotated[str, Schema(max_length=127)], ...],
        Schema("Networks, as <tenant>.<network>, <tenant>.* or *.", min_items=1, max_items=256),
    ]
    from_: Annotated[
        tuple[AccessPeer, ...], Schema("Who may open connections to their pods.", max_items=64)
    ] = wire_field("from", ())
    to: Annotated[
        tuple[AccessPeer, ...], Schema("What their pods may open connections to.", max_items=64)
    ] = ()


class NetworkAccess(Object, frozen=True, kw_only=True):
    """What the platform lets networks reach, and who may reach them; for administrators."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "NetworkAccess", "networkaccesses", namespaced=False)
    crd: ClassVar[Crd] = Crd(
        short_names=("neacc",),
        columns=(Column("Networks", ".spec.networks"),),
        status=False,
    )

    spec: NetworkAccessSpec
