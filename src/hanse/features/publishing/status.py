"""What keeps names from being published, told on the object that they are names of; pure."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from hanse.model.conditions import Condition, condition, find, merged
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

PUBLISHED = "Published"
"""The condition of what has names that are to be published; told once one cannot be."""

STATUS_KINDS: tuple[type[Object], ...] = (ServiceImport, GlobalService)
"""Kinds that sources watch, and whose objects are told of their names."""

STATEFULSETS = "statefulsets"
"""The zone source whose names belong to sets on the broker."""

SET_WATCHES = (
    Watch(Role.BROKER, StatefulSet, writes=Writes.STATUS),
    Watch(Role.BROKER, FederatedStatefulSet, writes=Writes.STATUS),
)
"""What replicas are names of, as it was submitted."""

BY_DNS_NAME = Index(
    DNSEndpoint, "publishing-names", lambda e: {record.dns_name for record in e.spec.endpoints}
)
TAKEN = "NameTaken"
_HINDERED = ("Refused", "Forbidden")
_MOST = 1024


class _Subject(Struct, frozen=True):
    """An object that people look at for its names, and what it says by now."""

    place: ClusterObjectRef
    conditions: tuple[Condition, ...]
    generation: int
    counts_generations: bool = True
    """Whether its conditions say which generation they are of."""


class _Fault(Struct, frozen=True):
    """One name that is not published, and why."""

    name: str
    reason: str
    why: str


def told(
    key: Key, desired: Sequence[Desired], snapshot: Snapshot
) -> tuple[tuple[Patch, ...], tuple[EventRequest, ...]]:
    """The condition of whose names these are, with an Event when it turns bad.

    Nothing is told of what always went well, nor while it is not known how names stand.
    """
    patches: list[Patch] = []
    events: list[EventRequest] = []
    faults = [fault for one in desired for fault in _faults(key, one, snapshot)]
    whole = all(_stands(key, one, snapshot) for one in desired)
    for subject in _concerned(key, snapshot):
        standing = find(subject.conditions, PUBLISHED)
        wanted = _condition(faults, standing, whole=whole)
        if wanted is None:
            continue
        patches.append(_patch(subject, wanted, snapshot))
        turned = standing is None or standing.reason != wanted.reason
        if wanted.status == "False" and turned:
            events.append(EventRequest(subject.place, wanted.reason, wanted.message, "Warning"))
    return tuple(patches), tuple(events)


def conflicting_keys(endpoint: DNSEndpoint, feature: str, snapshot: Snapshot) -> Iterator[str]:
    """The keys of ours whose names another DNSEndpoint has, too."""
    for record in endpoint.spec.endpoints:
        for other in snapshot.by(snapshot.local, BY_DNS_NAME, record.dns_name):
            claim = owner_claim(other)
            if claim is not None and (claim.feature, claim.serves) == (feature, snapshot.local):
                yield claim.key


def _patch(subject: _Subject, wanted: Condition, snapshot: Snapshot) -> Patch:
    after = msgspec.to_builtins(
        merged(subject.conditions, [wanted], snapshot.now, subject.generation)
    )
    if not subject.counts_generations:
        for one in after:
            one.pop("observedGeneration", None)
    return Patch(subject.place, {"status": {"conditions": after}}, "status")


def _concerned(key: Key, snapshot: Snapshot) -> Iterator[_Subject]:
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
    for obj in several:
        if obj is None:
            continue
        place, generation = ClusterObjectRef(where, object_ref(obj)), obj.metadata.generation
        if isinstance(obj, StatefulSet):
            conditions = tuple(c.told for c in obj.status.conditions)
            yield _Subject(place, conditions, generation, counts_generations=False)
        else:
            yield _Subject(place, obj.status.conditions, generation)


def _condition(
    faults: Sequence[_Fault], standing: Condition | None, *, whole: bool
) -> Condition | None:
    if faults:
        first, more = faults[0], len(faults) - 1
        others = f" (and {more} more of its names)" if more else ""
        text = f"{first.name} is not published{others}: {first.why}"
        return condition(PUBLISHED, False, first.reason, text[:_MOST])
    if standing is None or not whole:
        return None
    return condition(PUBLISHED, True, PUBLISHED, "its names are as they should be")


def _faults(key: Key, one: Desired, snapshot: Snapshot) -> Iterator[_Fault]:
    place = ClusterObjectRef(one.where, object_ref(one.object))
    found = snapshot.find(place)
    outcome = snapshot.fact(WriteOutcome, place)
    if found is not None and not _is_ours(key, found, snapshot):
        yield _Fault(_name_of(one.object), TAKEN, _whose(found))
    elif outcome is not None and outcome.result in _HINDERED:
        yield _Fault(_name_of(one.object), outcome.result, outcome.message)
    elif isinstance(one.object, DNSEndpoint):
        yield from _contested(one.object, snapshot)


def _contested(wanted: DNSEndpoint, snapshot: Snapshot) -> Iterator[_Fault]:
    """Names that another DNSEndpoint has, too: ExternalDNS would take either."""
    for name in dict.fromkeys(record.dns_name for record in wanted.spec.endpoints):
        for other in snapshot.by(snapshot.local, BY_DNS_NAME, name):
            if other.metadata.name != wanted.metadata.name:
                yield _Fault(name, TAKEN, _whose(other))
                break


def _name_of(obj: Object) -> str:
    """The name that is published, or the first of several."""
    if isinstance(obj, DNSEndpoint):
        return obj.spec.endpoints[0].dns_name
    return obj.name


def _stands(key: Key, one: Desired, snapshot: Snapshot) -> bool:
    found = snapshot.find(ClusterObjectRef(one.where, object_ref(one.object)))
    return found is not None and _is_ours(key, found, snapshot)


def _is_ours(key: Key, found: Object, snapshot: Snapshot) -> bool:
    claim = owner_claim(found)
    return claim is not None and (claim.key, claim.serves) == (str(key), snapshot.local)


def _whose(found: Object) -> str:
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
