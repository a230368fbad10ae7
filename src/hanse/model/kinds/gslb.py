"""The group `amko.vmware.com`: global load balancing, and whose configuration leads."""

from typing import Annotated, ClassVar, Literal

from hanse.model.conditions import MAX_MESSAGE_LENGTH
from hanse.model.kinds.field_types import Address, ContextName
from hanse.model.objects import Kind, Object, Value, wire_field
from hanse.model.schema import SUBDOMAIN, Column, Crd, Schema, ValidationRule

GROUP = "amko.vmware.com"
NAMESPACE = "avi-system"

Algorithm = Literal[
    "GSLB_ALGORITHM_CONSISTENT_HASH",
    "GSLB_ALGORITHM_GEO",
    "GSLB_ALGORITHM_ROUND_ROBIN",
    "GSLB_ALGORITHM_TOPOLOGY",
]
FallbackAlgorithm = Literal["GSLB_ALGORITHM_CONSISTENT_HASH", "GSLB_ALGORITHM_ROUND_ROBIN"]
WhenDown = Literal[
    "GSLB_SERVICE_DOWN_RESPONSE_NONE",
    "GSLB_SERVICE_DOWN_RESPONSE_ALL_RECORDS",
    "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP",
    "GSLB_SERVICE_DOWN_RESPONSE_EMPTY",
]

Name = Annotated[str, Schema(max_length=253)]
Seconds = Annotated[int | None, Schema(minimum=0, maximum=86400)]
Share = Annotated[int, Schema(minimum=1, maximum=20)]
Priority = Annotated[int, Schema(minimum=0, maximum=100)]
HashMask = Annotated[int | None, Schema(minimum=1, maximum=31)]
MonitorNames = Annotated[
    tuple[Name, ...], Schema("Health monitors that watch the members.", max_items=64)
]

_ONE_SOURCE_OF_MONITORS = ValidationRule(
    "!has(self.healthMonitorTemplate) || !has(self.healthMonitorRefs)"
    " || size(self.healthMonitorRefs) == 0",
    "give either healthMonitorRefs or healthMonitorTemplate",
    ".healthMonitorTemplate",
)


class AMKOClusterSpec(Value, frozen=True, kw_only=True):
    """What this cluster is in the federation of GSLB configurations."""

    is_leader: Annotated[
        bool, Schema("Whether this cluster's configuration is copied to others.", default=False)
    ] = False
    cluster_context: Annotated[Name, Schema("The kubeconfig context of this cluster.")] = ""
    version: Annotated[
        str, Schema("The version that runs here; members must have the same.", max_length=63)
    ] = ""
    clusters: Annotated[
        tuple[ContextName, ...], Schema("The contexts of the members.", max_items=100)
    ] = ()


class StageCondition(Value, frozen=True, kw_only=True):
    """How one stage of the federation ended."""

    type: Annotated[str, Schema("The stage.", max_length=316)]
    status: Annotated[str, Schema("How it ended.", max_length=1024)]
    reason: Annotated[str, Schema("Why, naming the clusters.", max_length=MAX_MESSAGE_LENGTH)] = ""


class AMKOClusterStatus(Value, frozen=True, kw_only=True):
    """How the federation of configurations stands."""

    conditions: Annotated[
        tuple[StageCondition, ...],
        Schema("Each stage, in the order they run.", keys=("type",), max_items=16),
    ] = ()


