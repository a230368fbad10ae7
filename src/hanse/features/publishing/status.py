"""The `Published` condition of the objects whose names are published."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from hanse.model.conditions import Condition, condition, find_condition, merge_conditions
from hanse.model.facts import Role, WriteOutcome
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.names import PublishedName
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import ClusterObjectRef, Object, object_ref
from hanse.model.ownership import owner_claim
from hanse.model.plan import Desired, EventRequest, Key, Patch
from hanse.model.snapshot import Index, Snapshot, Watch, Writes
from hanse.model.status import condition_events

PUBLISHED = "Published"
"""The condition type; it is set once a name cannot be published."""

STATUS_KINDS: tuple[type[Object], ...] = (ServiceImport, GlobalService)
"""Kinds watched by zone sources whose objects get the condition."""

STATEFULSETS = "statefulsets"
"""The zone source whose names belong to sets on the broker."""

SET_WATCHES = (
    Watch(Role.BROKER, StatefulSet, writes=Writes.STATUS),
    Watch(Role.BROKER, FederatedStatefulSet, writes=Writes.STATUS),
)
"""The submitted sets, which get the condition of their replicas' names."""

ENDPOINTS_BY_DNS_NAME = Index(
    DNSEndpoint, "publishing-names", lambda e: {record.dns_name for record in e.spec.endpoints}
)
TAKEN = "NameTaken"
_FAILED_RESULTS = ("Refused", "Forbidden")
_MAX_MESSAGE = 1024


class _Subject(Struct, frozen=True):
    """An object that gets the condition, with its current conditions."""

    ref: ClusterObjectRef
    conditions: tuple[Condition, ...]
    generation: int
    counts_generations: bool = True
    """Whether its conditions have `observedGeneration`."""


class _Failure(Struct, frozen=True):
    """One name that is not published, and why."""

    name: str
    reason: str
    message: str


def status_changes(
    key: Key, desired: Sequence[Desired], snapshot: Snapshot
) -> tuple[tuple[Patch, ...], tuple[EventRequest, ...]]:
    """Status patches for the objects of a key, and Events when publishing fails or works again.

    There is no condition before the first failure, and no change while the state is unknown: no
    name fails, and not all are published yet.
    """
    patches: list[Patch] = []
    events: list[EventRequest] = []
    failures = [failure for item in desired for failure in _failures(key, item, snapshot)]
    complete = all(_is_published(key, item, snapshot) for item in desired)
    for subject in _subjects_of(key, snapshot):
        current = find_condition(subject.conditions, PUBLISHED)
        desired_condition = _condition(failures, current, complete=complete)
        if desired_condition is None:
            continue
        patches.append(_patch(subject, desired_condition, snapshot))
        events += condition_events(subject.ref, subject.conditions, [desired_condition])
    return tuple(patches), tuple(events)


def conflicting_keys(endpoint: DNSEndpoint, feature: str, snapshot: Snapshot) -> Iterator[str]:
    """The keys of a feature's DNSEndpoints here that share a name with this one, its own too.

    They are texts, once for each shared name; only of DNSEndpoints that serve this cluster.
    """
    for record in endpoint.spec.endpoints:
        for other in snapshot.by(snapshot.local, ENDPOINTS_BY_DNS_NAME, record.dns_name):
            claim = owner_claim(other)
            if claim is not None and (claim.feature, claim.serves) == (feature, snapshot.local):
                yield claim.key


def _patch(subject: _Subject, desired_condition: Condition, snapshot: Snapshot) -> Patch:
    """The status patch that sets the condition beside the subject's others.

    Without `observedGeneration` where the subject's conditions do not have it.
    """
    after = msgspec.to_builtins(
        merge_conditions(subject.conditions, [desired_condition], snapshot.now, subject.generation)
    )
    if not subject.counts_generations:
        for item in after:
            item.pop("observedGeneration", None)
    return Patch(subject.ref, {"status": {"conditions": after}}, "status")


def _subjects_of(key: Key, snapshot: Snapshot) -> Iterator[_Subject]:
    """The objects that get the condition of a key: a local ServiceImport or GlobalService.

    For names of stateful sets, those sets on the broker whose StatefulSetShares name the key's
    Service. None for other topics, and for objects that do not exist.
    """
    match key.topic:
        case "services.service":
            found = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
            yield from _subjects(snapshot.local, [found])
        case "gslb.host":
            host = snapshot.get(snapshot.local, GlobalService, key.name, NAMESPACE)
            yield from _subjects(snapshot.local, [host])
        case "statefulsets.stateful":
            for broker in snapshot.clusters(Role.BROKER):
                for shares in snapshot.in_namespace(broker, StatefulSetShares, key.namespace):
                    if shares.spec.service != key.name:
                        continue
                    at = (shares.metadata.name, shares.metadata.namespace)
                    yield from _subjects(
                        broker,
                        [
                            snapshot.get(broker, StatefulSet, *at),
                            snapshot.get(broker, FederatedStatefulSet, *at),
                        ],
                    )


