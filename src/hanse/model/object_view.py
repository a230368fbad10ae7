"""A view of single objects that say themselves what is wrong with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hanse.model.conditions import Condition
from hanse.model.facts import Role
from hanse.model.findings import Finding, Remedy, Severity, remedy, subject_of
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.ownership import OWNER, is_paused
from hanse.model.paused_objects import pause_finding
from hanse.model.remedies import (
    correct_rival_remedy,
    delete_obstacle_commands,
    erase_annotation_commands,
    resource_of,
)
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ALL_KEYS, Item

Check = Callable[[Any, ClusterId, MultiClusterSnapshot], Iterable[Finding]]
"""What is wrong with an object of one kind in one cluster."""


class ObjectRule(Struct, frozen=True):
    """A kind, and what is wrong with its objects."""

    kind: type[Object]
    check: Check
    namespace: str = ""
    labels: str = ""


class ObjectsView:
    """The objects with which something is wrong, by cluster, kind, namespace and name."""

    def __init__(self, name: str, rules: Sequence[ObjectRule], reads: Sequence[Watch] = ()) -> None:
        """A view of the rules' kinds; `reads` are the watches of what their checks read besides.

        Of several rules for kinds of the same name the last one counts.
        """
        self.name = name
        self._also_read = tuple(reads)
        self._rules = {rule.kind.kind.name: rule for rule in rules}

    @property
    def reads(self) -> tuple[Watch, ...]:
        """A watch of each rule's kind in role LOCAL, and those of what the checks read besides."""
        rules = self._rules.values()
        own = (Watch(Role.LOCAL, r.kind, r.namespace, r.labels) for r in rules)
        return (*own, *self._also_read)

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The keys `<cluster>|<kind>|<namespace>|<name>` of objects with findings, in all clusters.

        A paused object has one.
        """
        return [
            _key(where, obj)
            for rule in self._rules.values()
            for where, obj in snapshot.everywhere(rule.kind)
            if next(_check(rule, obj, where, snapshot), None) is not None
        ]

    def keys_for(self, change: Change) -> Iterable[str]:
        """The key of a changed object of one of the rules' kinds, whether it has findings or not.

        `ALL_KEYS` for an object of another kind that checks read, if it appears, disappears or
        changes by more than its status. Nothing for other objects, and for facts.
        """
        if isinstance(change, FactChange):
            return ()
        kind = type(change.object)
        if kind.kind.name in self._rules:
            return (_key(change.where, change.object),)
        is_read = any(kind is watch.kind for watch in self._also_read)
        return (ALL_KEYS,) if is_read and change.is_more_than_status else ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Item | None:
        """The findings of an object, ObjectPaused among them, as an item.

        None if nothing is wrong, or the object or its cluster is not in the snapshot.
        """
        where, kind, namespace, name = key.rsplit("|", 3)
        rule = self._rules[kind]
        obj = snapshot.get(where, rule.kind, name, namespace)
        if obj is None or where not in snapshot.clusters:
            return None
        found = tuple(_check(rule, obj, where, snapshot))
        return Item(findings=found) if found else None


def _check(
    rule: ObjectRule, obj: Object, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """ObjectPaused for an object that is annotated so, then the findings of the rule's check."""
    if is_paused(obj):
        yield pause_finding(ClusterObjectRef(where, object_ref(obj)), snapshot)
    yield from rule.check(obj, where, snapshot)


def _key(where: ClusterId, obj: Object) -> str:
    """`<cluster>|<kind>|<namespace>|<name>`."""
    return f"{where}|{type(obj).kind.name}|{obj.namespace}|{obj.name}"


class ConditionRule(Struct, frozen=True):
    """A condition that is wrong in one status, and how it is told."""

    code: str
    severity: Severity = Severity.DEGRADED
    bad: str = "False"


def check_conditions(rules: Mapping[str, ConditionRule]) -> Check:
    """A check with a finding for each condition whose status is `bad` in the rule of its type."""

    def check(obj: Any, where: ClusterId, snapshot: MultiClusterSnapshot) -> Iterable[Finding]:
        """A finding for each bad condition of an object, by the rule of its type."""
        for one in obj.status.conditions:
            rule = rules.get(one.type)
            if rule is not None and one.status == rule.bad:
                yield condition_finding(obj, where, one, rule, snapshot)

    return check


def condition_finding(
    obj: Object,
    where: ClusterId,
    condition: Condition,
    rule: ConditionRule,
    snapshot: MultiClusterSnapshot,
    mend: Remedy | None = None,
) -> Finding:
    """A finding with the rule's code and severity and the condition's message, or else its reason.

    It is since the condition's transition; `mend` replaces the remedy of `object_finding`. The
    condition's status is not checked.
    """
    return object_finding(
        obj,
        where,
        rule.code,
        condition.message or condition.reason,
        snapshot,
        severity=rule.severity,
        mend=mend,
        since=condition.last_transition_time,
    )


def object_finding(
    obj: Object,
    where: ClusterId,
    code: str,
    message: str,
    snapshot: MultiClusterSnapshot,
    *,
    severity: Severity = Severity.DEGRADED,
    mend: Remedy | None = None,
    since: Any = None,
) -> Finding:
    """A finding about an object; its summary is the kind, name and cluster, then the message.

    Without `mend` its remedy is `_default_remedy`.
    """
    kind, name = type(obj).kind, obj.name
    place = f"{obj.namespace}/{name}" if obj.namespace else name
    return Finding(
        code=code,
        severity=severity,
        subject=subject_of(obj, where),
        summary=f"{kind.name} {place} in {where}: {message}",
        remedy=mend if mend is not None else _default_remedy(obj, where, message, snapshot),
        since=since,
    )


def _default_remedy(
    obj: Object, where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> Remedy:
    """A command that removes the annotation, or else deletes the object, that the message names.

    It comes with the advice "or correct it". Without such a command: `correct_rival_remedy` for an
    object with the owner label, and for others the advice that the author edits the object.
    """
    commands = erase_annotation_commands(obj, where, message, snapshot) or delete_obstacle_commands(
        where, message, snapshot
    )
    if not commands and OWNER in obj.metadata.labels:
        return correct_rival_remedy(where, message, snapshot)
    edit = snapshot.kubectl(where, f"edit {resource_of(obj)} {obj.name}", obj.namespace)
    advice = (
        "or correct it" if commands else f"its author corrects it, as the message says: `{edit}`"
    )
    return remedy(*commands, advice=advice)