class AMKOCluster(Object, frozen=True, kw_only=True):
    """Says whether this cluster's GSLB configuration leads, and which clusters follow."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1alpha1", "AMKOCluster", "amkoclusters")
    crd: ClassVar[Crd] = Crd(
        short_names=("amko",),
        columns=(
            Column("Leader", ".spec.isLeader", "boolean"),
            Column("Context", ".spec.clusterContext"),
            Column("Version", ".spec.version"),
        ),
    )

    spec: Annotated[AMKOClusterSpec, Schema(filled=True)] = AMKOClusterSpec()
    status: AMKOClusterStatus = AMKOClusterStatus()


class GSLBLeader(Value, frozen=True, kw_only=True):
    """The Avi controller that leads."""

    credentials: Annotated[Name, Schema("The Secret with its user name and password.")] = ""
    controller_version: Annotated[str, Schema("Its API version.", max_length=63)] = ""
    controller_ip: Annotated[Name, Schema("Its address or host name.")] = wire_field(
        "controllerIP", ""
    )
    tenant: Annotated[Name, Schema("The tenant that global services belong to.")] = ""


class MemberCluster(Value, frozen=True, kw_only=True):
    """A cluster whose applications are load balanced."""

    cluster_context: Annotated[ContextName, Schema("The kubeconfig context of the cluster.")]


class GSLBConfigSpec(Value, frozen=True, kw_only=True):
    """The controller and the clusters of global load balancing."""

    gslb_leader: Annotated[GSLBLeader, Schema("The Avi controller that leads.")] = GSLBLeader()
    member_clusters: Annotated[
        tuple[MemberCluster, ...],
        Schema("The clusters that take part.", keys=("clusterContext",), max_items=100),
    ] = ()
    refresh_interval: Annotated[
        int | None,
        Schema("Seconds between readings of the Avi controller.", minimum=0, maximum=86400),
    ] = None
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARN", "ERROR"],
        Schema("From which level on the cluster's agent logs; INFO: as it was started."),
    ] = "INFO"
    use_custom_global_fqdn: Annotated[
        bool, Schema("Whether HostRules of AKO give global host names.", default=False)
    ] = False


class GSLBConfigStatus(Value, frozen=True, kw_only=True):
    """Whether the configuration is in use."""

    state: Annotated[str, Schema("What became of it.", max_length=1024)] = ""


class GSLBConfig(Object, frozen=True, kw_only=True):
    """Which clusters are load balanced globally, and by which controller."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1alpha1", "GSLBConfig", "gslbconfigs")
    crd: ClassVar[Crd] = Crd(
        short_names=("gc",),
        columns=(
            Column("Controller", ".spec.gslbLeader.controllerIP"),
            Column("State", ".status.state"),
        ),
    )

    spec: GSLBConfigSpec
    status: GSLBConfigStatus = GSLBConfigStatus()


class LabelMatch(Value, frozen=True, kw_only=True):
    """Labels that an object must have, all of them."""

    label: Annotated[dict[str, str], Schema("The labels.", max_properties=32)] = {}


class MatchRules(Value, frozen=True, kw_only=True):
    """Which applications get a global service; both selectors must match, if given."""

    app_selector: Annotated[LabelMatch | None, Schema("By the application's labels.")] = None
    namespace_selector: Annotated[LabelMatch | None, Schema("By its namespace's labels.")] = None


class MatchCluster(Value, frozen=True, kw_only=True):
    """A cluster whose applications are chosen."""

    cluster: Annotated[ContextName, Schema("The cluster's context.")]
    sync_vip_only: Annotated[
        bool, Schema("Take its addresses only and check their health from here.", default=False)
    ] = False


class TrafficSplit(Value, frozen=True, kw_only=True):
    """One cluster's part of the traffic."""

    cluster: Annotated[ContextName, Schema("The cluster's context.")]
    weight: Annotated[Share, Schema("Its share among clusters of its priority.")] = 1
    priority: Annotated[Priority, Schema("The highest that is up takes all traffic.")] = 10


class TrafficOverride(Value, frozen=True, kw_only=True):
    """One cluster's part of one host's traffic; what is not said is as the policy says."""

    cluster: Annotated[ContextName, Schema("The cluster's context.")]
    weight: Annotated[
        int | None, Schema("Its share among clusters of its priority.", minimum=1, maximum=20)
    ] = None
    priority: Annotated[
        int | None, Schema("The highest that is up takes all traffic.", minimum=0, maximum=100)
    ] = None


