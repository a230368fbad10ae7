"""The values of an installation: names, types, defaults and descriptions."""

from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from hanse import __version__
from hanse.features.gslb.options import Provider
from hanse.features.networks.options import BUILT_IN_TEMPLATE
from hanse.model.feature_names import FeatureName
from hanse.model.naming import ZONE

CNI_CONFIG, CNI_PLUGINS = "/etc/cni/net.d", "/opt/cni/bin"
"""The usual folders of nodes with network configurations, and with CNI plugins."""


class _Values(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    pass


def _description(text: str, **bounds: Any) -> Meta:
    """The annotation of a value with its description and bounds."""
    return Meta(description=text, **bounds)


Replicas = Annotated[int, Meta(ge=0, le=100)]


class Image(_Values, frozen=True, kw_only=True):
    """The container image."""

    repository: Annotated[str, _description("Where it is pulled from.")] = "hanse"
    tag: Annotated[str, _description("Its tag; empty: the chart's own version.")] = ""
    pull_policy: Annotated[str, _description("When it is pulled.")] = "IfNotPresent"


class Resources(_Values, frozen=True, kw_only=True):
    """What a container asks for and may use at most."""

    requests: Annotated[dict[str, str], _description("What it asks for.")] = field(
        default_factory=lambda: {"cpu": "50m", "memory": "96Mi"}
    )
    limits: Annotated[dict[str, str], _description("What it may use at most.")] = field(
        default_factory=lambda: {"memory": "512Mi"}
    )


class AgentValues(_Values, frozen=True, kw_only=True):
    """The agent: it watches, decides and writes."""

    replicas: Annotated[Replicas, _description("One works, the others stand by.")] = 2
    resources: Annotated[Resources, _description("Of each replica.")] = Resources()


class BrokerValues(_Values, frozen=True, kw_only=True):
    """The API server by which clusters share services; `hanse join` writes the Secret."""

    enabled: Annotated[bool, _description("Whether this cluster has joined one.")] = True
    secret: Annotated[str, _description("The Secret with its kubeconfig.")] = "hanse-broker"  # noqa: S105
    context: Annotated[str, _description("The context there; empty: the current one.")] = ""
    namespace: Annotated[str, _description("Where clusters share there.")] = "hanse-broker"


class DnsValues(_Values, frozen=True, kw_only=True):
    """The name server, beside the cluster's own."""

    enabled: Annotated[bool, _description("Whether it runs.")] = True
    replicas: Annotated[Replicas, _description("All of them answer.")] = 2
    zone: Annotated[str, _description("The zone of multi-cluster services.")] = ZONE
    profile: Annotated[
        Literal["", "lighthouse", "kep-1645"],
        _description("Whose rules it follows; empty: those that the broker names."),
    ] = ""
    local_first: Annotated[
        bool, _description("Whether the cluster's own address is answered when it is ready.")
    ] = True
    global_zones: Annotated[
        list[str], _description("Zones whose global hosts are answered, too.")
    ] = []
    regions: Annotated[
        list[str],
        _description("Clusters that are near to clients, as 198.51.100.0/24=bergen."),
    ] = []
    trusted_resolvers: Annotated[
        list[str],
        _description("Networks of resolvers whose word about their clients' subnets is taken."),
    ] = []
    forward: Annotated[
        list[str], _description("Servers that are asked about other zones; none: it refuses them.")
    ] = []
    allow_transfer: Annotated[
        list[str], _description("Networks that may have whole zones, as 192.0.2.0/24.")
    ] = []
    workers: Annotated[
        int, _description("Processes that answer; 0: one per core, four at most.", ge=0, le=64)
    ] = 0
    rate_limit: Annotated[
        int, _description("Answers per second to one network; 0: no limit.", ge=0)
    ] = 20_000
    log_every: Annotated[int, _description("Log one question in so many; 0: none.", ge=0)] = 0
    cluster_ip: Annotated[
        str, _description("A fixed address of its Service, to forward to; empty: any.")
    ] = ""
    resources: Annotated[Resources, _description("Of each replica.")] = Resources()


class WebhooksValues(_Values, frozen=True, kw_only=True):
    """Admission: identity, tenancy, and what the webhooks refuse."""

    enabled: Annotated[bool, _description("Whether the agent answers API servers.")] = True
    url: Annotated[
        str, _description("Where API servers find it; empty: by the Service hanse-webhooks.")
    ] = ""


class DashboardValues(_Values, frozen=True, kw_only=True):
    """The page that shows what the agent sees."""

    enabled: Annotated[bool, _description("Whether it is served.")] = False
    token_secret: Annotated[str, _description("The Secret whose key `token` lets people in.")] = (
        "hanse-dashboard"  # noqa: S105
    )
    hosts: Annotated[
        str, _description("Names under which browsers reach it, parted by blanks.")
    ] = ""


class ConsoleValues(_Values, frozen=True, kw_only=True):
    """The page over the whole fleet, for people with their own tokens."""

    enabled: Annotated[bool, _description("Whether it runs, beside one agent of the fleet.")] = (
        False
    )
    kubeconfig_secret: Annotated[
        str,
        _description(
            "The Secret whose key `kubeconfig` has a context for each other cluster, to read it; "
            "without it the console shows its own cluster."
        ),
    ] = "hanse-console"  # noqa: S105
    hosts: Annotated[list[str], _description("Names under which browsers reach it.")] = []
    resources: Annotated[Resources, _description("Of its pod.")] = Resources()


class GslbValues(_Values, frozen=True, kw_only=True):
    """This cluster's part in the federation of GSLB configurations."""

    enabled: Annotated[bool, _description("Whether an AMKOCluster is made.")] = False
    is_leader: Annotated[
        bool, _description("Whether its configuration is copied to the others.")
    ] = False
    cluster_context: Annotated[
        str, _description("The context of this cluster; empty: its clusterId.")
    ] = ""
    clusters: Annotated[list[str], _description("The contexts of the members.")] = []
    providers: Annotated[
        list[Provider],
        _description("Who publishes global hosts while this cluster leads.", min_length=1),
    ] = field(default_factory=lambda: ["dns"])
    withdraw: Annotated[
        list[Provider], _description("Providers no longer used, whose records are to go.")
    ] = []
    weighted_records: Annotated[
        bool, _description("Whether ExternalDNS gets a record per member with its weight.")
    ] = False


class PublishingValues(_Values, frozen=True, kw_only=True):
    """The names of services in other DNS; in one cluster of the fleet."""

    zone: Annotated[str, _description("The zone below which they are; empty: nothing is.")] = ""
    endpoints: Annotated[
        str, _description("The namespace of DNSEndpoints, which ExternalDNS reads.")
    ] = ""
    weighted_records: Annotated[
        bool, _description("Whether ExternalDNS gets a record per cluster with its weight.")
    ] = False
    server: Annotated[str, _description("The name server that takes updates (RFC 2136).")] = ""
    key_secret: Annotated[
        str, _description("The Secret whose key `key` is its TSIG key, as tsig-keygen writes it.")
    ] = ""


class StatefulSetsValues(_Values, frozen=True, kw_only=True):
    """The names of replicas of federated StatefulSets; the same in the whole fleet."""

    replica_zone: Annotated[str, _description("The zone of replicas.")] = "example.com"
    federation: Annotated[str, _description("The federation's own name within it.")] = (
        "myfederation"
    )


class FederatedValues(_Values, frozen=True, kw_only=True):
    """Federated Services."""

    hostname: Annotated[
        str,
        _description("The name outside of each, as {name}.{namespace}.example.org; empty: none."),
    ] = ""


class NetworksValues(_Values, frozen=True, kw_only=True):
    """The networks of tenants."""

    template: Annotated[
        str,
        _description("The network that each new tenant gets, as JSON or YAML; empty: none."),
    ] = BUILT_IN_TEMPLATE
    providers: Annotated[
        list[str],
        _description("Where networks with ipam External get addresses, as mizar=https://HOST."),
    ] = []
    trusts: Annotated[
        list[str],
        _description("Users to whom the rules of tenants do not apply, beside Hanse's own."),
    ] = []
    dns: Annotated[
        Literal["hanse", "coredns", "shared"],
        _description(
            "What answers the names of networks: two pods of hanse or coredns for each, or one "
            "Deployment of hanse that all flat networks share, by the address that asks."
        ),
    ] = "hanse"
    dns_replicas: Annotated[Replicas, _description("Of the shared Deployment.")] = 2
    dns_image: Annotated[
        str, _description("Its image; empty: our own for hanse, else coredns.")
    ] = ""
    guard: Annotated[
        bool, _description("Whether `hanse guard` keeps networks apart on every node.")
    ] = False
    cni: Annotated[
        bool,
        _description("Whether guards check what each pod sends by its port, as a CNI plugin."),
    ] = False
    cni_config: Annotated[str, _description("The folder of nodes with network configurations.")] = (
        CNI_CONFIG
    )
    cni_plugins: Annotated[str, _description("The folder of nodes with CNI plugins.")] = CNI_PLUGINS
    admin_policies: Annotated[
        bool, _description("Whether ClusterNetworkPolicies are written, where they are served.")
    ] = False


def _anywhere() -> list[dict[str, Any]]:
    """Egress peers: all addresses but link-local ones, where clouds have metadata services."""
    return [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10"]}},
    ]


class EgressValues(_Values, frozen=True, kw_only=True):
    """What our pods may connect to: DNS, and API servers, of which the broker is one."""

    enabled: Annotated[bool, _description("Whether a NetworkPolicy says so.")] = True
    to: Annotated[
        list[dict[str, Any]],
        _description("Where API servers are, as `to` of a NetworkPolicy."),
    ] = field(default_factory=_anywhere)
    ports: Annotated[
        list[dict[str, Any]],
        _description("Their ports, as `ports` of a NetworkPolicy: also those behind Services."),
    ] = field(
        default_factory=lambda: [{"protocol": "TCP", "port": port} for port in (443, 6443, 8443)]
    )


class Values(_Values, frozen=True, kw_only=True):
    """All values."""

    cluster_id: Annotated[
        str,
        _description(
            "This cluster's name in the fleet: a DNS label. Required.",
            pattern="^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
        ),
    ] = ""
    features: Annotated[
        list[FeatureName],
        _description(
            "What the agent does; rights, kinds and namespaces follow. Both federated and policies "
            "bring membership along.",
            min_length=1,
        ),
    ] = field(default_factory=lambda: list(get_args(FeatureName)))
    image: Annotated[Image, _description("The container image.")] = Image()
    agent: Annotated[AgentValues, _description("The agent.")] = AgentValues()
    broker: Annotated[BrokerValues, _description("The broker of multi-cluster services.")] = (
        BrokerValues()
    )
    dns: Annotated[DnsValues, _description("The name server.")] = DnsValues()
    webhooks: Annotated[WebhooksValues, _description("Admission.")] = WebhooksValues()
    console: Annotated[ConsoleValues, _description("The page over the whole fleet.")] = (
        ConsoleValues()
    )
    dashboard: Annotated[DashboardValues, _description("The page over what the agent sees.")] = (
        DashboardValues()
    )
    gslb: Annotated[GslbValues, _description("The federation of GSLB configurations.")] = (
        GslbValues()
    )
    publishing: Annotated[PublishingValues, _description("Names of services in other DNS.")] = (
        PublishingValues()
    )
    statefulsets: Annotated[StatefulSetsValues, _description("Names of replicas.")] = (
        StatefulSetsValues()
    )
    federated: Annotated[FederatedValues, _description("Federated Services.")] = FederatedValues()
    networks: Annotated[NetworksValues, _description("The networks of tenants.")] = NetworksValues()
    network_policy: Annotated[
        bool, _description("Whether a NetworkPolicy says who may connect to our own pods.")
    ] = True
    egress: Annotated[EgressValues, _description("What our own pods may connect to.")] = (
        EgressValues()
    )
    node_selector: Annotated[dict[str, str], _description("Where pods run.")] = {}
    tolerations: Annotated[list[dict[str, str]], _description("What they tolerate.")] = []
    priority_class_name: Annotated[str, _description("How important they are.")] = (
        "system-cluster-critical"
    )

    @property
    def tag(self) -> str:
        """The image's tag: the one chosen, else our own version."""
        return self.image.tag or __version__


def values_yaml(values: Struct, indent: str = "") -> str:
    """The values as YAML, each with its description as a comment above it.

    `indent` is put before each line; without it, a blank line follows each top-level value.
    """
    lines: list[str] = []
    hints = get_type_hints(type(values), include_extras=True)
    for one in msgspec.structs.fields(values):
        value = getattr(values, one.name)
        about = next(
            (m.description for m in hints[one.name].__metadata__ if getattr(m, "description", "")),
            "",
        )
        lines.append(f"{indent}# {about}")
        if isinstance(value, Struct):
            lines.append(f"{indent}{one.encode_name}:")
            lines.append(values_yaml(value, f"{indent}  ").rstrip("\n"))
        else:
            lines.append(f"{indent}{one.encode_name}: {msgspec.json.encode(value).decode()}")
        if not indent:
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema of the values, by which Helm validates them.

    It requires clusterId and refuses unknown values, except `global`, which Helm adds.
    """
    (_,), parts = msgspec.json.schema_components([Values])
    for part in parts.values():
        part["additionalProperties"] = False
        part.pop("title", None)
        part.get("properties", {}).pop("global", None)
    parts["Values"]["properties"]["global"] = {"type": "object"}
    parts["Values"]["properties"]["clusterId"]["minLength"] = 1
    whole = {"$schema": "https://json-schema.org/draft-07/schema#", **parts.pop("Values")}
    return {**whole, "required": ["clusterId"], "$defs": parts}
