"""The core group: Services, Pods, Nodes, Secrets, Events and others."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from hanse.model.conditions import Condition, Truth
from hanse.model.objects import Kind, Object, Value, wire_field
from hanse.model.schema import Schema

Protocol = Literal["TCP", "UDP", "SCTP"]
IPFamily = Literal["IPv4", "IPv6"]
ServiceType = Literal["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]
Affinity = Literal["None", "ClientIP"]
TrafficPolicy = Literal["Cluster", "Local"]


class ObjectReference(Value, frozen=True, kw_only=True):
    """A pointer to another object of the same cluster."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class ObservedCondition(Value, frozen=True, kw_only=True):
    """A condition of a built-in kind, whose reason may be missing."""

    type: str
    status: Truth = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None

    @property
    def as_condition(self) -> Condition:
        """The same as a `metav1.Condition`; its reason may be empty."""
        return Condition(
            type=self.type,
            status=self.status,
            reason=self.reason,
            message=self.message,
            last_transition_time=self.last_transition_time,
        )


class ServicePort(Value, frozen=True, kw_only=True):
    """One port of a Service."""

    port: int
    name: str = ""
    protocol: Protocol = "TCP"
    app_protocol: str = ""
    target_port: int | str = 0
    """A number, or the name of a container port; 0 is defaulted to `port` by the API server."""
    node_port: int = 0


class ClientIPConfig(Value, frozen=True, kw_only=True):
    """How long one client stays with one endpoint."""

    timeout_seconds: Annotated[
        int, Schema("How long an idle client is remembered.", minimum=1, maximum=86400)
    ] = 10800


class SessionAffinityConfig(Value, frozen=True, kw_only=True):
    """The parameters of session affinity."""

    client_ip: Annotated[ClientIPConfig | None, Schema("Affinity by the client's address.")] = (
        wire_field("clientIP", None)
    )


class ServiceSpec(Value, frozen=True, kw_only=True):
    """The ports, type, addresses and selector of a Service."""

    type: ServiceType = "ClusterIP"
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = wire_field("clusterIP", "")
    cluster_ips: tuple[str, ...] = wire_field("clusterIPs", ())
    ip_families: tuple[IPFamily, ...] = ()
    ip_family_policy: str = ""
    external_ips: tuple[str, ...] = wire_field("externalIPs", ())
    external_name: str = ""
    external_traffic_policy: TrafficPolicy = "Cluster"
    internal_traffic_policy: TrafficPolicy = "Cluster"
    traffic_distribution: str = ""
    session_affinity: Affinity = "None"
    session_affinity_config: SessionAffinityConfig | None = None
    publish_not_ready_addresses: bool = False
    load_balancer_ip: str = wire_field("loadBalancerIP", "")
    load_balancer_class: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()
    allocate_load_balancer_node_ports: bool = True
    health_check_node_port: int = 0


class IngressPort(Value, frozen=True, kw_only=True):
    """A port that a load balancer serves, or why it does not."""

    port: int
    protocol: Protocol = "TCP"
    error: str = ""


PROXY = "Proxy"
"""The ipMode of an address whose packets leave the node: kube-proxy does not deliver them."""


class LoadBalancerIngress(Value, frozen=True, kw_only=True):
    """One address of a load balancer: an IP or a host name."""

    ip: str = ""
    ip_mode: str = ""
    hostname: str = ""
    ports: tuple[IngressPort, ...] = ()


class LoadBalancerStatus(Value, frozen=True, kw_only=True):
    """The addresses of a load balancer."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Value, frozen=True, kw_only=True):
    """The load balancer and conditions of a Service."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()
    conditions: tuple[Condition, ...] = ()


class Service(Object, frozen=True, kw_only=True):
    """A name and an address in front of changing endpoints."""

    kind: ClassVar[Kind] = Kind("", "v1", "Service", "services")
    allocated: ClassVar[frozenset[str]] = frozenset(
        {
            "spec.clusterIP",
            "spec.clusterIPs",
            "spec.ipFamilies",
            "spec.ipFamilyPolicy",
            "spec.ports.nodePort",
            "spec.ports.targetPort",
        }
    )

    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def headless(self) -> bool:
        """Whether `spec.clusterIP` is `None`."""
        return self.spec.cluster_ip == "None"


class NamespaceStatus(Value, frozen=True, kw_only=True):
    """Whether a namespace takes new objects."""

    phase: Literal["Active", "Terminating", ""] = ""


class Namespace(Object, frozen=True, kw_only=True):
    """A namespace of one cluster."""

    kind: ClassVar[Kind] = Kind("", "v1", "Namespace", "namespaces", namespaced=False)

    status: NamespaceStatus = NamespaceStatus()

    @property
    def terminating(self) -> bool:
        """Whether it has a deletionTimestamp or phase Terminating: nothing can be created in it."""
        return self.metadata.deletion_timestamp is not None or self.status.phase == "Terminating"


