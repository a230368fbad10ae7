"""How replicas of a federated set are shared out, and what each cluster reports of its part."""

from datetime import datetime
from typing import Annotated, ClassVar

from hanse.model.kinds.field_types import ClusterName, Count, ObjectName, PortNumber
from hanse.model.objects import Kind, Object, Value, wire_field
from hanse.model.schema import Column, Crd, Schema

SCHEMA = 2
"""The newest schema that is known; objects of a newer one are left alone."""
FIRST_SCHEMA = 1
LIMITED_SCHEMA = 2
"""The schema of shares and reports that are subject to `most`, which older agents do not read."""


MAX_TEXT_LENGTH = 32_000
"""Characters of the texts about all clusters or replicas of a set."""


def newer_schema_message(schema: int) -> str:
    """The message that an object has this newer schema, and that this Hanse has to be updated."""
    return f"made by a newer Hanse (form {schema}, this one reads {SCHEMA}); update this one"


_VERSION = Schema(
    "The version of this form; what is newer than an agent knows it leaves alone.", default=1
)


class Share(Value, frozen=True, kw_only=True):
    """How many replicas are one cluster's."""

    name: Annotated[ClusterName, Schema("The cluster's id.")]
    replicas: Annotated[Count, Schema("Its replicas.", default=0)] = 0


class HandedOn(Value, frozen=True, kw_only=True):
    """A permit that a cluster returned for the use of the next one, which need not ask for it."""

    to: Annotated[ClusterName, Schema("The cluster that has it now.")]
    pods: Annotated[Count, Schema("Replicas that this one may have down.")]
    number: Annotated[Count, Schema("The count of returned permits that it was returned with.")]


class Received(Value, frozen=True, kw_only=True):
    """The last permit of another cluster that was taken up: from then on it is the taker's own."""

    name: Annotated[ClusterName, Schema("The cluster that handed it on.")]
    number: Annotated[Count, Schema("Its number.")]


class Permit(Value, frozen=True, kw_only=True):
    """How many replicas one cluster may take down now; only that cluster changes it."""

    name: Annotated[ClusterName, Schema("The cluster's id.")]
    pods: Annotated[Count, Schema("Replicas that it may have down now.", default=0)] = 0
    removes: Annotated[
        bool,
        Schema(
            "Whether it removes surplus replicas; one cluster at a time does, unless all that do "
            "say what they keep.",
            default=False,
        ),
    ] = False
    keeps: Annotated[
        int | None,
        Schema(
            "While it removes surplus replicas: how many of its first ones it keeps in any case.",
            minimum=0,
        ),
    ] = None
    returned: Annotated[
        Count,
        Schema(
            "How often it has given permits back; others wait for its report to say as much.",
            default=0,
        ),
    ] = 0
    handed_on: Annotated[
        HandedOn | None,
        Schema("What it handed on when its roll-out was complete; kept until that was received."),
    ] = None
    received: Annotated[
        tuple[Received, ...],
        Schema(
            "What others handed on and this cluster has taken up.", keys=("name",), max_items=1000
        ),
    ] = ()
    set_uid: Annotated[
        str, Schema("The uid of the set; a permit of another set is void.", max_length=64)
    ] = wire_field("setUID", "")


class NamedPort(Value, frozen=True, kw_only=True):
    """A port that replicas are found by."""

    port: Annotated[PortNumber, Schema("Its number.")]
    name: Annotated[str, Schema("Its name, for SRV records.", max_length=63)] = ""
    protocol: Annotated[str, Schema("TCP, UDP or SCTP.", max_length=4)] = "TCP"


_Ports = Annotated[
    tuple[NamedPort, ...], Schema("The ports of the headless Service.", max_items=100)
]
_LoadBalanced = Annotated[
    bool, Schema("Whether each replica has a load balancer of its own.", default=False)
]
_UnreadyNames = Annotated[
    bool,
    Schema(
        "Whether replicas that are not ready have names, as the headless Service says.",
        default=True,
    ),
]


class ReplicaNames(Value, frozen=True, kw_only=True):
    """How replicas are found by name."""

    service: Annotated[str, Schema("The headless Service; none: by no name.", max_length=63)] = ""
    ports: _Ports = ()
    load_balanced: _LoadBalanced = False
    unready: _UnreadyNames = True


