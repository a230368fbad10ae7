"""A federated set as it was submitted, by whichever of the two doors."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.names import (
    LB_NEEDED,
    ON_LEAVE,
    ORPHANED,
    PREFERENCES,
    REBALANCE,
    UPDATE,
    name_error,
    template_revision,
    users,
)
from hanse.features.statefulsets.preferences import (
    Preferences,
    parse_preferences,
    placement_preferences,
)
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.core import Node
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetSharesSpec
from hanse.model.objects import ClusterId, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot

ANNOTATION_CHOICES = {
    LB_NEEDED: ("true", "false"),
    ON_LEAVE: ("keep", "redistribute"),
    UPDATE: ("everywhere", "cluster-by-cluster"),
}
"""Annotations of a set with the values that each may have."""
MAX_BALANCERS = 5000
"""Replicas whose names fit into one annotation, each with a load balancer."""


class SubmittedSet(Struct, frozen=True):
    """One set as the federation was asked for it."""

    object: StatefulSet | FederatedStatefulSet
    spec: StatefulSetSpec
    labels: dict[str, str]
    annotations: dict[str, str]
    """The user's, as each cluster's StatefulSet gets them."""
    marks: dict[str, str]
    """All annotations, by which the set is steered."""
    preferences: Preferences = Preferences()
    faults: tuple[str, ...] = ()
    """Why nothing is done for it as it stands."""

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def namespace(self) -> str:
        return self.object.metadata.namespace

    @property
    def ref(self) -> ObjectRef:
        return object_ref(self.object)

    @property
    def terminating(self) -> bool:
        """Whether it was deleted and is about to go."""
        return self.object.metadata.deletion_timestamp is not None

    @property
    def orphaned(self) -> bool:
        """Whether its host has let go of it."""
        return ORPHANED in self.object.metadata.annotations

    @property
    def balanced(self) -> bool:
        """Whether each replica gets a load balancer."""
        return self.marks.get(LB_NEEDED, "false") == "true"

    @property
    def redistributes(self) -> bool:
        """Whether others take over the share of a cluster that has left."""
        return self.marks.get(ON_LEAVE, "keep") == "redistribute"

    @property
    def updates_cluster_by_cluster(self) -> bool:
        """Whether new templates go to one cluster at a time."""
        return self.marks.get(UPDATE, "everywhere") == "cluster-by-cluster"

    @property
    def rebalance(self) -> str:
        return self.marks.get(REBALANCE, "")

    @property
    def revision(self) -> str:
        return template_revision(self.name, self.spec.template)

    @property
    def first_ordinal(self) -> int:
        return self.spec.ordinals.start if self.spec.ordinals is not None else 0


def find_submitted_set(key: Key, snapshot: Snapshot, broker: ClusterId) -> SubmittedSet | None:
    """The set of that name as it was submitted; a StatefulSet goes before the other kind."""
    plain = snapshot.get(broker, StatefulSet, key.name, key.namespace)
    if plain is not None and accepts_stateful_sets(snapshot, broker):
        return from_stateful_set(plain)
    placed = snapshot.get(broker, FederatedStatefulSet, key.name, key.namespace)
    return from_federated_stateful_set(placed) if placed is not None else None


def with_last_applied(
    submitted: SubmittedSet, shared: StatefulSetSharesSpec, own: StatefulSet | None
) -> SubmittedSet | None:
    """An invalid set as a cluster goes on with it: what was decided before is carried out.

    None where nothing can be: it was never made there, and its spec cannot be read.
    """
    marks = {**submitted.marks, LB_NEEDED: "true" if shared.load_balanced else "false"}
    if own is not None and OWNER in own.metadata.labels:
        meta = own.metadata
        return replace(
            submitted,
            spec=own.spec,
            labels=users(meta.labels),
            annotations=users(meta.annotations),
            marks=marks,
        )
    return replace(submitted, marks=marks) if submitted.spec.template else None


def accepts_stateful_sets(snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether plain StatefulSets there are ours to spread: not where nodes run them."""
    return snapshot.listed(broker, Node) and next(snapshot.all(broker, Node), None) is None


def from_stateful_set(submitted: StatefulSet) -> SubmittedSet:
    """A StatefulSet in the federation's own API."""
    meta = submitted.metadata
    marks = meta.annotations
    wishes = parse_preferences(marks[PREFERENCES]) if PREFERENCES in marks else Preferences()
    faults = (*_faults(meta.name, submitted.spec, marks), *wishes.faults)
    return SubmittedSet(
        submitted, submitted.spec, users(meta.labels), users(marks), marks, wishes, tuple(faults)
    )


def from_federated_stateful_set(submitted: FederatedStatefulSet) -> SubmittedSet:
    """A FederatedStatefulSet, in a host cluster or as its agent passed it on."""
    meta, template = submitted.metadata, submitted.spec.template
    own = template.metadata
    marks = {**own.annotations, **meta.annotations}
    wishes = _wishes(submitted, marks)
    try:
        spec = msgspec.convert(template.spec, StatefulSetSpec)
        faults = [*_faults(meta.name, spec, marks), *wishes.faults]
    except msgspec.ValidationError as error:
        spec = StatefulSetSpec()
        faults = [f"spec.template.spec: {error}; mend that field"]
    return SubmittedSet(
        submitted,
        spec,
        users(own.labels),
        users(own.annotations),
        marks,
        wishes,
        tuple(faults),
    )


def _wishes(submitted: FederatedStatefulSet, marks: dict[str, str]) -> Preferences:
    """What is wished of clusters: by its placement, or as for a StatefulSet by annotation."""
    placement = submitted.spec.placement
    if PREFERENCES not in marks:
        return placement_preferences(placement)
    if not placement.clusters:
        return parse_preferences(marks[PREFERENCES])
    twice = f"annotation {PREFERENCES}: spec.placement.clusters says it already; remove one of them"
    return replace(placement_preferences(placement), faults=(twice,))


def format_choices(choices: tuple[str, ...]) -> str:
    """What an annotation may say, in words."""
    return " or ".join(repr(choice) for choice in choices)


def _faults(name: str, spec: StatefulSetSpec, marks: dict[str, str]) -> Iterator[str]:
    if bad := name_error(name, ()):
        yield bad
    for mark, choices in ANNOTATION_CHOICES.items():
        if mark in marks and marks[mark] not in choices:
            yield f"annotation {mark}: {marks[mark][:40]!r} is not {format_choices(choices)}"
    if marks.get(LB_NEEDED) == "true" and spec.replicas > MAX_BALANCERS:
        yield (
            f"annotation {LB_NEEDED}: {spec.replicas} replicas would need as many load balancers; "
            f"{MAX_BALANCERS} is the most"
        )
    if marks.get(LB_NEEDED) == "true" and not spec.service_name:
        yield f"annotation {LB_NEEDED}: it needs spec.serviceName, whose ports replicas serve"
