"""A set as it was submitted: a StatefulSet at the broker, or a FederatedStatefulSet."""

from collections.abc import Iterator
from hashlib import blake2b
from math import ceil

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.cluster_choice import ClusterChoice, parse_choice
from hanse.features.statefulsets.names import (
    DISRUPT_WHILE_AWAY,
    DISRUPT_WITHOUT,
    LB_NEEDED,
    MAX_UNAVAILABLE,
    ON_LEAVE,
    ORPHANED,
    OVERRIDES,
    PREFERENCES,
    REBALANCE,
    UPDATE,
    name_error,
    template_revision,
    user_metadata,
)
from hanse.features.statefulsets.overrides import Overrides, overridden_spec, parse_overrides
from hanse.features.statefulsets.preferences import (
    Preferences,
    parse_preferences,
    placement_preferences,
)
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.core import Node
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId, ObjectRef, Wire, object_ref
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot

ANNOTATION_CHOICES = {
    LB_NEEDED: ("true", "false"),
    ON_LEAVE: ("keep", "redistribute"),
    UPDATE: ("everywhere", "cluster-by-cluster"),
    DISRUPT_WHILE_AWAY: ("true", "false"),
}
"""Annotations of a set with their allowed values."""
MAX_BALANCERS = 5000
"""The number of replicas with load balancers whose names fit into one annotation."""


MAX_BUDGET = 1_000_000