class StatefulSetSharesSpec(Value, frozen=True, kw_only=True):
    """Who runs how many replicas, and how they are found."""

    shares: Annotated[
        tuple[Share, ...],
        Schema(
            "Each cluster's replicas; kept while a cluster is away.",
            keys=("name",),
            max_items=1000,
        ),
    ] = ()
    told: Annotated[
        str, Schema("The shares in a line, for people.", max_length=MAX_TEXT_LENGTH)
    ] = ""
    service: Annotated[str, Schema("The headless Service.", max_length=63)] = ""
    ports: _Ports = ()
    load_balanced: _LoadBalanced = False
    first_ordinal: Annotated[Count, Schema("Where ordinals begin.", default=0)] = 0
    unready_names: _UnreadyNames = True
    rebalanced: Annotated[
        str, Schema("The last wish to rebalance that was granted.", max_length=253)
    ] = ""
    permits: Annotated[
        tuple[Permit, ...],
        Schema(
            "Who may take replicas down: for a roll-out never more than the set's maxUnavailable; "
            "what is surplus is removed beside it.",
            keys=("name",),
            max_items=1000,
        ),
    ] = ()
    schema: Annotated[Count, _VERSION] = FIRST_SCHEMA

    @property
    def has_newer_schema(self) -> bool:
        """Whether a newer agent wrote it, in a schema that this one does not know."""
        return self.schema > SCHEMA

    @property
    def names(self) -> ReplicaNames:
        """How replicas get DNS names in clusters whose StatefulSetPart does not say so."""
        return ReplicaNames(
            service=self.service,
            ports=self.ports,
            load_balanced=self.load_balanced,
            unready=self.unready_names,
        )

    def permit_of(self, cluster: str, set_uid: str) -> Permit:
        """The entry of a cluster in `permits`; an empty one if it has none for this set."""
        found = (p for p in self.permits if p.name == cluster and p.set_uid == set_uid)
        return next(found, Permit(name=cluster, set_uid=set_uid))

    def handed_on_to(self, cluster: str, set_uid: str) -> dict[str, HandedOn]:
        """By cluster the permit that it handed on to `cluster`, which has not noted it as received.

        Only permits of this set (uid), handed on by others, count.
        """
        received = {each.name: each.number for each in self.permit_of(cluster, set_uid).received}
        return {
            permit.name: handed_on
            for permit in self.permits
            if permit.set_uid == set_uid
            and (handed_on := permit.handed_on) is not None
            and handed_on.to == cluster != permit.name
            and received.get(permit.name, 0) < handed_on.number
        }

    def permitted(self, set_uid: str) -> tuple[str, ...]:
        """The sorted clusters that may take replicas of the set (uid) down now.

        Those have a permit of their own for some, or one that was handed on and not yet noted as
        received.
        """
        known = {p.name for p in self.permits} | {
            p.handed_on.to for p in self.permits if p.handed_on
        }
        return tuple(
            cluster
            for cluster in sorted(known)
            if self.permit_of(cluster, set_uid).pods or self.handed_on_to(cluster, set_uid)
        )

    def share_of(self, cluster: str) -> int:
        """The replicas of one cluster; 0 if it has no share."""
        return next((s.replicas for s in self.shares if s.name == cluster), 0)


class StatefulSetShares(Object, frozen=True, kw_only=True):
    """The shares of one federated StatefulSet, beside it; it goes with the set, or is orphaned."""

    kind: ClassVar[Kind] = Kind("hanse.dev", "v1alpha1", "StatefulSetShares", "statefulsetshares")
    crd: ClassVar[Crd] = Crd(
        short_names=("stsshares",),
        columns=(
            Column("Shares", ".spec.told"),
            Column("Balanced", ".spec.loadBalanced", "boolean", 1),
        ),
        status=False,
    )
    allocated: ClassVar[frozenset[str]] = frozenset({"spec.permits"})
    has_status_subresource: ClassVar[bool] = False

    spec: StatefulSetSharesSpec = StatefulSetSharesSpec()


class Replica(Value, frozen=True, kw_only=True):
    """One replica as its cluster sees it."""

    name: Annotated[ObjectName, Schema("Its pod's name, unique in the fleet.")]
    ready: Annotated[bool, Schema("Whether its pod is ready.", default=False)] = False
    addresses: Annotated[
        tuple[str, ...],
        Schema("Addresses or host names of its load balancer.", max_items=16),
    ] = ()


class Refusal(Value, frozen=True, kw_only=True):
    """Why a cluster does not take a set."""

    field: Annotated[
        str, Schema("The field of the set or of the AcceptancePolicy.", max_length=1024)
    ]
    reason: Annotated[str, Schema("Why, in a sentence.", max_length=4096)] = ""