class NodeAddress(Value, frozen=True, kw_only=True):
    """One address of a node and its type."""

    type: str
    address: str


class Taint(Value, frozen=True, kw_only=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Value, frozen=True, kw_only=True):
    """How a node takes part in its cluster."""

    pod_cidr: str = wire_field("podCIDR", "")
    pod_cidrs: tuple[str, ...] = wire_field("podCIDRs", ())
    provider_id: str = wire_field("providerID", "")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeSystemInfo(Value, frozen=True, kw_only=True):
    """What a kubelet says of its machine."""

    boot_id: str = wire_field("bootID", "")
    """Another one after each start of the machine."""


class NodeStatus(Value, frozen=True, kw_only=True):
    """Where a node is reached and how it feels."""

    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[ObservedCondition, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Object, frozen=True, kw_only=True):
    """A machine of a cluster."""

    kind: ClassVar[Kind] = Kind("", "v1", "Node", "nodes", namespaced=False)

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether the node's own Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class Secret(Object, frozen=True, kw_only=True):
    """Confidential values, decoded; they never show in its `repr`."""

    kind: ClassVar[Kind] = Kind("", "v1", "Secret", "secrets")

    type: str = "Opaque"
    data: dict[str, bytes] = {}
    immutable: bool = False

    def __repr__(self) -> str:
        """Namespace, name, type and sorted keys of the data; the values are not shown."""
        keys = ", ".join(sorted(self.data))
        return f"Secret({self.namespace}/{self.name}, type={self.type!r}, keys=[{keys}])"


class EndpointsAddress(Value, frozen=True, kw_only=True):
    """One address of Endpoints."""

    ip: str = ""


class EndpointsPort(Value, frozen=True, kw_only=True):
    """One port of Endpoints."""

    name: str = ""
    port: int = 0
    protocol: Protocol = "TCP"


class EndpointsSubset(Value, frozen=True, kw_only=True):
    """Addresses that all serve the same ports."""

    addresses: tuple[EndpointsAddress, ...] = ()
    ports: tuple[EndpointsPort, ...] = ()


class Endpoints(Object, frozen=True, kw_only=True):
    """The backends of a Service as they were before EndpointSlices."""

    kind: ClassVar[Kind] = Kind("", "v1", "Endpoints", "endpoints")

    subsets: tuple[EndpointsSubset, ...] = ()


class ConfigMap(Object, frozen=True, kw_only=True):
    """Plain values for people and programs."""

    kind: ClassVar[Kind] = Kind("", "v1", "ConfigMap", "configmaps")

    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}
    immutable: bool = False


class ServiceAccount(Object, frozen=True, kw_only=True):
    """An identity for programs."""

    kind: ClassVar[Kind] = Kind("", "v1", "ServiceAccount", "serviceaccounts")


class ContainerPort(Value, frozen=True, kw_only=True):
    """A port that a container listens on."""

    container_port: int
    name: str = ""
    protocol: Protocol = "TCP"


class Container(Value, frozen=True, kw_only=True):
    """One container of a pod."""

    name: str
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()


class SchedulingGate(Value, frozen=True, kw_only=True):
    """A reason not to schedule a pod yet."""

    name: str


class DNSOption(Value, frozen=True, kw_only=True):
    """One resolver option, such as `ndots`."""

    name: str = ""
    value: str = ""


class PodDNSConfig(Value, frozen=True, kw_only=True):
    """The resolver settings of a pod."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[DNSOption, ...] = ()


class PodSpec(Value, frozen=True, kw_only=True):
    """The node, host name and DNS settings of a pod."""

    containers: tuple[Container, ...] = ()
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    dns_policy: Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"] = (
        "ClusterFirst"
    )
    dns_config: PodDNSConfig | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class PodIP(Value, frozen=True, kw_only=True):
    """One address of a pod."""

    ip: str


class PodStatus(Value, frozen=True, kw_only=True):
    """How far a pod has come."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown", ""] = ""
    pod_ip: str = wire_field("podIP", "")
    pod_ips: tuple[PodIP, ...] = wire_field("podIPs", ())
    host_ip: str = wire_field("hostIP", "")
    conditions: tuple[ObservedCondition, ...] = ()


class Pod(Object, frozen=True, kw_only=True):
    """A group of containers with one address."""

    kind: ClassVar[Kind] = Kind("", "v1", "Pod", "pods")

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether the pod's own Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class EventSource(Value, frozen=True, kw_only=True):
    """The source of an Event, in the older form that `kubectl` shows."""

    component: str = ""
    host: str = ""


class Event(Object, frozen=True, kw_only=True):
    """An Event about an object."""

    kind: ClassVar[Kind] = Kind("", "v1", "Event", "events")

    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: str | None = None
    """A MicroTime, which must keep its six digits."""
    source: EventSource = EventSource()
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
