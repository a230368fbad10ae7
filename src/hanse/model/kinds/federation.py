"""The group `antreaplus.vmware-tanzu.com`: who is in a federation, and what is not a pod."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from hanse.model.kinds.core import Protocol
from hanse.model.kinds.field_types import (
    Address,
    Cidr,
    ClusterName,
    Conditions,
    ObjectName,
    PortNumber,
)
from hanse.model.kinds.hanse import MemberRanges
from hanse.model.objects import ClusterId, Kind, Object, Value, wire_field
from hanse.model.schema import LABEL, Column, Crd, Schema, ValidationRule

GROUP = "antreaplus.vmware-tanzu.com"
VERSION = "v1alpha1"
SYSTEM = "antrea-plus-system"
"""The namespace of members' Secrets, of the Leases of their leaders, and of their records."""

CLUSTER_ID = "id.k8s.io"
CLUSTER_SET = "clusterset.k8s.io"
SUPERVISOR = "supervisor.antreaplus.tanzu-vmware.com"

_PORT_NAME = f"^({LABEL.strip('^$')})?$"
_IS_AN_ID = "self.value.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')"


class ClusterClaim(Object, frozen=True, kw_only=True):
    """A statement of this cluster about itself, such as its id."""

    kind: ClassVar[Kind] = Kind(GROUP, VERSION, "ClusterClaim", "clusterclaims", namespaced=False)
    crd: ClassVar[Crd] = Crd(
        short_names=("claim",),
        columns=(Column("Value", ".value"),),
        rules=(
            ValidationRule(
                f"(has(self.name) ? self.name : self.metadata.name) != '{CLUSTER_ID}'"
                f" || {_IS_AN_ID}",
                "a cluster id is a label: up to 63 small letters, digits and dashes",
                ".value",
            ),
        ),
        status=False,
    )

    value: Annotated[str, Schema("What is claimed.", max_length=1024)]
    claim: Annotated[
        str,
        Schema("What the claim is about; by default the object's name.", max_length=253),
    ] = wire_field("name", "")

    @property
    def about(self) -> str:
        """The name of what is claimed, in lower case: field `name`, or else the object's name."""
        return (self.claim or self.metadata.name).lower()


class ClusterIdClaim(Value, frozen=True, kw_only=True):
    """A cluster id, written as the ClusterClaim that states it."""

    name: Annotated[str, Schema("It is `id.k8s.io`.", pattern=r"^id\.k8s\.io$")] = ""
    value: Annotated[ClusterName, Schema("The cluster id.")]


class ClusterSetClaim(Value, frozen=True, kw_only=True):
    """The federation's name, written as the ClusterClaim that states it."""

    name: Annotated[
        str, Schema("It is `clusterSet.k8s.io`.", pattern=r"^cluster[sS]et\.k8s\.io$")
    ] = ""
    value: Annotated[str, Schema("The federation's name.", max_length=253)]


class Member(Value, frozen=True, kw_only=True):
    """A member cluster and the way to it."""

    id_as_written: Annotated[
        str | ClusterIdClaim,
        Schema(
            "The member's cluster id: a string, or a claim with `name` and `value`.",
            pattern=LABEL,
            min_length=1,
            max_length=63,
        ),
    ] = wire_field("clusterID")
    server: Annotated[
        str,
        Schema("The URL of its API server.", pattern=r"^https?://[^\s/]+\S*$", max_length=2048),
    ]
    secret: Annotated[
        ObjectName,
        Schema("The Secret with `token` and `ca.crt`, in the namespace antrea-plus-system."),
    ]

    @property
    def cluster_id(self) -> ClusterId:
        """The member's cluster id, however it is written."""
        written = self.id_as_written
        return written if isinstance(written, str) else written.value


class FederationSpec(Value, frozen=True, kw_only=True):
    """Who is in the federation; a child cluster may leave the members out."""

    set_as_written: Annotated[
        str | ClusterSetClaim,
        Schema(
            "The federation's name: a string, or a claim with `name` and `value`.", max_length=253
        ),
    ] = wire_field("clusterSet", "")
    members: Annotated[
        tuple[Member, ...], Schema("Its members, each with an id of its own.", max_items=1000)
    ] = ()
    ranges: Annotated[
        tuple[Cidr, ...],
        Schema(
            "The address ranges of this cluster, if they are others than podCIDRs of its nodes and "
            "its ServiceCIDRs.",
            unique=True,
            max_items=64,
        ),
    ] = ()

    @property
    def cluster_set(self) -> str:
        """The federation's name, however it is written; empty if it is not."""
        written = self.set_as_written
        return written if isinstance(written, str) else written.value