class StatefulSetPartSpec(Value, frozen=True, kw_only=True):
    """What one cluster runs of a set."""

    namespace: Annotated[ObjectName, Schema("The set's namespace.")]
    name: Annotated[ObjectName, Schema("The set's name.")]
    cluster: Annotated[ClusterName, Schema("The cluster that tells this.")]
    set_uid: Annotated[
        str,
        Schema(
            "The uid of the set that it reports on; a set of another uid ignores it.", max_length=64
        ),
    ] = wire_field("setUID", "")
    cluster_uid: Annotated[
        str,
        Schema("The uid of the cluster, by its namespace kube-system.", max_length=64),
    ] = wire_field("clusterUID", "")
    share: Annotated[Count, Schema("The replicas that it runs or is about to.", default=0)] = 0
    rebalanced: Annotated[
        str, Schema("The last wish to rebalance that it followed.", max_length=253)
    ] = ""
    revision: Annotated[
        str, Schema("The set's revision that all of its replicas run.", max_length=253)
    ] = ""
    applied: Annotated[
        str, Schema("The set's revision that it was last told to run.", max_length=253)
    ] = ""
    current_replicas: Annotated[Count, Schema("Those of the current revision.", default=0)] = 0
    updated_replicas: Annotated[Count, Schema("Those of the newest revision.", default=0)] = 0
    available_replicas: Annotated[Count, Schema("Those ready for long enough.", default=0)] = 0
    replicas: Annotated[
        tuple[Replica, ...],
        Schema("The replicas that exist.", keys=("name",), max_items=10000),
    ] = ()
    names: Annotated[
        ReplicaNames | None,
        Schema("How these are found by name; none: as the record of shares says."),
    ] = None
    trouble: Annotated[
        str, Schema("What stands in the way, in a sentence.", max_length=MAX_TEXT_LENGTH)
    ] = ""
    refused: Annotated[
        Refusal | None,
        Schema("Why it takes nothing new of the set; what runs already stays."),
    ] = None
    most: Annotated[
        int | None, Schema("The replicas that it takes at most; none: any number.", minimum=0)
    ] = None
    returned: Annotated[
        Count, Schema("How many permits it has given back, as this report shows.", default=0)
    ] = 0
    waits: Annotated[
        str, Schema("What a roll-out or scale-down waits for here.", max_length=1024)
    ] = ""
    made: Annotated[
        tuple[str, ...],
        Schema(
            "The uids of the StatefulSets that were made for it, the newest last.", max_items=16
        ),
    ] = ()
    ended: Annotated[
        datetime | None,
        Schema("Since when the set is gone and nothing of it is left here; kept for some time."),
    ] = None
    released: Annotated[
        bool, Schema("Whether what it ran was let go of, and not deleted.", default=False)
    ] = False
    schema: Annotated[Count, _VERSION] = FIRST_SCHEMA

    @property
    def has_newer_schema(self) -> bool:
        """Whether a newer agent wrote it, in a schema that this one does not know."""
        return self.schema > SCHEMA

    @property
    def problem(self) -> str:
        """What hinders this part: a refusal, or what stands in the way; empty if nothing does."""
        refusal = self.refused
        refused = "" if refusal is None else f"refused by {refusal.field}: {refusal.reason}"
        return "; ".join(filter(None, (refused, self.trouble)))

    @property
    def limited(self) -> bool:
        """Whether `most`, the number of replicas that it takes at most, is set."""
        return self.most is not None

    @property
    def ready(self) -> int:
        """How many of its replicas are ready."""
        return sum(replica.ready for replica in self.replicas)


class StatefulSetPart(Object, frozen=True, kw_only=True):
    """One cluster's report of its part of a federated StatefulSet; that cluster alone writes it."""

    kind: ClassVar[Kind] = Kind("hanse.dev", "v1alpha1", "StatefulSetPart", "statefulsetparts")
    crd: ClassVar[Crd] = Crd(
        short_names=("stspart",),
        columns=(
            Column("Set", ".spec.name"),
            Column("Cluster", ".spec.cluster"),
            Column("Share", ".spec.share", "integer"),
            Column("Ended", ".spec.ended", "date"),
            Column("Trouble", ".spec.trouble", priority=1),
        ),
        status=False,
    )
    has_status_subresource: ClassVar[bool] = False

    spec: StatefulSetPartSpec