class GeoFallback(Value, frozen=True, kw_only=True):
    """What to do with clients of unknown location."""

    lb_algorithm: Annotated[FallbackAlgorithm, Schema("How a member is chosen then.")] = (
        "GSLB_ALGORITHM_ROUND_ROBIN"
    )
    hash_mask: Annotated[HashMask, Schema("Bits of the client's address that count.")] = None


class PoolAlgorithm(Value, frozen=True, kw_only=True):
    """How a member is chosen for a client."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.lbAlgorithm != 'GSLB_ALGORITHM_CONSISTENT_HASH' || has(self.hashMask)",
            "hashMask is needed for a consistent hash",
            ".hashMask",
        ),
    )

    lb_algorithm: Annotated[Algorithm, Schema("The algorithm.")] = "GSLB_ALGORITHM_ROUND_ROBIN"
    hash_mask: Annotated[HashMask, Schema("Bits of the client's address that count.")] = None
    geo_fallback: Annotated[
        GeoFallback | None, Schema("What to do with clients of unknown location.")
    ] = None


class DownResponse(Value, frozen=True, kw_only=True):
    """What DNS answers while every member is down."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.type != 'GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP' || has(self.fallbackIP)",
            "fallbackIP is needed for this type",
            ".fallbackIP",
        ),
    )

    type: Annotated[WhenDown, Schema("The kind of answer.")]
    fallback_ip: Annotated[Address, Schema("The address to answer with.")] = wire_field(
        "fallbackIP", ""
    )


class GlobalDeploymentPolicySpec(Value, frozen=True, kw_only=True):
    """Which applications get global services, and how their traffic is divided."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (_ONE_SOURCE_OF_MONITORS,)

    match_rules: Annotated[MatchRules, Schema("Which applications; no selector: none.")] = (
        MatchRules()
    )
    match_clusters: Annotated[
        tuple[MatchCluster, ...],
        Schema("Which clusters' applications.", keys=("cluster",), max_items=100),
    ] = ()
    traffic_split: Annotated[
        tuple[TrafficSplit, ...],
        Schema("How traffic is divided.", keys=("cluster",), max_items=100),
    ] = ()
    ttl: Annotated[Seconds, Schema("How long an answer may be kept, in seconds.")] = None
    health_monitor_refs: MonitorNames = ()
    health_monitor_template: Annotated[Name, Schema("A monitor to make others from.")] = ""
    control_plane_hm_only: Annotated[
        bool, Schema("Health by the cluster's readiness alone, no probes.", default=False)
    ] = False
    site_persistence_ref: Annotated[Name, Schema("The profile that keeps clients at a site.")] = ""
    pki_profile_ref: Annotated[Name, Schema("The profile that checks sites' certificates.")] = ""
    default_domain: Annotated[Name, Schema("The domain of Services without a host name.")] = ""
    pool_algorithm_settings: Annotated[
        PoolAlgorithm | None, Schema("How a member is chosen for a client.")
    ] = None
    down_response: Annotated[
        DownResponse | None, Schema("What DNS answers while every member is down.")
    ] = None


class PolicyStatus(Value, frozen=True, kw_only=True):
    """Whether the policy is in use."""

    error_status: Annotated[str, Schema("What is wrong, naming the field.", max_length=4096)] = ""
    warnings: Annotated[
        tuple[str, ...], Schema("What is chosen and is not balanced, and why.", max_items=101)
    ] = ()


class GlobalDeploymentPolicy(Object, frozen=True, kw_only=True):
    """Chooses applications of all clusters and divides the traffic to them."""

    kind: ClassVar[Kind] = Kind(
        GROUP, "v1alpha2", "GlobalDeploymentPolicy", "globaldeploymentpolicies"
    )
    crd: ClassVar[Crd] = Crd(
        short_names=("gdp",),
        columns=(Column("Error", ".status.errorStatus"),),
    )

    spec: GlobalDeploymentPolicySpec
    status: PolicyStatus = PolicyStatus()


class ThirdPartyMember(Value, frozen=True, kw_only=True):
    """A member that no cluster runs."""

    vip: Annotated[Address, Schema("Its address.")]
    site: Annotated[Name, Schema("Its site.")] = ""
    public_ip: Annotated[Address, Schema("Its address as seen from outside.")] = wire_field(
        "publicIP", ""
    )


class PublicAddress(Value, frozen=True, kw_only=True):
    """The address under which the world reaches a cluster's member."""

    cluster: Annotated[ContextName, Schema("The cluster's context.")]
    ip: Annotated[Address, Schema("The public address.")]


