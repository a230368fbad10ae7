"""Whether this cluster takes a set, by its AcceptancePolicy, and how many replicas of it."""

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.config_maps import CarriedConfig, carried_config
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.acceptance import (
    BROKER_ORIGIN,
    CREATED_BY,
    NamespaceFacts,
    Refused,
    Workload,
    accepted,
    read_policy,
)
from hanse.model.kinds.acceptance import AcceptancePolicySpec
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import ConfigMap, Namespace, Service
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.objects import ClusterId, Object
from hanse.model.ownership import OWNER, OWNER_KEY, owner_claim
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


class Terms(Struct, frozen=True):
    """What this cluster takes of a set."""

    refused: Refused | None
    limit: int
    """The most replicas of one set that the policy allows here."""
    takes_budgets: bool = True
    """Whether PodDisruptionBudgets are taken."""

    def replicas_of(self, share: int, running: int) -> int:
        """How much of a share is run: nothing new of a refused set, and never above the limit.

        What runs already stays, unless the share is smaller.
        """
        most = running if self.refused is not None else max(self.limit, running)
        return min(share, most)


class ReceivedSet(Struct, frozen=True):
    """A set as this cluster receives it from a broker."""

    submitted: SubmittedSet
    service: Service | None
    """Its headless Service."""
    broker: ClusterId
    broker_namespace: str

    def config(self, snapshot: Snapshot) -> CarriedConfig:
        """The ConfigMaps that come along; only with what people submitted at the broker."""
        submitted = self.submitted
        if set_origin(submitted.object) != BROKER_ORIGIN:
            return CarriedConfig()
        template, namespace = submitted.spec.template, submitted.namespace
        return carried_config(template, namespace, snapshot, self.broker)


def takes_set(received: ReceivedSet, snapshot: Snapshot) -> bool:
    """Whether this cluster takes a set if all of its ConfigMaps come along."""
    judged = _judge(received, received.config(snapshot).names, snapshot)
    return judged is not None and judged.refused is None


def set_terms(received: ReceivedSet, snapshot: Snapshot) -> Terms | None:
    """Judge a set; None while something is not known that the judgement needs, or not here yet."""
    config = received.config(snapshot)
    judged = _judge(received, config.names - config.blocked, snapshot)
    is_waiting = bool(config.arriving) and judged is not None and judged.refused is None
    return None if is_waiting else judged


def _judge(received: ReceivedSet, carried: frozenset[str], snapshot: Snapshot) -> Terms | None:
    """Judge a set with which these ConfigMaps come along."""
    submitted = received.submitted
    policy = read_policy(snapshot.local, snapshot)
    origin = set_origin(submitted.object)
    if policy is None or not snapshot.listed(snapshot.local, Namespace):
        return None
    if origin == snapshot.local:
        hosted = snapshot.get(
            snapshot.local, FederatedStatefulSet, submitted.name, submitted.namespace
        )
        if not _is_same_set(hosted, submitted.object):
            return None  # its copy at the broker is about to be repaired by this very cluster
        policy = _with_origin(policy, origin)
    judged = accepted(policy, _workload(received, carried, snapshot), origin)
    refused = judged if isinstance(judged, Refused) else None
    limit = policy.workloads.limits.replicas_per_set
    takes_budgets = PodDisruptionBudget.kind.name in policy.workloads.kinds
    return Terms(refused, limit, takes_budgets)


def set_origin(obj: Object) -> ClusterId:
    """Who submitted a set: the broker's people, the cluster that hosts it, or empty if unclear.

    The mark of a hosted set takes it away from the broker's people and gives no rights: a cluster
    that is named by it must be named by the receiving policy as well.
    """
    meta = obj.metadata
    if OWNER not in meta.labels and OWNER_KEY not in meta.annotations:
        return BROKER_ORIGIN
    claim = owner_claim(obj)
    own = ("statefulsets", str(Key("mirror", meta.name, meta.namespace)))
    if claim is None or (claim.feature, claim.key) != own or claim.serves == BROKER_ORIGIN:
        return ""
    return claim.serves


def _is_same_set(hosted: FederatedStatefulSet | None, submitted: Object) -> bool:
    """Whether a set at the broker says what this cluster's own set says."""
    return (
        hosted is not None
        and isinstance(submitted, FederatedStatefulSet)
        and hosted.spec == submitted.spec
    )


def _with_origin(policy: AcceptancePolicySpec, origin: ClusterId) -> AcceptancePolicySpec:
    """The policy, which also takes sets of an origin: those of this cluster's own people."""
    origins = (*policy.workloads.origins, origin)
    return replace(policy, workloads=replace(policy.workloads, origins=origins))


def _workload(received: ReceivedSet, carried: frozenset[str], snapshot: Snapshot) -> Workload:
    """The set as the policy judges it."""
    submitted, home = received.submitted, received.broker_namespace
    namespace = snapshot.get(snapshot.local, Namespace, submitted.namespace)
    found = (
        NamespaceFacts(namespace.metadata.labels, CREATED_BY in namespace.metadata.annotations)
        if namespace is not None
        else None
    )
    is_plain = isinstance(submitted.object, StatefulSet)
    return Workload(
        namespace=submitted.namespace,
        spec=submitted.spec,
        found=found,
        service=received.service,
        carried=frozenset((ConfigMap.kind.name, name) for name in carried),
        path="spec" if is_plain else "spec.template.spec",
        reserved=(home, f"{home}-accounts"),
    )
