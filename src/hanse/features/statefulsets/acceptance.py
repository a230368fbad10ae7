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
        """How many replicas of a share to run: at most the limit, or of a refused set what runs.

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
        """The set's ConfigMaps that the broker has, by name and state here.

        Empty unless the set was submitted at the broker itself: a host's copy brings none along.
        """
        submitted = self.submitted
        if set_origin(submitted.object) != BROKER_ORIGIN:
            return CarriedConfig()
        template, namespace = submitted.spec.template, submitted.namespace
        return carried_config(template, namespace, snapshot, self.broker)


def takes_set(received: ReceivedSet, snapshot: Snapshot) -> bool:
    """Whether the AcceptancePolicy accepts the set with all its ConfigMaps; False while unknown."""
    judged = _judge(received, received.config(snapshot).names, snapshot)
    return judged is not None and judged.refused is None


def set_terms(received: ReceivedSet, snapshot: Snapshot) -> Terms | None:
    """Judge a set by this cluster's AcceptancePolicy; None while the result is not certain.

    That is while the policy or the Namespaces are not known, the broker's copy of a set that is
    hosted here differs, or ConfigMaps of a set that is not refused are still to be copied here.
    """
    config = received.config(snapshot)
    judged = _judge(received, config.names - config.blocked, snapshot)
    is_waiting = bool(config.arriving) and judged is not None and judged.refused is None
    return None if is_waiting else judged


def _judge(received: ReceivedSet, carried: frozenset[str], snapshot: Snapshot) -> Terms | None:
    """What this cluster takes of a set by its AcceptancePolicy, with these ConfigMaps copied.

    None while the policy or the Namespaces are not known, and for a set that this cluster hosts
    while its copy at the broker differs. A set that this cluster hosts is of an accepted origin.
    """
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
    """Who submitted a set: BROKER_ORIGIN, or the host cluster that copied it to the broker.

    BROKER_ORIGIN only without both owner label and owner key; empty if the owner key is missing or
    not that of such a copy.
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
    """Whether this cluster hosts the set, with the spec of the FederatedStatefulSet given."""
    return (
        hosted is not None
        and isinstance(submitted, FederatedStatefulSet)
        and hosted.spec == submitted.spec
    )


def _with_origin(policy: AcceptancePolicySpec, origin: ClusterId) -> AcceptancePolicySpec:
    """A copy of the policy that also takes sets of this origin."""
    origins = (*policy.workloads.origins, origin)
    return replace(policy, workloads=replace(policy.workloads, origins=origins))


def _workload(received: ReceivedSet, carried: frozenset[str], snapshot: Snapshot) -> Workload:
    """The set as `accepted` judges it: with Service, carried ConfigMaps and namespace.

    The namespace is None if it is missing here; the broker's namespaces are reserved.
    """
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
