"""The group `hanse.dev`: the fleet itself, and stateful sets spread over it."""

from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal

from hanse.model.kinds.field_types import Cidr, ClusterName, Conditions, Count, NamespaceName
from hanse.model.objects import Kind, Object, Value, wire_field
from hanse.model.schema import Column, Crd, Scale, Schema, ValidationRule

Profile = Literal["lighthouse", "kep-1645"]
EndpointSource = Literal["pods", "serviceIPs"]
LighthouseVersion = Literal["0.14", "0.15"]
Weight = Annotated[int, Schema(minimum=0, maximum=1000)]
FeatureTitle = Annotated[str, Schema(min_length=1, max_length=63)]

MAX_LEASE_SECONDS = 3600
"""The longest time that a silent cluster can count as alive."""


class MemberSettings(Value, frozen=True, kw_only=True):
    """What one cluster may publish, and how much of the traffic it takes."""

    id: Annotated[ClusterName, Schema("The cluster's id.")]
    ranges: Annotated[
        tuple[Cidr, ...],
        Schema("The only address ranges it may publish; none: any.", unique=True, max_items=64),
    ] = ()
    namespaces: Annotated[
        tuple[NamespaceName, ...],
        Schema(
            "The only namespaces whose services it may publish; none: any.",
            unique=True,
            max_items=256,
        ),
    ] = ()
    weight: Annotated[Weight, Schema("Its share of DNS answers, relative to other clusters.")] = 1
    priority: Annotated[
        int,
        Schema(
            "The ready clusters of the highest priority answer; others stand by.",
            minimum=0,
            maximum=100,
        ),
    ] = 10


