"""The group `networking.k8s.io`: Ingresses, NetworkPolicies, ServiceCIDRs and IPAddresses."""

from typing import Annotated, ClassVar, Literal

from hanse.model.kinds.core import LoadBalancerStatus, ObservedCondition, Protocol
from hanse.model.objects import Kind, Object, Value, wire_field
from hanse.model.schema import Schema

GROUP = "networking.k8s.io"


class IngressService(Value, frozen=True, kw_only=True):
    """The Service that a path leads to."""

    name: str = ""


class IngressBackend(Value, frozen=True, kw_only=True):
    """The backend of a path."""

    service: IngressService | None = None


class IngressPath(Value, frozen=True, kw_only=True):
    """One path of a host."""

    path: str = ""
    path_type: str = ""
    backend: IngressBackend = IngressBackend()


class IngressPaths(Value, frozen=True, kw_only=True):
    """The paths of a host."""

    paths: tuple[IngressPath, ...] | None = ()


class IngressRule(Value, frozen=True, kw_only=True):
    """One host and its paths."""

    host: str = ""
    http: IngressPaths | None = None


class IngressTLS(Value, frozen=True, kw_only=True):
    """Hosts that are served with TLS."""

    hosts: tuple[str, ...] = ()
    secret_name: str = ""


class IngressSpec(Value, frozen=True, kw_only=True):
    """Which hosts lead where."""

    ingress_class_name: str | None = None
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTLS, ...] = ()


class IngressStatus(Value, frozen=True, kw_only=True):
    """Where the hosts are reached."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Ingress(Object, frozen=True, kw_only=True):
    """An Ingress, which is only read."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "Ingress", "ingresses")

    spec: IngressSpec = IngressSpec()
    status: IngressStatus = IngressStatus()


class LabelRequirement(Value, frozen=True, kw_only=True):
    """A condition on one label."""

    key: Annotated[str, Schema("The label.", min_length=1, max_length=317)]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], Schema("How values are compared.")
    ]
    values: Annotated[
        tuple[str, ...], Schema("The values of In and NotIn; else none.", max_items=100)
    ] = ()


class LabelSelector(Value, frozen=True, kw_only=True):
    """A condition on labels; an empty one selects everything."""

    match_labels: Annotated[dict[str, str], Schema("Labels and their values.")] = {}
    match_expressions: Annotated[
        tuple[LabelRequirement, ...], Schema("Conditions that all must hold.", max_items=100)
    ] = ()


class IPBlock(Value, frozen=True, kw_only=True):
    """A range of addresses, with holes."""

    cidr: str
    except_: tuple[str, ...] = wire_field("except", ())


class PolicyPeer(Value, frozen=True, kw_only=True):
    """A peer of a policy: both selectors must match."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class PolicyPort(Value, frozen=True, kw_only=True):
    """A port, or a range of ports; none means any."""

    protocol: Protocol = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class IngressPolicyRule(Value, frozen=True, kw_only=True):
    """Traffic that may come in; no peers means from anybody."""

    from_: tuple[PolicyPeer, ...] = wire_field("from", ())
    ports: tuple[PolicyPort, ...] = ()


class EgressPolicyRule(Value, frozen=True, kw_only=True):
    """Traffic that may go out; no peers means to anybody."""

    to: tuple[PolicyPeer, ...] = ()
    ports: tuple[PolicyPort, ...] = ()


class NetworkPolicySpec(Value, frozen=True, kw_only=True):
    """The pods of a policy, and the traffic it allows."""

    pod_selector: LabelSelector = LabelSelector()
    policy_types: tuple[Literal["Ingress", "Egress"], ...] = ()
    ingress: tuple[IngressPolicyRule, ...] | None = ()
    egress: tuple[EgressPolicyRule, ...] | None = ()


class NetworkPolicy(Object, frozen=True, kw_only=True):
    """Limits the traffic of pods."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "NetworkPolicy", "networkpolicies")

    spec: NetworkPolicySpec = NetworkPolicySpec()


class ServiceCIDRSpec(Value, frozen=True, kw_only=True):
    """Ranges, one per IP family at most."""

    cidrs: tuple[str, ...] = ()


class ServiceCIDRStatus(Value, frozen=True, kw_only=True):
    """Whether addresses are given out."""

    conditions: tuple[ObservedCondition, ...] = ()


class ServiceCIDR(Object, frozen=True, kw_only=True):
    """A range that the API server takes ClusterIPs from."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "ServiceCIDR", "servicecidrs", namespaced=False)
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1beta1",)

    spec: ServiceCIDRSpec = ServiceCIDRSpec()
    status: ServiceCIDRStatus = ServiceCIDRStatus()


class ParentReference(Value, frozen=True, kw_only=True):
    """The object that uses an address."""

    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


class IPAddressSpec(Value, frozen=True, kw_only=True):
    """The object that uses an address."""

    parent_ref: ParentReference | None = None


class IPAddress(Object, frozen=True, kw_only=True):
    """A ClusterIP in use; the object is named by the address."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "IPAddress", "ipaddresses", namespaced=False)
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1beta1",)

    spec: IPAddressSpec = IPAddressSpec()