class MemberState(Value, frozen=True, kw_only=True):
    """How one member stands."""

    cluster_id: Annotated[ClusterName, Schema("The member's cluster id.")] = wire_field("clusterID")
    reachable: Annotated[bool, Schema("Whether its API server answers.")] = False
    leader: Annotated[str, Schema("The supervisor that leads it.", max_length=253)] = ""
    since: Annotated[datetime | None, Schema("Since when this is so.")] = None
    leaving: Annotated[bool, Schema("Whether it is no longer named, and not left yet.")] = False
    server: Annotated[str, Schema("The URL that it was named with.", max_length=2048)] = ""
    secret: Annotated[str, Schema("The Secret that it was named with.", max_length=253)] = ""
    supervisor: Annotated[bool, Schema("Whether it supervises the federation, too.")] = False
    message: Annotated[
        str, Schema("Why it is not reachable or cannot be led, and the remedy.", max_length=2048)
    ] = ""
    reason: Annotated[
        str,
        Schema(
            "Why it is not reachable, where another `hanse join` mends it: CredentialsRejected, "
            "CertificateUntrusted or AgentForbidden.",
            max_length=64,
        ),
    ] = ""
    token_digest: Annotated[
        str, Schema("A digest of the token by which it was last reached.", max_length=64)
    ] = ""


class AbandonedMember(Value, frozen=True, kw_only=True):
    """A cluster that was given up, and what of ours stayed behind there."""

    cluster_id: Annotated[ClusterName, Schema("Its cluster id.")] = wire_field("clusterID")
    since: Annotated[datetime | None, Schema("Since when.")] = None
    objects: Annotated[
        int, Schema("How many objects this supervisor knew to be left there.", minimum=0)
    ] = 0
    names: Annotated[
        tuple[str, ...], Schema("The first of them, by kind and name.", max_items=100)
    ] = ()


class FederationStatus(Value, frozen=True, kw_only=True):
    """How the federation stands, as this cluster sees it."""

    leaders: Annotated[
        tuple[str, ...], Schema("Supervisors that lead members.", unique=True, max_items=100)
    ] = ()
    members: Annotated[
        tuple[MemberState, ...],
        Schema("Each member's state.", keys=("clusterID",), max_items=1000),
    ] = ()
    retiring: Annotated[
        tuple[str, ...],
        Schema(
            "Members that this cluster supervises no longer, and not handed over yet.",
            unique=True,
            max_items=1000,
        ),
    ] = ()
    abandoned: Annotated[
        tuple[AbandonedMember, ...],
        Schema("Clusters that were given up.", keys=("clusterID",), max_items=100),
    ] = ()
    ranges: Annotated[
        MemberRanges,
        Schema("This cluster's own address ranges: it takes no addresses of others in them."),
    ] = MemberRanges()
    conditions: Conditions = ()


class Federation(Object, frozen=True, kw_only=True):
    """The federation that this cluster belongs to; a cluster has one."""

    kind: ClassVar[Kind] = Kind(GROUP, VERSION, "Federation", "federations", namespaced=False)
    crd: ClassVar[Crd] = Crd(
        short_names=("fed",),
        columns=(
            Column("ClusterSet", ".spec.clusterSet"),
            Column("Leaders", ".status.leaders"),
        ),
    )

    spec: FederationSpec = FederationSpec()
    status: FederationStatus = FederationStatus()


class InterfaceAddress(Value, frozen=True, kw_only=True):
    """One address of a machine's network interface."""

    address: Annotated[Address, Schema("The IP address.")]
    address_type: Annotated[
        Literal["InternalIP", "ExternalIP"], Schema("Whether it is reached from outside.")
    ] = "InternalIP"


class MachineInterface(Value, frozen=True, kw_only=True):
    """A network interface of a machine."""

    name: Annotated[str, Schema("The interface's name.", max_length=253)] = ""
    ips: Annotated[tuple[InterfaceAddress, ...], Schema("Its addresses.", max_items=64)] = ()


class VirtualMachineSpec(Value, frozen=True, kw_only=True):
    """What is known of a machine."""

    id: Annotated[str, Schema("The machine's id at its cloud.", max_length=253)] = ""
    tags: Annotated[
        dict[str, str], Schema("Its tags; some make it a Service.", max_properties=256)
    ] = {}
    network_interfaces: Annotated[
        tuple[MachineInterface, ...], Schema("Its network interfaces.", max_items=64)
    ] = ()