class ClusterSetSpec(Value, frozen=True, kw_only=True):
    """How the clusters of a set work together."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "!has(self.endpoints) || self.endpoints != 'pods' || self.profile == 'kep-1645'",
            "pods needs profile kep-1645: lighthouse answers names with addresses of Services",
            ".endpoints",
        ),
    )

    profile: Annotated[
        Profile, Schema("Whose rules services follow where the two designs differ.")
    ] = "lighthouse"
    endpoints: Annotated[
        EndpointSource | None,
        Schema(
            "What clusters publish for a Service that is not headless: the addresses of its pods, "
            "or its own. The default is pods in kep-1645, else serviceIPs."
        ),
    ] = None
    paused: Annotated[
        bool, Schema("Stops the writes of all agents; status and DNS go on.", default=False)
    ] = False
    lease_duration_seconds: Annotated[
        int,
        Schema("How long a silent cluster counts as alive.", minimum=2, maximum=MAX_LEASE_SECONDS),
    ] = 30
    lighthouse: Annotated[
        LighthouseVersion | None,
        Schema(
            "Publish exports also as Submariner Lighthouse up to 0.14, or since 0.15, reads them, "
            "for clusters that are not upgraded yet. The default is to do so while one of them "
            "publishes a service itself."
        ),
    ] = None
    clusters: Annotated[
        tuple[MemberSettings, ...],
        Schema("Settings of single clusters.", keys=("id",), max_items=1000),
    ] = ()

    @property
    def endpoint_source(self) -> EndpointSource:
        """What clusters publish for a Service that is not headless: pods' addresses, or its own.

        `endpoints` decides, by default pods; with profile lighthouse it is always `serviceIPs`.
        """
        pods = self.profile == "kep-1645" and self.endpoints != "serviceIPs"
        return "pods" if pods else "serviceIPs"

    @property
    def lease_duration(self) -> timedelta:
        """How long a cluster that does not renew its Lease counts as alive."""
        return timedelta(seconds=self.lease_duration_seconds)


class JoinedCluster(Value, frozen=True, kw_only=True):
    """A cluster that has joined the set."""

    id: Annotated[ClusterName, Schema("The cluster's id.")]
    alive: Annotated[bool, Schema("Whether it renews its Lease.")] = False


class ClusterSetStatus(Value, frozen=True, kw_only=True):
    """What the set looks like now."""

    clusters: Annotated[
        tuple[JoinedCluster, ...],
        Schema("The clusters that have joined.", keys=("id",), max_items=1000),
    ] = ()
    conditions: Conditions = ()


class ClusterSet(Object, frozen=True, kw_only=True):
    """The rules of one fleet of clusters; there is one on the broker, or the oldest counts."""

    kind: ClassVar[Kind] = Kind(
        "hanse.dev", "v1alpha1", "ClusterSet", "clustersets", namespaced=False
    )
    crd: ClassVar[Crd] = Crd(
        short_names=("cset",),
        columns=(
            Column("Profile", ".spec.profile"),
            Column("Paused", ".spec.paused", "boolean"),
        ),
    )

    spec: Annotated[ClusterSetSpec, Schema(filled=True)] = ClusterSetSpec()
    status: ClusterSetStatus = ClusterSetStatus()


MemberPhase = Literal["Joining", "Ready", "Leaving", "Left", "Replaced"]


class MemberRanges(Value, frozen=True, kw_only=True):
    """The address ranges of one cluster."""

    pods: Annotated[
        tuple[Cidr, ...], Schema("The ranges of its pods.", unique=True, max_items=64)
    ] = ()
    services: Annotated[
        tuple[Cidr, ...], Schema("The ranges of its Services.", unique=True, max_items=16)
    ] = ()


class ClusterMemberSpec(Value, frozen=True, kw_only=True):
    """Which cluster has joined under an id, and what it takes part in."""

    cluster_id: Annotated[ClusterName, Schema("The cluster's id, as the name of this object.")] = (
        wire_field("clusterID")
    )
    uid: Annotated[
        str, Schema("The uid of its namespace kube-system.", min_length=1, max_length=128)
    ]
    features: Annotated[
        tuple[FeatureTitle, ...],
        Schema("The features that its agent runs.", unique=True, max_items=64),
    ] = ()
    ranges: Annotated[MemberRanges, Schema("Its address ranges, as far as they are known.")] = (
        MemberRanges()
    )


class MemberAgent(Value, frozen=True, kw_only=True):
    """The agent of a member."""

    version: Annotated[str, Schema("The version of Hanse that it runs.", max_length=64)] = ""
    token_digest: Annotated[
        str, Schema("A digest of the token with which it renews its Lease.", max_length=64)
    ] = ""


class ClusterMemberStatus(Value, frozen=True, kw_only=True):
    """Where a member is between joining and leaving."""

    phase: Annotated[
        MemberPhase,
        Schema(
            "Joining until its agent has published everything, then Ready; Leaving until all is "
            "withdrawn, then Left; Replaced if another cluster got its id."
        ),
    ] = "Joining"
    epoch: Annotated[Count, Schema("How many clusters have had this id.")] = 1
    since: Annotated[datetime | None, Schema("When the phase began.")] = None
    agent: Annotated[MemberAgent, Schema("Its agent.")] = MemberAgent()
    rules: Annotated[
        ClusterSetSpec | None,
        Schema("The rules of the ClusterSet as its agent last saw them; they stand if it is lost."),
    ] = None
    moving: Annotated[
        bool,
        Schema(
            "Whether its fleet moves between brokers: what it published stands, whether it renews "
            "its Lease here or not.",
            default=False,
        ),
    ] = False
    abandoned: Annotated[
        bool,
        Schema(
            "Whether it was made to leave without being asked, so that what Hanse wrote in the "
            "cluster itself stands until its agent runs again.",
            default=False,
        ),
    ] = False


class ClusterMember(Object, frozen=True, kw_only=True):
    """The record of one cluster that has joined a broker, in the broker's namespace.

    An administrator creates it by `hanse join`; from then on its own agent keeps it.
    """

    kind: ClassVar[Kind] = Kind("hanse.dev", "v1alpha1", "ClusterMember", "clustermembers")
    crd: ClassVar[Crd] = Crd(
        short_names=("cmem",),
        columns=(
            Column("Phase", ".status.phase"),
            Column("Since", ".status.since", "date"),
            Column("Version", ".status.agent.version"),
        ),
    )

    spec: ClusterMemberSpec
    status: ClusterMemberStatus = ClusterMemberStatus()

    @property
    def has_left(self) -> bool:
        """Whether `status.phase` is Left or Replaced, which is final."""
        return self.status.phase in ("Left", "Replaced")


class ClusterPreference(Value, frozen=True, kw_only=True):
    """How many replicas one cluster should get."""

    validation_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "!has(self.max) || self.min <= self.max", "must not be greater than max", ".min"
        ),
    )

    name: Annotated[ClusterName, Schema("The cluster's id.")]
    weight: Annotated[Weight, Schema("Its share of the replicas, relative to the others.")] = 1
    min: Annotated[Count, Schema("Replicas it gets at least.", default=0)] = 0
    max: Annotated[int | None, Schema("Replicas it gets at most.", minimum=0)] = None


class Placement(Value, frozen=True, kw_only=True):
    """How replicas are spread over the clusters."""

    clusters: Annotated[
        tuple[ClusterPreference, ...],
        Schema("Wishes about single clusters.", keys=("name",), max_items=1000),
    ] = ()


class TemplateMeta(Value, frozen=True, kw_only=True):
    """The metadata that every cluster's StatefulSet gets."""

    labels: Annotated[dict[str, str], Schema("Labels of each StatefulSet.")] = {}
    annotations: Annotated[dict[str, str], Schema("Annotations of each StatefulSet.")] = {}


