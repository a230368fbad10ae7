"""The objects of a set that has a share here: StatefulSet, headless Service and budget."""

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.acceptance import Terms
from hanse.features.statefulsets.disruption import PartState, Step
from hanse.features.statefulsets.evictions import derived_budget, find_budget
from hanse.features.statefulsets.names import REVISION, SET, SET_UID, cluster_set_name
from hanse.features.statefulsets.owned_objects import is_released_by
from hanse.features.statefulsets.permits import (
    FleetPart,
    is_returned,
    is_scaled_to_zero,
    with_partition,
)
from hanse.features.statefulsets.service_copies import headless_copy, was_kept_by_another_set
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.features.statefulsets.tombstones import keeps_empty_stateful_set
from hanse.model.acceptance import CREATED_BY
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.kinds.stateful import Permit
from hanse.model.objects import ClusterId, Meta, Wire
from hanse.model.ownership import OWNER
from hanse.model.plan import CreateOnly, Desired, Key, Owned, TakeOver
from hanse.model.snapshot import Snapshot


class PlacedSet(Struct, frozen=True):
    """A set with shares, as this cluster plans its part of it."""

    key: Key
    here: ClusterId
    submitted: SubmittedSet
    broker: ClusterId
    service: Service | None
    """The headless Service at the broker."""
    terms: Terms
    """What this cluster takes of the set."""
    share: int
    """The replicas that it should run."""
    fleet: FleetPart
    state: PartState | None
    """What runs here already; None if nothing does."""
    step: Step
    """What the StatefulSet becomes now."""

    @property
    def held(self) -> Permit:
        """The permits of this cluster."""
        return self.fleet.permit(self.here)

    @property
    def applied(self) -> str:
        """The set's revision that the StatefulSet has after this step.

        Empty if there is no StatefulSet yet, or it names none.
        """
        if self.state is None:
            return ""
        if not self.keeps_template:
            return self.submitted.revision
        return self.state.stateful_set.metadata.annotations.get(REVISION, "")

    @property
    def keeps_template(self) -> bool:
        """Whether the StatefulSet keeps its template: the set is refused, invalid, or waits."""
        is_fit = self.terms.refused is None and not self.submitted.errors
        return not (is_fit and self.step.updates)

    @property
    def is_complete(self) -> bool:
        """Whether what runs here is all that it should be, and ready; False if nothing does."""
        return self.state is not None and self.state.is_complete

    @property
    def awaits_status(self) -> bool:
        """Whether a roll-out here waits for the StatefulSet's status to count a replica that is up.

        False without a permit, with an outdated template, and when all replicas are complete.
        """
        state = self.state
        if state is None or not self.held.pods or state.outdated:
            return False
        return not (state.is_status_caught_up or state.is_complete)

    @property
    def returned(self) -> int:
        """How often this cluster has returned permits, this step included."""
        return self.held.returned + is_returned(self.held, self.step)


def desired_objects(placed: PlacedSet, snapshot: Snapshot) -> list[Desired]:
    """What the set has here: a missing namespace, headless Service, budget, and StatefulSet.

    Objects that a set of this name released, or another set kept, are taken over.
    """
    sources = frozenset({placed.broker})
    key, desired = placed.key, list[Desired]()
    if snapshot.get(snapshot.local, Namespace, key.namespace) is None:
        marks = {CREATED_BY: "statefulsets"}
        namespace = Namespace(metadata=Meta(name=key.namespace, annotations=marks))
        desired.append(Desired(namespace, snapshot.local, sources=sources, ownership=CreateOnly()))
    headless = headless_copy(placed.service, key, snapshot, placed.broker)
    stateful_set = _stateful_set(placed, snapshot)
    budget = disruption_budget(placed, snapshot)
    for step, obj in ((1, headless), (1, budget), (2, stateful_set)):
        if obj is not None:
            meta = obj.metadata
            found = snapshot.get(snapshot.local, type(obj), meta.name, meta.namespace)
            adopts = is_released_by(found, key) or was_kept_by_another_set(found, key)
            desired.append(
                Desired(
                    obj,
                    snapshot.local,
                    step=step,
                    sources=sources,
                    ownership=TakeOver() if adopts else Owned(),
                )
            )
    return desired


def disruption_budget(placed: PlacedSet, snapshot: Snapshot) -> PodDisruptionBudget | None:
    """The budget of this cluster's replicas; None without a budget of users at the broker.

    None, too, if the AcceptancePolicy does not take budgets, there are no replicas here, or the
    set's selector cannot be decoded.
    """
    found = find_budget(placed.submitted, snapshot, placed.broker)
    if found is None or not placed.terms.takes_budgets or not placed.step.replicas:
        return None
    return derived_budget(placed.submitted, found, placed.here, opens=placed.step.opens)


def _stateful_set(placed: PlacedSet, snapshot: Snapshot) -> StatefulSet | None:
    """The StatefulSet here; None without a share once it has no pods left.

    None, too, until this cluster has a report, if there is none of ours yet. It stays at zero
    replicas if its deletion would delete claims that are to stay. It keeps template and ordinals
    while the set is invalid, and until it may be rolled out here.
    """
    submitted, key, step = placed.submitted, placed.key, placed.step
    current = placed.state.stateful_set if placed.state is not None else None
    is_ours = current is not None and OWNER in current.metadata.labels
    if not is_ours and placed.here not in placed.fleet.parts:
        return None  # the report is written first: it later proves that the broker knew the set
    if not placed.share and (
        current is None
        or (is_scaled_to_zero(placed.state) and not keeps_empty_stateful_set(submitted.spec))
    ):
        return None
    template, revision = submitted.spec.template, submitted.revision
    ordinals = submitted.spec.ordinals
    if current is not None and placed.keeps_template:
        template, ordinals = current.spec.template, current.spec.ordinals
        revision = placed.applied
    return StatefulSet(
        metadata=Meta(
            name=cluster_set_name(key.name, snapshot.local),
            namespace=key.namespace,
            labels={**submitted.labels, SET: key.name},
            annotations={**submitted.annotations, REVISION: revision, SET_UID: submitted.uid},
        ),
        spec=replace(
            submitted.spec,
            replicas=step.replicas,
            template=template,
            ordinals=ordinals,
            update_strategy=with_partition(submitted, step.partition),
            volume_claim_templates=_claim_templates(submitted, current, snapshot),
        ),
    )


def _claim_templates(
    submitted: SubmittedSet, current: StatefulSet | None, snapshot: Snapshot
) -> tuple[Wire, ...]:
    """The set's claim templates; with a storage class override, those of the current StatefulSet.

    They are immutable, so that a new storage class applies to new StatefulSets only.
    """
    if current is not None and submitted.overrides.of(snapshot.local).storage_class_name:
        return current.spec.volume_claim_templates
    return submitted.spec.volume_claim_templates