class VirtualMachineStatus(Value, frozen=True, kw_only=True):
    """Whether the machine runs."""

    state: Annotated[str, Schema("Its state; none told counts as running.", max_length=63)] = ""
    conditions: Conditions = ()


class VirtualMachine(Object, frozen=True, kw_only=True):
    """A machine outside the cluster that can be a Service in it."""

    kind: ClassVar[Kind] = Kind(GROUP, VERSION, "VirtualMachine", "virtualmachines")
    crd: ClassVar[Crd] = Crd(
        short_names=("apvm",),
        columns=(
            Column("ID", ".spec.id"),
            Column("State", ".status.state"),
        ),
    )

    spec: VirtualMachineSpec = VirtualMachineSpec()
    status: VirtualMachineStatus = VirtualMachineStatus()


class NetworkInterfaceSpec(Value, frozen=True, kw_only=True):
    """The addresses of an interface."""

    internal_ip: Annotated[Address, Schema("The address inside its network.")] = wire_field(
        "internalIP", ""
    )
    external_ip: Annotated[Address, Schema("The address seen from outside, if any.")] = wire_field(
        "externalIP", ""
    )


class NetworkInterface(Object, frozen=True, kw_only=True):
    """A network interface of something that a cloud runs."""

    kind: ClassVar[Kind] = Kind(GROUP, VERSION, "NetworkInterface", "networkinterfaces")
    crd: ClassVar[Crd] = Crd(
        short_names=("apnic",),
        columns=(
            Column("Internal", ".spec.internalIP"),
            Column("External", ".spec.externalIP"),
        ),
        status=False,
    )

    spec: NetworkInterfaceSpec = NetworkInterfaceSpec()

    @property
    def address(self) -> str:
        """The address others use: the external one, or else the internal one; may be empty."""
        return self.spec.external_ip or self.spec.internal_ip


class NativePort(Value, frozen=True, kw_only=True):
    """One port of a native service."""

    port: Annotated[PortNumber, Schema("The port's number.")]
    name: Annotated[str, Schema("The port's name, a label.", pattern=_PORT_NAME, max_length=63)] = (
        ""
    )
    protocol: Annotated[Protocol, Schema("The transport protocol.")] = "TCP"


class NativeServiceSpec(Value, frozen=True, kw_only=True):
    """Where a native service is reached."""

    network_interface: Annotated[
        ObjectName, Schema("The NetworkInterface it listens on, in the same namespace.")
    ]
    ports: Annotated[tuple[NativePort, ...], Schema("Its ports.", max_items=100)] = ()


class NativeServiceStatus(Value, frozen=True, kw_only=True):
    """Whether it is part of what it wants to join."""

    conditions: Conditions = ()


class NativeService(Object, frozen=True, kw_only=True):
    """A service that a cloud runs, such as a database, which can join federated Services."""

    kind: ClassVar[Kind] = Kind(GROUP, VERSION, "NativeService", "nativeservices")
    crd: ClassVar[Crd] = Crd(
        short_names=("nsvc",),
        columns=(Column("Interface", ".spec.networkInterface"),),
    )

    spec: NativeServiceSpec
    status: NativeServiceStatus = NativeServiceStatus()


DOMAINS = (
    "antreaplus.vmware.com",
    "antreaplus.vmware-tanzu.com",
    "antreaplus.vmware-tanzue.com",
    "antreaplus.tanzu-vmware.com",
)
"""The spellings of the label domain in the published design, all of which are read."""


SERVICE_RECORD = "federated.hanse.dev/record"
"""Label of a leader's ConfigMap with the record of a member Service."""
LEDGER_RECORD = "ledger.hanse.dev/of"
"""Label of a leader's ConfigMap with a page or a record of a ledger."""


def label_spellings(name: str) -> tuple[str, ...]:
    """The keys `<name>.<domain>` of a label, one for every spelling of the domain."""
    return tuple(f"{name}.{domain}" for domain in DOMAINS)


def spelled_label(labels: Mapping[str, str], name: str) -> str:
    """The key of label `<name>.<domain>` as spelled in labels, the first spelling of several.

    If the label is absent, its key in the first spelling.
    """
    return next((s for s in label_spellings(name) if s in labels), label_spellings(name)[0])


def spelled_value(labels: Mapping[str, str], name: str) -> str | None:
    """The value of a label in any spelling, the first of several; None if it is absent."""
    return next((labels[s] for s in label_spellings(name) if s in labels), None)