class SubmittedSet(Struct, frozen=True):
    """One submitted set, whichever kind it is."""

    object: StatefulSet | FederatedStatefulSet
    spec: StatefulSetSpec
    labels: dict[str, str]
    annotations: dict[str, str]
    """The user's, which are copied to each cluster's StatefulSet."""
    all_annotations: dict[str, str]
    """Those of the user and those that control the federation."""
    preferences: Preferences = Preferences()
    errors: tuple[str, ...] = ()
    """Validation errors: while there are any, nothing is changed for the set."""
    overrides: Overrides = Overrides()
    choice: ClusterChoice = ClusterChoice()
    fleet_revision: str = ""
    """The revision of the set as it was submitted, if this is one cluster's version of it."""

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def namespace(self) -> str:
        return self.object.metadata.namespace

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    @property
    def ref(self) -> ObjectRef:
        return object_ref(self.object)

    @property
    def terminating(self) -> bool:
        """Whether it has a deletionTimestamp."""
        return self.object.metadata.deletion_timestamp is not None

    @property
    def orphaned(self) -> bool:
        """Whether its host has deleted it with `--cascade=orphan`, by annotation of its copy."""
        return ORPHANED in self.object.metadata.annotations

    @property
    def load_balanced(self) -> bool:
        """Whether each replica gets a load balancer: annotation statefulset-lb-needed is true."""
        return self.all_annotations.get(LB_NEEDED, "false") == "true"

    @property
    def redistributes(self) -> bool:
        """Whether others get the share of a cluster that has left, by annotation on-leave."""
        return self.all_annotations.get(ON_LEAVE, "keep") == "redistribute"

    @property
    def updates_cluster_by_cluster(self) -> bool:
        """Whether annotation `update` lets templates roll out cluster by cluster, ascending."""
        return self.all_annotations.get(UPDATE, "everywhere") == "cluster-by-cluster"

    @property
    def max_unavailable(self) -> int:
        """How many replicas of all clusters may be down by our doing at a time, at least 1.

        By annotation, else a FederatedStatefulSet's `spec.maxUnavailable`, else the update
        strategy. An annotation that is no number in range is ignored.
        """
        number = parse_number(self.all_annotations.get(MAX_UNAVAILABLE, ""), MAX_BUDGET)
        if number is not None:
            return max(number, 1)
        if isinstance(self.object, FederatedStatefulSet) and self.object.spec.max_unavailable:
            return self.object.spec.max_unavailable
        return self.replaced_at_once

    @property
    def replaced_at_once(self) -> int:
        """The update strategy's maxUnavailable in pods; 1 without it (API servers may drop it)."""
        return _resolve_count(self._rolling_update.get("maxUnavailable"), self.spec.replicas)

    @property
    def disrupts_while_away(self) -> bool:
        """Whether annotation disrupt-while-away lets roll-outs go on while a cluster is away."""
        return self.all_annotations.get(DISRUPT_WHILE_AWAY, "false") == "true"

    @property
    def disrupts_without(self) -> frozenset[ClusterId]:
        """The clusters that roll-outs do not wait for, by annotation hanse.dev/disrupt-without."""
        names = self.all_annotations.get(DISRUPT_WITHOUT, "").split(",")
        return frozenset(filter(None, map(str.strip, names)))

    @property
    def rolls(self) -> bool:
        """Whether the update strategy is RollingUpdate, and not OnDelete."""
        return bool(self.spec.update_strategy.get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def partition(self) -> int:
        """`rollingUpdate.partition`: how many replicas of all clusters keep their template.

        They are counted from the end of the roll-out. 0 without it.
        """
        value = self._rolling_update.get("partition")
        return value if isinstance(value, int) else 0

    @property
    def _rolling_update(self) -> Wire:
        """`spec.updateStrategy.rollingUpdate`; empty without one."""
        return self.spec.update_strategy.get("rollingUpdate") or {}

    @property
    def rebalance(self) -> str:
        """The token of the requested rebalance, empty without one; another value is a new request.

        It is the annotation's value, with a hash of the preferences if these request it.
        """
        wish = self.all_annotations.get(REBALANCE, "")[:253]
        if not self.preferences.rebalances:
            return wish
        text = self.all_annotations.get(PREFERENCES, "")
        digest = blake2b(text.encode(), digest_size=8).hexdigest()
        return f"{wish[:200]} {digest}".strip()

    @property
    def revision(self) -> str:
        """`<name>-<hash>` of what replaces pods: submitted template, overrides and first ordinal.

        It is the same for each cluster's version of the set.
        """
        more = {"overrides": self.all_annotations.get(OVERRIDES), "start": self.first_ordinal}
        template = {**self.spec.template, **{name: value for name, value in more.items() if value}}
        return self.fleet_revision or template_revision(self.name, template)

    def in_cluster(self, cluster: ClusterId) -> "SubmittedSet":
        """The set with one cluster's overrides applied to its spec; the revision stays the same."""
        spec = overridden_spec(self.spec, self.overrides.of(cluster))
        return replace(self, spec=spec, fleet_revision=self.revision)

    @property
    def first_ordinal(self) -> int:
        """`spec.ordinals.start`; 0 without it."""
        return self.spec.ordinals.start if self.spec.ordinals is not None else 0


def find_submitted_set(key: Key, snapshot: Snapshot, broker: ClusterId) -> SubmittedSet | None:
    """The set of a name: a StatefulSet if the broker has no nodes, or a FederatedStatefulSet.

    If there are both, the older one: a set never takes over another kind of set. None without any.
    """
    found = _list_submitted_sets(key, snapshot, broker)
    return found[0] if found else None


def find_shadowed_set(key: Key, snapshot: Snapshot, broker: ClusterId) -> SubmittedSet | None:
    """The younger of two sets of one name and different kinds; else None."""
    found = _list_submitted_sets(key, snapshot, broker)
    return found[1] if len(found) > 1 else None


def _list_submitted_sets(key: Key, snapshot: Snapshot, broker: ClusterId) -> list[SubmittedSet]:
    """The sets of one name at the broker, of both kinds, the oldest first.

    StatefulSets count only if the broker's nodes are listed, and there are none.
    """
    found: list[SubmittedSet] = []
    stateful_set = snapshot.get(broker, StatefulSet, key.name, key.namespace)
    if stateful_set is not None and accepts_stateful_sets(snapshot, broker):
        found.append(from_stateful_set(stateful_set))
    federated_set = snapshot.get(broker, FederatedStatefulSet, key.name, key.namespace)
    if federated_set is not None:
        found.append(from_federated_stateful_set(federated_set))
    if len(found) > 1:
        found.sort(key=lambda s: s.object.metadata.creation_timestamp or snapshot.now)
    return found


def with_last_applied(
    submitted: SubmittedSet, stateful_set: StatefulSet | None, *, load_balanced: bool
) -> SubmittedSet | None:
    """An invalid set with spec and metadata of the StatefulSet in this cluster, which runs on.

    Without a StatefulSet it keeps its own spec; None if that cannot be decoded. It needs load
    balancers as `load_balanced` says.
    """
    annotations = {
        **submitted.all_annotations,
        LB_NEEDED: "true" if load_balanced else "false",
    }
    if stateful_set is not None:
        meta = stateful_set.metadata
        return replace(
            submitted,
            spec=stateful_set.spec,
            labels=user_metadata(meta.labels),
            annotations=user_metadata(meta.annotations),
            all_annotations=annotations,
        )
    return replace(submitted, all_annotations=annotations) if submitted.spec.template else None


def accepts_stateful_sets(snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether StatefulSets at the broker are distributed: nodes are listed, and there are none."""
    return snapshot.listed(broker, Node) and next(snapshot.all(broker, Node), None) is None


def from_stateful_set(submitted: StatefulSet) -> SubmittedSet:
    """The set for a StatefulSet at the broker; invalid annotations are errors in the result."""
    meta = submitted.metadata
    annotations = meta.annotations
    preferences = (
        parse_preferences(annotations[PREFERENCES]) if PREFERENCES in annotations else Preferences()
    )
    overrides, choice = parse_overrides(annotations.get(OVERRIDES, "")), parse_choice(annotations)
    errors = (
        *_validation_errors(meta.name, submitted.spec, annotations),
        *preferences.errors,
        *overrides.errors,
        *choice.errors,
    )
    return SubmittedSet(
        submitted,
        submitted.spec,
        user_metadata(meta.labels),
        user_metadata(annotations),
        annotations,
        preferences,
        tuple(errors),
        overrides,
        choice,
    )


def from_federated_stateful_set(submitted: FederatedStatefulSet) -> SubmittedSet:
    """The set for a FederatedStatefulSet; an undecodable spec gives an empty one and an error."""
    meta, template = submitted.metadata, submitted.spec.template
    template_meta = template.metadata
    annotations = {**template_meta.annotations, **meta.annotations}
    preferences = _preferences(submitted, annotations)
    overrides, choice = parse_overrides(annotations.get(OVERRIDES, "")), parse_choice(annotations)
    try:
        spec = msgspec.convert(template.spec, StatefulSetSpec)
        errors = [*_validation_errors(meta.name, spec, annotations), *preferences.errors]
        errors += [*overrides.errors, *choice.errors]
    except msgspec.ValidationError as error:
        spec = StatefulSetSpec()
        errors = [f"spec.template.spec: {error}; mend that field"]
    return SubmittedSet(
        submitted,
        spec,
        user_metadata(template_meta.labels),
        user_metadata(template_meta.annotations),
        annotations,
        preferences,
        tuple(errors),
        overrides,
        choice,
    )


def _preferences(submitted: FederatedStatefulSet, annotations: dict[str, str]) -> Preferences:
    """The preferences of a FederatedStatefulSet, of its placement or else its annotation.

    If it has both, those of the placement with an error.
    """
    placement = submitted.spec.placement
    if PREFERENCES not in annotations:
        return placement_preferences(placement)
    if not placement.clusters:
        return parse_preferences(annotations[PREFERENCES])
    error = f"annotation {PREFERENCES}: spec.placement.clusters says it already; remove one of them"
    return replace(placement_preferences(placement), errors=(error,))


def _resolve_count(value: object, replicas: int) -> int:
    """An `IntOrString` as a number of replicas, at least 1; percentages are rounded up.

    Anything else is 1.
    """
    match value:
        case int():
            return max(value, 1)
        case str() if value.endswith("%"):
            return max(ceil(replicas * (parse_number(value[:-1]) or 0) / 100), 1)
        case _:
            return 1


def format_choices(choices: tuple[str, ...]) -> str:
    """The allowed values of an annotation, for messages: `'keep' or 'redistribute'`."""
    return " or ".join(repr(choice) for choice in choices)


def _validation_errors(
    name: str, spec: StatefulSetSpec, annotations: dict[str, str]
) -> Iterator[str]:
    """The errors of a set's name, of annotations with fixed choices, and of max-unavailable.

    With load balancers also if it has too many replicas, or no serviceName. None if it is valid.
    """
    if bad := name_error(name, ()):
        yield bad
    for annotation, choices in ANNOTATION_CHOICES.items():
        if annotation in annotations and annotations[annotation] not in choices:
            value = annotations[annotation][:40]
            yield f"annotation {annotation}: {value!r} is not {format_choices(choices)}"
    budget = annotations.get(MAX_UNAVAILABLE, "1")
    if not parse_number(budget, MAX_BUDGET):
        numbers = f"a number from 1 to {MAX_BUDGET}"
        yield f"annotation {MAX_UNAVAILABLE}: {budget[:40]!r} is not {numbers}"
    if annotations.get(LB_NEEDED) == "true" and spec.replicas > MAX_BALANCERS:
        yield (
            f"annotation {LB_NEEDED}: {spec.replicas} replicas would need as many load balancers; "
            f"{MAX_BALANCERS} is the most"
        )
    if annotations.get(LB_NEEDED) == "true" and not spec.service_name:
        yield f"annotation {LB_NEEDED}: it needs spec.serviceName, whose ports replicas serve"
