"""The values of an installation: names, types, defaults and descriptions."""

from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from hanse import __version__
from hanse.model.feature_names import FeatureName
from hanse.model.naming import ZONE


class _Values(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    pass


def _description(text: str, **bounds: Any) -> Meta:
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
    namespace: Annotated[str, _description("Where clusters share there.")] = "hanse-broker"


class DnsValues(_Values, frozen=True, kw_only=True):
    """The name server, beside the cluster's own."""

    enabled: Annotated[bool, _description("Whether it runs.")] = True
    replicas: Annotated[Replicas, _description("All of them answer.")] = 2
    zone: Annotated[str, _description("The zone of multi-cluster services.")] = ZONE
    cluster_ip: Annotated[
        str, _description("A fixed address of its Service, to forward to; empty: any.")
    ] = ""
    resources: Annotated[Resources, _description("Of each replica.")] = Resources()


class WebhooksValues(_Values, frozen=True, kw_only=True):
    """Admission: identity, tenancy, and what is refused at the door."""

    enabled: Annotated[bool, _description("Whether the agent answers API servers.")] = True


class DashboardValues(_Values, frozen=True, kw_only=True):
    """The page that shows what the agent sees."""

    enabled: Annotated[bool, _description("Whether it is served.")] = False
    token_secret: Annotated[str, _description("The Secret whose key `token` lets people in.")] = (
        "hanse-dashboard"  # noqa: S105
    )
    hosts: Annotated[
        str, _description("Names under which browsers reach it, parted by blanks.")
    ] = ""


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


def _anywhere() -> list[dict[str, Any]]:
    """Every address but link-local ones, among which are metadata services of clouds."""
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
    dashboard: Annotated[DashboardValues, _description("The page over what the agent sees.")] = (
        DashboardValues()
    )
    gslb: Annotated[GslbValues, _description("The federation of GSLB configurations.")] = (
        GslbValues()
    )
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
    """The values as a commented YAML file."""
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
    """The JSON schema of the values, by which Helm validates them."""
    (_,), parts = msgspec.json.schema_components([Values])
    for part in parts.values():
        part["additionalProperties"] = False
        part.pop("title", None)
        part.get("properties", {}).pop("global", None)
    parts["Values"]["properties"]["global"] = {"type": "object"}
    parts["Values"]["properties"]["clusterId"]["minLength"] = 1
    whole = {"$schema": "https://json-schema.org/draft-07/schema#", **parts.pop("Values")}
    return {**whole, "required": ["clusterId"], "$defs": parts}