class CheckedFields(Value, frozen=True, kw_only=True):
    """The fields of a StatefulSet's spec that are checked when one is submitted."""

    selector: Annotated[
        dict[str, Any], Schema("Selects the pods; the labels of the pod template match it.")
    ]
    template: Annotated[dict[str, Any], Schema("The pod template.")]
    replicas: Annotated[
        int, Schema("Replicas in all clusters together.", minimum=0, maximum=2147483647)
    ] = 1
    service_name: Annotated[
        str, Schema("The headless Service that names the pods.", max_length=63)
    ] = ""


class StatefulSetTemplate(Value, frozen=True, kw_only=True):
    """A StatefulSet without name and status."""

    spec: Annotated[
        dict[str, Any],
        Schema("A StatefulSet's spec, for the federation as a whole.", known=CheckedFields),
    ]
    metadata: Annotated[TemplateMeta, Schema("Metadata of each cluster's StatefulSet.")] = (
        TemplateMeta()
    )


class FederatedStatefulSetSpec(Value, frozen=True, kw_only=True):
    """What to run, and where."""

    template: Annotated[StatefulSetTemplate, Schema("The StatefulSet to spread over clusters.")]
    placement: Annotated[Placement, Schema("How its replicas are spread.")] = Placement()
    max_unavailable: Annotated[
        int | None,
        Schema(
            "How many replicas of all clusters together a roll-out, a scale-down or a rebalance "
            "may have down at a time; 1 if it is not given.",
            minimum=1,
        ),
    ] = None


class ClusterShare(Value, frozen=True, kw_only=True):
    """One cluster's part of the replicas."""

    name: Annotated[ClusterName, Schema("The cluster's id.")]
    replicas: Annotated[Count, Schema("Replicas that are its share.")]
    ready_replicas: Annotated[Count, Schema("Those that are ready.")] = 0
    current_replicas: Annotated[Count, Schema("Those of the current revision.")] = 0
    updated_replicas: Annotated[Count, Schema("Those of the newest revision.")] = 0


class FederatedStatefulSetStatus(Value, frozen=True, kw_only=True):
    """How far the set has come, in all clusters together."""

    observed_generation: Annotated[Count, Schema("The generation this was said about.")] = 0
    replicas: Annotated[Count, Schema("Replicas that exist.")] = 0
    ready_replicas: Annotated[Count, Schema("Those that are ready.")] = 0
    current_replicas: Annotated[Count, Schema("Those of the current revision.")] = 0
    updated_replicas: Annotated[Count, Schema("Those of the newest revision.")] = 0
    selector: Annotated[str, Schema("The pods' labels, as a selector in text form.")] = ""
    clusters: Annotated[
        tuple[ClusterShare, ...],
        Schema(
            "Each cluster's share; it is kept while a cluster is away.",
            keys=("name",),
            max_items=1000,
        ),
    ] = ()
    conditions: Conditions = ()


class FederatedStatefulSet(Object, frozen=True, kw_only=True):
    """A StatefulSet whose replicas are spread over the clusters of the fleet."""

    kind: ClassVar[Kind] = Kind(
        "hanse.dev", "v1alpha1", "FederatedStatefulSet", "federatedstatefulsets"
    )
    crd: ClassVar[Crd] = Crd(
        short_names=("fsts",),
        columns=(
            Column("Wanted", ".spec.template.spec.replicas", "integer"),
            Column("Ready", ".status.readyReplicas", "integer"),
        ),
        scale=Scale(".spec.template.spec.replicas", ".status.replicas", ".status.selector"),
    )

    spec: FederatedStatefulSetSpec
    status: FederatedStatefulSetStatus = FederatedStatefulSetStatus()

    @property
    def replicas(self) -> int:
        """`replicas` of the template's spec, 1 by default: those of all clusters together."""
        return int(self.spec.template.spec.get("replicas", 1))