class SitePersistence(Value, frozen=True, kw_only=True):
    """Whether a client stays at the site it came to first."""

    enabled: Annotated[bool, Schema("Whether it does.", default=False)] = False
    profile_ref: Annotated[Name, Schema("The profile to use.")] = ""
    pki_profile_ref: Annotated[Name, Schema("The PKI profile to use with it.")] = ""


class GSLBHostRuleSpec(Value, frozen=True, kw_only=True):
    """What is different for one host name."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (_ONE_SOURCE_OF_MONITORS,)

    fqdn: Annotated[str, Schema("The host name.", pattern=SUBDOMAIN, min_length=1, max_length=253)]
    ttl: Annotated[Seconds, Schema("How long an answer may be kept, in seconds.")] = None
    owners: Annotated[
        tuple[Name, ...],
        Schema("Namespaces that may serve it; else the first that claimed it.", max_items=100),
    ] = ()
    traffic_split: Annotated[
        tuple[TrafficOverride, ...],
        Schema("How traffic is divided.", keys=("cluster",), max_items=100),
    ] = ()
    third_party_members: Annotated[
        tuple[ThirdPartyMember, ...], Schema("Members that no cluster runs.", max_items=100)
    ] = ()
    public_ip: Annotated[
        tuple[PublicAddress, ...],
        Schema(
            "Public addresses of clusters' members, one of each family.",
            keys=("cluster", "ip"),
            max_items=200,
        ),
    ] = wire_field("publicIP", ())
    health_monitor_refs: MonitorNames = ()
    health_monitor_template: Annotated[Name, Schema("A monitor to make others from.")] = ""
    pool_algorithm_settings: Annotated[
        PoolAlgorithm | None, Schema("How a member is chosen for a client.")
    ] = None
    down_response: Annotated[
        DownResponse | None, Schema("What DNS answers while every member is down.")
    ] = None
    site_persistence: Annotated[
        SitePersistence | None, Schema("Whether clients stay at a site.")
    ] = None
    control_plane_hm_only: Annotated[
        bool | None, Schema("Health by the cluster's readiness alone, no probes.")
    ] = None


class HostRuleStatus(Value, frozen=True, kw_only=True):
    """Whether the rule is in use."""

    status: Annotated[
        Literal["Accepted", "Rejected", ""], Schema("Whether the rule is in use.")
    ] = ""
    error: Annotated[str, Schema("What is wrong, naming the field.", max_length=4096)] = ""
    warnings: Annotated[
        tuple[str, ...], Schema("What of the rule is not used, and why.", max_items=20)
    ] = ()


class GSLBHostRule(Object, frozen=True, kw_only=True):
    """Changes the global service of one host name."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1alpha1", "GSLBHostRule", "gslbhostrules")
    crd: ClassVar[Crd] = Crd(
        short_names=("ghr",),
        columns=(
            Column("Host", ".spec.fqdn"),
            Column("Status", ".status.status"),
            Column("Error", ".status.error", priority=1),
        ),
    )

    spec: GSLBHostRuleSpec
    status: HostRuleStatus = HostRuleStatus()