def _subjects(
    where: str,
    several: Iterable[ServiceImport | GlobalService | StatefulSet | FederatedStatefulSet | None],
) -> Iterator[_Subject]:
    """Existing objects as subjects, with conditions; None is skipped.

    Those of a StatefulSet have no `observedGeneration`.
    """
    for obj in several:
        if obj is None:
            continue
        ref, generation = ClusterObjectRef(where, object_ref(obj)), obj.metadata.generation
        if isinstance(obj, StatefulSet):
            conditions = tuple(c.as_condition for c in obj.status.conditions)
            yield _Subject(ref, conditions, generation, counts_generations=False)
        else:
            yield _Subject(ref, obj.status.conditions, generation)


def _condition(
    failures: Sequence[_Failure], current: Condition | None, *, complete: bool
) -> Condition | None:
    """Published: False with the first failure, and how many more; else True or no change.

    True if the condition was set before and all is published (`complete`); None: no change.
    """
    if failures:
        first, more = failures[0], len(failures) - 1
        others = f" (and {more} more of its names)" if more else ""
        text = f"{first.name} is not published{others}: {first.message}"
        return condition(PUBLISHED, False, first.reason, text[:_MAX_MESSAGE])
    if current is None or not complete:
        return None
    return condition(PUBLISHED, True, PUBLISHED, "its names are as they should be")


def _failures(key: Key, item: Desired, snapshot: Snapshot) -> Iterator[_Failure]:
    """Why a desired object is not published: another owner has it, or its write was refused.

    Else the names of a DNSEndpoint that another one has, too; none if it is merely not written yet.
    """
    ref = ClusterObjectRef(item.where, object_ref(item.object))
    found = snapshot.find(ref)
    outcome = snapshot.fact(WriteOutcome, ref)
    if found is not None and not _is_ours(key, found, snapshot):
        yield _Failure(_published_name(item.object), TAKEN, _conflict_message(found))
    elif outcome is not None and outcome.result in _FAILED_RESULTS:
        yield _Failure(_published_name(item.object), outcome.result, outcome.message)
    elif isinstance(item.object, DNSEndpoint):
        yield from _name_conflicts(item.object, snapshot)


def _name_conflicts(endpoint: DNSEndpoint, snapshot: Snapshot) -> Iterator[_Failure]:
    """A failure for each name that another DNSEndpoint has, too: ExternalDNS would publish either.

    It is by whatever owner; each name once.
    """
    for name in dict.fromkeys(record.dns_name for record in endpoint.spec.endpoints):
        for other in snapshot.by(snapshot.local, ENDPOINTS_BY_DNS_NAME, name):
            if other.metadata.name != endpoint.metadata.name:
                yield _Failure(name, TAKEN, _conflict_message(other))
                break


def _published_name(obj: Object) -> str:
    """The name of a PublishedName, or the first name of a DNSEndpoint."""
    if isinstance(obj, DNSEndpoint):
        return obj.spec.endpoints[0].dns_name
    return obj.name


def _is_published(key: Key, item: Desired, snapshot: Snapshot) -> bool:
    """Whether the desired object exists and belongs to the key."""
    found = snapshot.find(ClusterObjectRef(item.where, object_ref(item.object)))
    return found is not None and _is_ours(key, found, snapshot)


def _is_ours(key: Key, found: Object, snapshot: Snapshot) -> bool:
    """Whether the owner claim of an object is of this key and of the local cluster.

    False without a claim; the feature of the claim does not count.
    """
    claim = owner_claim(found)
    return claim is not None and (claim.key, claim.serves) == (str(key), snapshot.local)


def _conflict_message(found: Object) -> str:
    """The message for a name that another object has: who owns it, and what to do.

    By the owner claim of a DNSEndpoint or PublishedName, else for one that Hanse did not make.
    """
    claim = owner_claim(found)
    if claim is not None:
        return (
            f"{claim.serves} publishes it for {claim.key}; let one cluster alone publish the zone, "
            "or give one of the two another name"
        )
    if isinstance(found, PublishedName):
        return (
            "it stands in the zone already and was not made by Hanse; delete its records there, "
            "or end what the name is of"
        )
    return (
        f"DNSEndpoint {found.metadata.namespace}/{found.metadata.name}, not made by Hanse, has it, "
        "too, and ExternalDNS takes either; take the name out of it, or end what the name is of"
    )
